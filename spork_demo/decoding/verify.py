"""Which drafted tokens the target keeps, and the token it adds. Letters as in the papers:
p is the target's distribution after a prefix, q the one a drafted token was drawn from.

`verify_exact` leaves the output distributed as the target's own (Leviathan et al. 2023,
arXiv 2211.17192; siblings one after another on the shrinking residual as in SpecInfer,
arXiv 2305.09781). `verify_article` reproduces the articles' rule and is biased.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from spork_demo.decoding.drafters.proposal import Proposal
from spork_demo.decoding.sampling import draw, residual, uniform, without

Row = Callable[[int], Tensor]
"""Target distribution [vocabulary] after row n of the call: 0 is the anchor, n + 1 is node n."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """path: accepted nodes, from the anchor outwards. own: the token the target adds after them.
    is_correction: whether that token stands where drafted ones were refused.
    """

    path: tuple[int, ...]
    own: int
    is_correction: bool


def verify_exact(row: Row, proposal: Proposal, generator: torch.Generator) -> Verdict:
    """Walk down the tree; at each node try its children in turn, then draw from what is left.

    A chosen child is a point mass: it is kept with probability p(x) and otherwise struck out of
    p, which is the same as drawing once from p and following the child that equals the draw. A
    child drawn from q is kept with probability min(1, p(x) / q(x)), otherwise p becomes the
    normalised max(0, p - q). At temperature 0, p is one-hot and both say "equals the argmax".
    """
    path: list[int] = []
    while True:
        node = path[-1] if path else -1
        p, kept = row(node + 1), None
        children = proposal.children(node)
        for child in children:
            token, q = proposal.tokens[child], proposal.sampled_from[child]
            chance = float(p[token]) if q is None else float(p[token] / q[token])
            if chance > 0 and (chance >= 1 or uniform(p, generator) < chance):
                kept = child
                break
            p = without(p, token) if q is None else residual(p, q)
        if kept is None:
            return Verdict(tuple(path), draw(p, generator), bool(children))
        path.append(kept)


def verify_greedy(best: Sequence[int], proposal: Proposal) -> Verdict:
    """What `verify_exact` comes to at temperature 0: follow the child that is the argmax.

    best: the target's most probable token after each row of the call.
    """
    path: list[int] = []
    while True:
        node = path[-1] if path else -1
        own, children = best[node + 1], proposal.children(node)
        kept = next((child for child in children if proposal.tokens[child] == own), None)
        if kept is None:
            return Verdict(tuple(path), own, bool(children))
        path.append(kept)


def verify_article(
    row: Row,
    proposal: Proposal,
    generator: torch.Generator,
    thresholds: tuple[float, ...] | None = None,
) -> Verdict:
    """The articles' rule on a chain: keep x when r < p(x), r uniform, and p(x) > its threshold.

    On refusal the token is drawn from p itself, not from the residual, which is why the output
    is not the target's at temperature > 0.
    """
    for node, token in enumerate(proposal.tokens):
        p = row(node)
        chance = float(p[token])
        over = thresholds is None or chance > thresholds[node]
        if not (over and uniform(p, generator) < chance):
            return Verdict(tuple(range(node)), draw(p, generator), is_correction=True)
    last = len(proposal.tokens)
    return Verdict(tuple(range(last)), draw(row(last), generator), is_correction=False)


def confidence_thresholds(
    proposal: Proposal, low: float, high: float
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Article DSpark: confidence c is the draft's top-1 probability, and the threshold falls
    linearly with it, clamp(high - c (high - low), low, high). Returns (confidences, thresholds).
    """
    confidences = tuple(p if p is not None else 0.0 for p in proposal.probabilities)
    thresholds = tuple(min(high, max(low, high - c * (high - low))) for c in confidences)
    return confidences, thresholds
