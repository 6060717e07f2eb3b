"""How often each token comes out first when many drafts are verified, by the rules lanes run."""

from collections.abc import Sequence

import torch

from spork_demo.decoding.drafters.proposal import Proposal
from spork_demo.decoding.sampling import draw
from spork_demo.decoding.verify import verify_article, verify_exact
from spork_demo.host import RuleCounts


def rule_counts(p: Sequence[float], q: Sequence[float], draws: int, seed: int) -> RuleCounts:
    """Draw `draws` drafts of one token from q and verify each against p by either rule."""
    target, drafter = torch.tensor(p), torch.tensor(q)
    generator = torch.Generator().manual_seed(seed)
    exact, article = [0] * len(p), [0] * len(p)
    for _ in range(draws):
        token = draw(drafter, generator)
        proposal = Proposal((token,), (-1,), (float(drafter[token]),), (drafter,))
        for verify, counts in ((verify_exact, exact), (verify_article, article)):
            verdict = verify(lambda _: target, proposal, generator)
            counts[token if verdict.path else verdict.own] += 1
    return RuleCounts(tuple(exact), tuple(article))
