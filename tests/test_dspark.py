"""DSpark lanes at temperature 0: the target's own ids, costs as scheduled, nothing out of step."""

import copy
import dataclasses

import pytest
import torch

from spork_demo.decoding.drafters.blocks import Blocks
from spork_demo.decoding.drafters.dspark import DSparkChain
from spork_demo.decoding.schedule import scheduler, send_all
from spork_demo.metrics import measure, prefix_survival
from spork_demo.models.cached_model import CachedModel
from spork_demo.models.dspark_checkpoint import load_dspark
from spork_demo.settings import Settings, SettingsError, resolve
from spork_demo.trace import Race, Trace, fold
from spork_demo.trace_file import dumps, loads
from tests.dspark_lanes import FixedCosts, lane_trace, parity_pair, watched
from tests.dspark_parity import (
    DRAFTERS,
    FOLDER,
    IO,
    PROMPTS,
    STOP,
    VOCABULARY,
    parity_drafter,
    parity_target,
)
from tests.toys import (
    dspark_pair,
    naive_greedy,
    run_lane,
    tiny_dspark,
    tiny_llama,
    tiny_pair,
)

PROMPT = [1, 2, 3, 4, 5, 6, 1, 2, 3]


@pytest.mark.parametrize("schedule", ["full", "threshold", "hardware"])
@pytest.mark.parametrize("gamma", [1, 3, 5, 9])
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_lanes_of_every_schedule_and_length_equal_greedy(drafter, gamma, schedule):
    """H80: less than the trained block may be asked for; more than it is not drafted."""
    settings = Settings(method="dspark", schedule=schedule, draft_length=gamma, max_new_tokens=30)
    costs = FixedCosts(10, 11, 13, 16, 20, 25)
    for number, prompt in enumerate(PROMPTS[:2]):
        trace = lane_trace(parity_pair(drafter), settings, prompt, costs)
        wanted = IO["plain_greedy"][f"p{number}.stop"]["output_ids"][len(prompt) :][:30]
        assert list(trace.ids) == wanted
        assert max(len(round_.nodes) for round_ in trace.rounds) == min(gamma, 5)


def test_shorter_drafts_are_the_first_slots_of_the_whole_block():
    def first_round(gamma):
        settings = Settings(method="dspark", draft_length=gamma, max_new_tokens=30)
        events, *_ = watched(parity_pair(), settings, PROMPTS[0])
        next(events)
        return [node.token for node in next(events).nodes]

    assert first_round(2) == first_round(5)[:2]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [({"schedule": "full"}, None), ({"confidence_threshold": 1.0}, 0), ({}, None)],
)
def test_the_target_is_fed_the_anchor_and_the_scheduled_drafts_only(settings, expected):
    settings = Settings(
        **{"method": "dspark", "schedule": "threshold", "draft_length": 5, "max_new_tokens": 28}
        | settings
    )
    events, target, blocks = watched(
        parity_pair(), settings, PROMPTS[0], scheduler(settings), (STOP,)
    )
    trace = fold(Trace(settings, "toy"), events)
    prefill, *fed = target.fed
    assert prefill == len(PROMPTS[0]) - 1
    assert fed == [1 + round_.scheduled for round_ in trace.rounds]
    assert blocks.calls == len([round_ for round_ in trace.rounds if round_.nodes])
    if expected is not None:
        assert {round_.scheduled for round_ in trace.rounds} == {expected}
        assert all(len(round_.nodes) for round_ in trace.rounds[:-1])


def test_cut_drafts_are_recorded_with_their_confidence_and_no_target_probability():
    settings = Settings(
        method="dspark",
        schedule="threshold",
        confidence_threshold=0.8,
        draft_length=5,
        max_new_tokens=28,
    )
    trace = lane_trace(parity_pair(), settings, PROMPTS[0])
    cut = [node for r in trace.rounds for node in r.nodes[r.scheduled :]]
    sent = [node for r in trace.rounds for node in r.nodes[: r.scheduled]]
    assert cut
    assert {node.fate for node in cut} == {"cut"}
    assert {node.fate for node in sent} == {"accepted", "rejected"}
    assert all(node.target_probability is None for node in cut)
    assert all(node.target_probability is not None for node in sent)
    assert all(0 < node.confidence < 1 for node in [*cut, *sent])
    assert all(node.confidence >= 0.8 for node in sent)
    assert all(
        r.nodes[r.scheduled].confidence < 0.8 for r in trace.rounds if r.nodes[r.scheduled :]
    )
    figures = measure(trace)
    assert figures.drafted == len(cut) + len(sent)
    assert figures.scheduled == len(sent)
    assert figures.acceptance_rate == figures.accepted / len(sent)
    assert figures.accepted_length == pytest.approx(1 + sum(prefix_survival(trace.rounds)))


def test_after_rounds_that_sent_nothing_the_drafter_is_still_in_step():
    """T17: three rounds at threshold 1, then whole blocks, as if those had been plain decoding."""
    settings = Settings(method="dspark", draft_length=5, max_new_tokens=28)
    calls = []

    def schedule(confidences):
        calls.append(len(confidences))
        return (0, None) if len(calls) <= 3 else (len(confidences), None)

    events, target, blocks = watched(parity_pair(), settings, PROMPTS[0], schedule, (STOP,))
    trace = fold(Trace(settings, "toy"), events)
    wanted = IO["plain_greedy"]["p0.stop"]["output_ids"][len(PROMPTS[0]) :]
    assert list(trace.ids) == wanted
    assert [round_.scheduled for round_ in trace.rounds[:3]] == [0, 0, 0]
    # the same drafts as a lane that starts where those three tokens have been decoded
    later, *_ = watched(parity_pair(), settings, [*PROMPTS[0], *wanted[:3]], stop=(STOP,))
    fresh = fold(Trace(settings, "toy"), later)
    assert [[n.token for n in r.nodes] for r in trace.rounds[3:6]] == [
        [n.token for n in r.nodes] for r in fresh.rounds[:3]
    ]
    assert trace.rounds[4].accepted > 0


def test_a_hole_in_the_context_is_an_error_and_not_a_bad_draft():
    settings = Settings(method="dspark", draft_length=5)
    blocks = Blocks(parity_drafter("vanilla"), VOCABULARY)
    drafter = DSparkChain(blocks, settings, torch.Generator(), send_all)
    target = CachedModel(parity_target(), VOCABULARY)
    drafter.observe([], target.forward(PROMPTS[0][:-1], features=drafter.features))
    assert drafter.propose(PROMPTS[0], 5).tokens
    with pytest.raises(ValueError, match="not told of every committed token"):
        drafter.propose([*PROMPTS[0], 32], 5)


@pytest.mark.parametrize("schedule", ["full", "threshold", "hardware"])
@pytest.mark.parametrize("changes", [{}, {"markov_rank": 0, "confidence": False}])
def test_random_weights_give_greedy_ids_and_hardly_any_acceptance(changes, schedule):
    """T18, and Markov rank 0."""
    changes = changes | ({"confidence_with_markov": False} if changes else {})
    pair = dspark_pair(tiny_dspark(3, **changes))
    wanted = naive_greedy(pair.target, PROMPT, 40)
    settings = Settings(method="dspark", schedule=schedule, max_new_tokens=40)
    trace = lane_trace(pair, settings, PROMPT, FixedCosts(10, 11, 12, 13, 14, draft=5.0))
    assert list(trace.ids) == wanted
    assert measure(trace).accepted <= 8
    if changes:  # nothing to schedule by
        assert all(round_.scheduling is None for round_ in trace.rounds)
        assert all(round_.scheduled == len(round_.nodes) for round_ in trace.rounds)


def test_a_random_drafter_costs_more_than_greedy_and_the_scheduler_knows():
    """With honest confidences near zero and any cost at all, nothing is sent."""
    network = tiny_dspark(3)
    network.confidence_head.proj.weight.zero_()
    network.confidence_head.proj.bias.fill_(-6.0)
    settings = Settings(method="dspark", max_new_tokens=20)
    trace = lane_trace(dspark_pair(network), settings, PROMPT, FixedCosts(10, 11, 12, 13, 14))
    assert measure(trace).scheduled == 0
    assert measure(trace).target_calls_per_token == 1
    assert measure(trace).acceptance_rate is None


@pytest.mark.parametrize("method", ["dspark", "spork"])
def test_a_prompt_of_one_token_works(method):
    pair = dspark_pair()
    settings = Settings(method=method, drafter="dspark", max_new_tokens=12)
    trace = lane_trace(pair, settings, [5], FixedCosts(*[10] * 5))
    assert list(trace.ids) == naive_greedy(pair.target, [5], 12)


@pytest.mark.parametrize("budget", [1, 2, 7])
def test_never_more_than_the_asked_number_of_tokens(budget):
    settings = Settings(method="dspark", schedule="full", max_new_tokens=budget)
    trace = lane_trace(parity_pair(), settings, PROMPTS[0])
    assert len(trace.ids) == budget
    assert all(len(round_.nodes) < budget for round_ in trace.rounds)


def test_beyond_its_own_positions_a_drafter_leaves_plain_decoding():
    pair = dspark_pair(tiny_dspark(max_positions=20))
    settings = Settings(method="dspark", schedule="full", max_new_tokens=30)
    trace = lane_trace(pair, settings, PROMPT)
    assert list(trace.ids) == naive_greedy(pair.target, PROMPT, 30)
    assert trace.rounds[0].nodes
    assert not trace.rounds[-2].nodes


def test_nothing_is_drafted_behind_a_stop_token():
    stops = frozenset(range(20, 128))
    for method in ("dspark", "spork"):
        settings = Settings(method=method, drafter="dspark", draft_length=5, schedule="full")
        trace = lane_trace(parity_pair(stop=stops), settings, PROMPTS[0])
        nodes = trace.rounds[0].nodes
        assert all(nodes[node.parent].token not in stops for node in nodes if node.parent >= 0)


def test_the_reasons_of_every_round_survive_the_trace_file():
    settings = Settings(method="dspark", draft_length=5, max_new_tokens=28)
    costs = FixedCosts(10, 11, 13, 16, 20, 25, draft=2.0)
    trace = lane_trace(parity_pair(), settings, PROMPTS[0], costs)
    race = Race("toy", (trace,))
    assert loads(dumps(race)) == race
    for round_ in trace.rounds:
        if not round_.nodes:
            continue
        why = round_.scheduling
        assert why.rule == "hardware"
        assert why.call_seconds == (10, 11, 13, 16, 20, 25)[: len(round_.nodes) + 1]
        assert len(why.survivals) == len(round_.nodes)
        assert len(why.throughputs) - 1 == len(why.hopes)
        assert round_.scheduled <= len(why.hopes) <= round_.scheduled + 1
    assert {len(r.nodes) - r.scheduled for r in trace.rounds} > {0}  # some were cut, some not


def test_the_same_settings_and_costs_give_the_same_run():
    settings = Settings(method="dspark", temperature=1.0, seed=5, draft_length=5)
    costs = FixedCosts(10, 11, 13, 16, 20, 25)
    one, other = (lane_trace(parity_pair(), settings, PROMPTS[1], costs) for _ in range(2))
    assert one.ids == other.ids
    assert [r.nodes for r in one.rounds] == [r.nodes for r in other.rounds]


@pytest.mark.parametrize(
    ("method", "rules", "options"),
    [
        ("speculative", "exact", {}),
        ("dspark", "article", {"min_threshold": 0.0}),
        ("spork", "article", {"judge": "first_token", "accept_threshold": 1.0}),
    ],
)
def test_other_methods_may_draft_with_it(method, rules, options):
    settings = Settings(method=method, rules=rules, drafter="dspark", max_new_tokens=20, **options)
    trace = lane_trace(parity_pair(), settings, PROMPTS[0])
    wanted = IO["plain_greedy"]["p0.stop"]["output_ids"][len(PROMPTS[0]) :][:20]
    assert list(trace.ids) == wanted  # with τ = 1 every token of article SPORK is a fallback
    assert {node.source for round_ in trace.rounds for node in round_.nodes} == {"dspark"}


def test_exact_dspark_is_refused_without_its_drafter_and_with_another_one():
    for settings, has_dspark in (
        (Settings(method="dspark"), False),
        (Settings(method="dspark", drafter="ngram"), True),
    ):
        with pytest.raises(SettingsError, match="^Exact DSpark"):
            resolve(settings, has_draft_model=True, has_dspark=has_dspark)
    with pytest.raises(SettingsError, match="no DSpark drafter"):
        resolve(Settings(method="spork", drafter="dspark"), has_draft_model=True)
    settled = resolve(Settings(method="dspark"), has_draft_model=False, has_dspark=True)
    assert settled.drafter == "dspark"


def test_padded_vocabulary_rows_are_never_drafted():
    target = tiny_llama(4, vocabulary=72)
    network = tiny_dspark(1, vocab_rows=72, mask_token=70)
    network.lm_head.weight[64:] = 10 * network.lm_head.weight[:8]  # the most probable ones
    pair = dataclasses.replace(tiny_pair(target), dspark=network)
    for method in ("dspark", "spork"):
        settings = Settings(method=method, drafter="dspark", schedule="full", max_new_tokens=20)
        trace = run_lane(pair, settings, PROMPT)
        assert list(trace.ids) == naive_greedy(target, PROMPT, 20)
        assert all(node.token < 64 for round_ in trace.rounds for node in round_.nodes)


def test_fitted_temperatures_of_a_checkpoint_reach_the_scheduler():
    network = tiny_dspark()
    config = dataclasses.replace(network.config, confidence_temperatures=(1.0, 2.0, 4.0, 8.0))

    def survivals():
        settings = Settings(method="dspark", schedule="full", max_new_tokens=8)
        first = lane_trace(dspark_pair(network), settings, PROMPT).rounds[0]
        return [node.confidence for node in first.nodes], first.scheduling.survivals

    raw, _ = survivals()
    network.config = config
    fitted, products = survivals()
    logits = torch.tensor(raw).logit() / torch.tensor([1.0, 2.0, 4.0, 8.0])
    assert fitted == pytest.approx(logits.sigmoid().tolist(), abs=1e-6)
    assert products == pytest.approx(torch.tensor(fitted).cumprod(0).tolist(), abs=1e-6)


def test_in_bfloat16_the_heads_still_compute_in_float32():
    target = copy.deepcopy(parity_target()).to(torch.bfloat16)
    network = load_dspark(
        FOLDER / "drafter_vanilla", target, device="cpu", dtype=torch.bfloat16, label="vanilla"
    )
    assert (network.dtype, network.markov_head.markov_w2.weight.dtype) == (
        torch.bfloat16,
        torch.float32,
    )
    pair = dataclasses.replace(parity_pair(), target=target, dspark=network)
    settings = Settings(method="dspark", schedule="full", temperature=1.0, max_new_tokens=12)
    trace = lane_trace(pair, settings, PROMPTS[0])
    assert measure(trace).drafted > 0
    logits, _ = network.corrected(
        torch.zeros(64, dtype=torch.bfloat16),
        network.base_logits(torch.zeros(64, dtype=torch.bfloat16)),
        torch.tensor(32),
        network.first_state(),
    )
    assert logits.dtype is torch.float32
