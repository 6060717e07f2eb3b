"""Adaptive sizes, automatic τ, forks in two stages, and rounds that did not fit into memory."""

import random

import pytest
import torch

from spork_demo.decoding.drafters.counts import NgramCounts
from spork_demo.decoding.drafters.model_forks import ForkPlan
from spork_demo.decoding.drafters.ngram import NgramForks
from spork_demo.decoding.policy import MISSES, STEP, STREAK, Policy, Threshold
from spork_demo.models.cached_model import CachedModel
from spork_demo.models.memory import out_of_memory
from spork_demo.race import interleave
from spork_demo.settings import Settings
from spork_demo.trace import Change, Trace, fold
from tests.toys import (
    blurred,
    dspark_pair,
    naive_greedy,
    run_lane,
    tiny_llama,
    tiny_pair,
)

TARGET = tiny_llama(3)
PROMPT = [1, 2, 3, 1, 2]
LANES = {
    "n-gram forks": Settings(method="spork", drafter="ngram"),
    "the target's forks": Settings(method="spork", drafter="target", fork_width=3, fork_depth=2),
    "draft model forks": Settings(method="spork", drafter="draft_model", fork_depth=2),
    "draft model chain": Settings(method="speculative", drafter="draft_model"),
    "early exit chain": Settings(method="speculative", drafter="early_exit", verifier_layers=2),
    "DSpark chain": Settings(method="dspark", drafter="dspark", schedule="full"),
    "DSpark forks": Settings(method="spork", drafter="dspark", fork_depth=2),
}


def pair():
    return dspark_pair(target=TARGET, draft=blurred(TARGET, 0.05))


def changed(settings: Settings, **values) -> Settings:
    return Settings.from_plain(settings.to_plain() | {"max_new_tokens": 40} | values)


def test_misses_shrink_and_whole_forks_grow_back_to_the_sliders():
    plan = ForkPlan(4, 3)
    policy = Policy(plan, adaptive=True)
    for _ in range(MISSES):
        assert policy.observe(3, 0) is None
    assert policy.observe(3, 0) == Change("misses", 3, 2)
    assert (plan.width, plan.depth) == (3, 2)
    for _ in range(STREAK - 1):
        assert policy.observe(2, 2) is None
    assert policy.observe(2, 1) is None  # not whole: the run of whole ones starts anew
    for _ in range(STREAK - 1):
        assert policy.observe(2, 2) is None
    assert policy.observe(2, 2) == Change("streak", 4, 3)
    for _ in range(2 * STREAK):
        assert policy.observe(3, 3) is None  # never above what was asked for
    for _ in range(20 * MISSES):
        policy.observe(3, 0)
    assert (plan.width, plan.depth) == (1, 1)
    assert policy.observe(0, 0) is None


def test_a_fixed_policy_changes_for_want_of_memory_only():
    plan = ForkPlan(4, 6)
    policy = Policy(plan)
    for accepted in [0] * 30 + [6] * 30:
        assert policy.observe(6, accepted) is None
    seen = [policy.shrink() for _ in range(6)]
    sizes = [(2, 6), (1, 6), (1, 3), (1, 1), (1, 0)]
    assert seen == [*(Change("memory", *size) for size in sizes), None]


def test_what_did_not_fit_is_not_tried_again():
    plan = ForkPlan(4, 4)
    policy = Policy(plan, adaptive=True)
    policy.shrink()
    for _ in range(4 * STREAK):
        policy.observe(4, 4)
    assert (plan.width, plan.depth) == (2, 4)


@pytest.mark.parametrize("wanted", [0.3, 0.7])
def test_an_automatic_threshold_lets_the_wanted_share_pass(wanted):
    choose = random.Random(1)
    threshold = Threshold(Settings(threshold_rule="auto", wanted_acceptance=wanted))
    passed = 0
    for turn in range(4000):
        kept = choose.random() >= threshold.value
        threshold.observe(kept)
        passed += kept and turn >= 1000
    assert passed / 3000 == pytest.approx(wanted, abs=0.02)
    assert threshold.value == pytest.approx(1 - wanted, abs=0.25)


def test_a_fixed_threshold_stays_and_an_automatic_one_stays_in_range():
    fixed = Threshold(Settings(accept_threshold=0.4))
    fixed.observe(True)
    assert fixed.value == 0.4
    moving = Threshold(Settings(threshold_rule="auto", accept_threshold=0.02))
    moving.observe(True)
    assert moving.value == pytest.approx(0.02 + STEP * 0.3)
    for _ in range(100):
        moving.observe(False)
    assert moving.value == 0.0


def test_the_trace_shows_the_threshold_each_round_had():
    settings = Settings(
        method="spork", rules="article", drafter="target", judge="first_token",
        threshold_rule="auto", accept_threshold=0.5, fork_depth=2, max_new_tokens=30,
    )  # fmt: skip
    rounds = run_lane(tiny_pair(TARGET), settings, PROMPT).rounds
    needed = 0.5
    for round_ in rounds:
        assert round_.accept_threshold == pytest.approx(needed)
        passed = max(score.score for score in round_.scores) >= round_.accept_threshold
        assert passed == (round_.accepted > 0)
        needed = min(1.0, max(0.0, needed + STEP * (passed - 0.7)))
    assert len({round_.accept_threshold for round_ in rounds}) > 3


@pytest.mark.parametrize("name", LANES)
def test_adaptive_lanes_are_exact_and_keep_to_their_sizes(name):
    settings = changed(LANES[name], policy="adaptive", max_new_tokens=60)
    trace = run_lane(pair(), settings, PROMPT)
    assert list(trace.ids) == naive_greedy(TARGET, PROMPT, 60)
    width, depth = (settings.fork_width, 1 + settings.fork_depth)
    if settings.method != "spork":
        width, depth = 1, settings.draft_length
    for round_ in trace.rounds:
        parents = [node.parent for node in round_.nodes]
        assert parents.count(-1) <= width
        depths = []
        for parent in parents:
            depths.append(1 + (depths[parent] if parent >= 0 else 0))
        assert max(depths, default=0) <= depth
        if round_.change:
            width, depth = round_.change.width, round_.change.depth


def test_a_hopeless_drafter_is_soon_asked_for_little():
    settings = changed(LANES["draft model chain"], policy="adaptive", max_new_tokens=60)
    trace = run_lane(tiny_pair(TARGET, tiny_llama(99)), settings, PROMPT)
    changes = [round_.change for round_ in trace.rounds if round_.change]
    assert [change.cause for change in changes] == ["misses"] * len(changes)
    assert changes[-1].depth == 1
    assert list(trace.ids) == naive_greedy(TARGET, PROMPT, 60)


@pytest.mark.parametrize("drafter", ["target", "draft_model", "dspark"])
def test_forks_in_two_stages(drafter):
    settings = Settings(
        method="spork", drafter=drafter, fork_shape="hierarchical", fork_width=4, fork_depth=3,
        max_new_tokens=30,
    )  # fmt: skip
    trace = run_lane(pair(), settings, PROMPT)
    assert list(trace.ids) == naive_greedy(TARGET, PROMPT, 30)
    parents = [node.parent for node in trace.rounds[0].nodes]
    levels = []
    for parent in parents:
        levels.append(1 + (levels[parent] if parent >= 0 else 0))
    assert [levels.count(level) for level in (1, 2, 3, 4, 5)] == [4, 4, 2, 2, 0]
    joint = []
    for node in trace.rounds[0].nodes:
        above = joint[node.parent] if node.parent >= 0 else 1.0
        joint.append(above * node.draft_probability)
    tips = [n for n, level in enumerate(levels) if level == 2]
    went_on = {parents[n] for n, level in enumerate(levels) if level == 3}
    assert went_on == set(sorted(tips, key=lambda n: -joint[n])[:2])


def test_counted_forks_in_two_stages():
    counts = NgramCounts(2)
    text = [7, 1, 4, 9, 7, 2, 5, 8, 7, 3, 6, 9, 7, 1, 4, 9, 7]
    drafter = NgramForks(counts, ForkPlan(3, 3, "hierarchical"))
    drafter.observe(text, None)
    proposal = drafter.propose(text, 9)
    depths = [len(proposal.path(node)) for node in range(len(proposal.tokens))]
    assert [depths.count(depth) for depth in (1, 2, 3, 4)] == [3, 3, 1, 0]
    deep = proposal.path(depths.index(3))
    assert [proposal.tokens[node] for node in deep] == [1, 4, 9]  # the likeliest first token


class Narrow(CachedModel):
    """A target whose memory holds so many fed rows and no more."""

    most = 3

    def forward(self, tokens, parents=None, **options):
        if self.length and self.pending + len(tokens) > self.most:
            self._parents.append(-1)  # as far as a real call may get before it fails
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried ...")
        return super().forward(tokens, parents, **options)


@pytest.mark.parametrize("name", LANES)
def test_a_round_that_does_not_fit_is_done_again_with_less(name, monkeypatch):
    monkeypatch.setattr("spork_demo.lanes.CachedModel", Narrow)
    # the draft model has memory enough
    monkeypatch.setattr(Narrow, "most", 3 if "draft model" not in name else 4)
    trace = run_lane(pair(), changed(LANES[name]), PROMPT)
    assert list(trace.ids) == naive_greedy(TARGET, PROMPT, 40)
    assert trace.stop_reason == "length"
    shrunk = [round_.change for round_ in trace.rounds if round_.change]
    assert shrunk and all(change.cause == "memory" for change in shrunk)
    assert all(round_.scheduled <= 3 for round_ in trace.rounds)


def test_a_lane_without_memory_for_one_token_fails_and_keeps_its_text(monkeypatch):
    monkeypatch.setattr("spork_demo.lanes.CachedModel", Narrow)
    settings = changed(LANES["n-gram forks"])
    from spork_demo.lanes import Lane
    from spork_demo.settings import resolve
    from tests.toys import NumberText

    resolved = resolve(settings, has_draft_model=False)
    lane = Lane(tiny_pair(TARGET), resolved, PROMPT, NumberText(), 256)
    trace = Trace(resolved, "")
    for place, news in enumerate(interleave([lane.events()])):
        trace = fold(trace, [news.event])
        if place == 3:
            monkeypatch.setattr(Narrow, "most", 0)
    assert trace.stop_reason == "failed"
    assert "ran out of memory" in trace.message
    assert list(trace.ids) == naive_greedy(TARGET, PROMPT, 40)[: len(trace.ids)]
    assert len(trace.ids) >= 3


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate"), True),
        (MemoryError(), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), True),
        (RuntimeError("could not create a primitive"), False),
        (ValueError("bad"), False),
    ],
)
def test_what_counts_as_want_of_memory(error, wanted):
    assert out_of_memory(error) is wanted
