"""What-if verdicts against the decoder's own rules, run again on the same draws."""

from random import Random

import torch

from spork_demo.decoding.drafters.proposal import Proposal
from spork_demo.decoding.verify import (
    confidence_thresholds,
    verify_article,
    verify_exact,
    verify_greedy,
)
from spork_demo.settings import Settings
from spork_demo.trace import Node, Round, Token, Trace
from spork_demo.what_if import recorded, with_length, with_thresholds
from tests.handmade_rounds import make_round

VOCABULARY = 5
DRAFTS = 4
RUNS = 150


def tables(chance: Random) -> tuple[torch.Tensor, Proposal]:
    """The target's distribution after each prefix, and a drafted chain with probabilities."""
    rows = torch.tensor([[chance.random() ** 3 for _ in range(VOCABULARY)] for _ in range(5)])
    p = rows.double() / rows.double().sum(dim=-1, keepdim=True)
    tokens = tuple(chance.randrange(VOCABULARY) for _ in range(DRAFTS))
    q = tuple(chance.random() for _ in range(DRAFTS))
    return p, Proposal(tokens, (-1, 0, 1, 2), q, (None,) * DRAFTS)


def written(p: torch.Tensor, proposal: Proposal, verdict, sent: int, limits=()) -> Round:
    """The round as a trace records it."""
    nodes = tuple(
        Node(
            token, f"t{token}", k - 1,
            "cut" if k >= sent else "accepted" if k in verdict.path else "rejected",
            proposal.probabilities[k], float(p[k, token]) if k < sent else None,
            proposal.probabilities[k], limits[k] if limits else None,
        )
        for k, token in enumerate(proposal.tokens)
    )  # fmt: skip
    committed = [Token(nodes[k].token, nodes[k].text, "accepted") for k in verdict.path]
    own = Token(verdict.own, f"t{verdict.own}", "correction" if verdict.is_correction else "bonus")
    return make_round(0, nodes, (*committed, own), scheduled=sent)


def one_hot(p: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(p).scatter_(-1, p.argmax(dim=-1, keepdim=True), 1.0)


def agrees(told, verdict) -> bool:
    """Nothing the answer claims is contradicted by what the decoder did."""
    path = verdict.path
    fits = path[: len(told.kept)] == told.kept
    if told.open is None:
        fits = fits and path == told.kept
        fits = fits and (told.fate == "correction") == verdict.is_correction
    return fits and (told.own is None or told.own.token == verdict.own)


def test_other_thresholds_on_the_same_draws_follow_the_articles_rule():
    chance, certain, named = Random(4), 0, 0
    for run in range(RUNS):
        p, proposal = tables(chance)
        for temperature in (0.0, 1.0):
            judged = one_hot(p) if temperature == 0 else p
            low, high = sorted((chance.random(), chance.random()))
            settings = Settings(
                "dspark", "article", temperature=temperature,
                min_threshold=low, max_threshold=high,
            )  # fmt: skip
            limits = confidence_thresholds(proposal, low, high)[1]

            def again(limits, judged=judged, proposal=proposal, run=run):
                generator = torch.Generator().manual_seed(run)
                return verify_article(lambda row: judged[row], proposal, generator, limits)

            first = again(limits)
            lane = Trace(settings, "p", rounds=(written(p, proposal, first, DRAFTS, limits),))
            assert with_thresholds(lane, 0, low, high) == recorded(lane.rounds[0])
            for other in ((0.0, 0.0), (0.1, 0.5), (0.5, 1.0), (1.0, 1.0), (low, 1.0)):
                told = with_thresholds(lane, 0, *other)
                verdict = again(confidence_thresholds(proposal, *other)[1])
                assert agrees(told, verdict), (run, temperature, other)
                certain += told.open is None
                named += told.own is not None
    assert certain > 0.6 * RUNS * 10 and named > 0.3 * RUNS * 10


def test_an_open_draw_is_kept_as_often_as_the_answer_says():
    p = torch.full((2, 4), 0.25, dtype=torch.float64)
    proposal = Proposal((0,), (-1,), (0.5,), (None,))
    limits = (0.3,)
    first = verify_article(lambda row: p[row], proposal, torch.Generator(), limits)
    settings = Settings("dspark", "article", temperature=1.0)
    lane = Trace(settings, "p", rounds=(written(p, proposal, first, 1, limits),))
    told = with_thresholds(lane, 0, 0.1, 0.1)
    assert (told.open, told.chance) == (0, 0.25)
    kept = 0
    for seed in range(2000):
        generator = torch.Generator().manual_seed(seed)
        kept += len(verify_article(lambda row: p[row], proposal, generator, (0.1,)).path)
    assert abs(kept / 2000 - told.chance) < 0.04


def test_another_length_on_the_same_draws_follows_the_exact_rule():
    chance, certain = Random(9), 0
    for run in range(RUNS):
        p, proposal = tables(chance)
        for temperature in (0.0, 1.0):
            settings = Settings("dspark", temperature=temperature)

            def again(length, temperature=temperature, p=p, proposal=proposal, run=run):
                cut = Proposal(
                    proposal.tokens[:length], proposal.parents[:length],
                    proposal.probabilities[:length], proposal.sampled_from[:length],
                )  # fmt: skip
                if temperature == 0:
                    return verify_greedy(p.argmax(dim=-1).tolist(), cut)
                generator = torch.Generator().manual_seed(run)
                return verify_exact(lambda row: p[row], cut, generator)

            for sent in range(1, DRAFTS + 1):
                verdict = again(sent)
                lane = Trace(settings, "p", rounds=(written(p, proposal, verdict, sent),))
                for length in range(DRAFTS + 1):
                    told = with_length(lane, 0, length)
                    assert agrees(told, again(length)), (run, temperature, sent, length)
                    certain += told.open is None
    assert certain > 0.9 * RUNS * 40
