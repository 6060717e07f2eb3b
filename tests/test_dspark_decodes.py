"""Recorded decodes of the original code, reproduced: ids, lengths, context and verification."""

import pytest
import torch

from spork_demo.decoding.drafters.proposal import Proposal
from spork_demo.decoding.schedule import scheduler
from spork_demo.decoding.verify import verify_exact
from spork_demo.settings import Settings
from spork_demo.trace import Trace, fold
from tests.dspark_lanes import parity_pair, watched
from tests.dspark_parity import (
    DRAFTERS,
    IO,
    PROMPTS,
    STOP,
    recorded,
    rounds,
)


@pytest.mark.parametrize("name", list(IO["greedy"]))
def test_every_recorded_greedy_decode_is_reproduced(name):
    """All 143: ids, accepted length, drafts sent and drafts accepted of every round."""
    drafter, threshold, fraction, place, stopping = name.split(".")
    about, prompt = IO["greedy"][name], PROMPTS[int(place[1:])]
    stop = (STOP,) if stopping == "stop" else ()
    # the first token is no round's there; here it is the first anchor
    first = about["output_ids"][len(prompt)]
    settings = Settings(
        method="dspark",
        schedule="threshold",
        confidence_threshold=float(f"{threshold[3:]}.{fraction}"),
        draft_length=5,
        max_new_tokens=len(about["output_ids"]) - len(prompt) - 1 + 6,  # they cut at the end
    )
    pair, schedule = parity_pair(drafter), scheduler(settings)
    events, *_ = watched(pair, settings, [*prompt, first], schedule, stop)
    trace = fold(Trace(settings, "toy"), events)
    ids = [*prompt, first, *trace.ids]
    assert ids[: len(about["output_ids"])] == about["output_ids"]
    seen = trace.rounds[: len(about["acceptance_lengths"])]
    assert [len(round_.committed) for round_ in seen] == about["acceptance_lengths"]
    assert [round_.accepted for round_ in seen] == about["accepted_draft_lengths"]
    # behind an accepted stop token the reference does not count what was proposed
    sent = [
        round_.accepted if round_.committed[-1].fate == "accepted" else round_.scheduled
        for round_ in seen
    ]
    assert sent == about["proposal_lengths"]


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_the_context_is_in_step_every_round(drafter):
    settings = Settings(method="dspark", draft_length=5, max_new_tokens=60)
    first = IO["plain_greedy"]["p0.stop"]["output_ids"][len(PROMPTS[0])]
    prompt = [*PROMPTS[0], first]
    events, target, blocks = watched(parity_pair(drafter), settings, prompt, stop=(STOP,))
    next(events)
    committed, kept = len(prompt), 0
    for number in rounds(drafter):
        about, name = IO["rounds"][f"{drafter}.r{number}"], f"{drafter}.r{number}"
        assert (committed - 1, kept) == (about["start"], about["cache_len_before"])
        assert sum(len(rows) for rows in blocks._waiting) == about["start"] - kept
        waiting = torch.cat(blocks._waiting)
        torch.testing.assert_close(waiting, recorded(f"{name}.ctx_rows"), rtol=0, atol=1e-4)
        round_ = next(events)
        kept = blocks.context.length
        assert kept == about["cache_len_after"] == about["start"]
        assert round_.accepted == about["accepted"]
        committed += len(round_.committed)
        assert target.length == committed - 1
        if not about["stopped"]:
            assert round_.committed[-1].token == about["next_token"]
            assert sum(len(rows) for rows in blocks._waiting) == round_.accepted + 1


@pytest.mark.parametrize("number", range(5))
def test_verification_matches_the_recorded_sampled_round(number, monkeypatch):
    p, q = recorded("verify.p"), recorded("verify.q")
    drafts, case = IO["verify"]["draft_tokens"], IO["verify"]["cases"][number]
    ratio = [min(1.0, float(p[k, x] / q[k, x])) for k, x in enumerate(drafts)]
    assert ratio == pytest.approx(IO["verify"]["accept_prob"], abs=1e-6)
    # a chance of one needs no uniform number
    recorded_ones = recorded(f"verify.case{number}.uniforms").tolist()
    uniforms = iter([u for u, chance in zip(recorded_ones, ratio, strict=True) if chance < 1])
    drawn_from = []
    monkeypatch.setattr("spork_demo.decoding.verify.uniform", lambda *_: next(uniforms))
    monkeypatch.setattr(
        "spork_demo.decoding.verify.draw", lambda own, _: drawn_from.append(own) or 0
    )
    proposal = Proposal(tuple(drafts), (-1, 0, 1, 2, 3), (None,) * 5, tuple(q))
    verdict = verify_exact(lambda row: p[row], proposal, None)
    assert len(verdict.path) == case["accepted"]
    wanted = recorded(f"verify.case{number}.next_token_dist")
    torch.testing.assert_close(drawn_from[0], wanted, rtol=0, atol=1e-6)
