"""The lesson's arithmetic against naive sums, enumeration and the decoding code it explains."""

import itertools
import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spork_demo.decoding.rule_counts import rule_counts
from spork_demo.decoding.schedule import hardware_lengths
from spork_demo.lesson import break_even, examples, hindsight, rules
from spork_demo.lesson.costs import Curve, curve_of, recorded_curve
from spork_demo.lesson.examples import Place
from spork_demo.trace import Provenance, Race
from spork_demo.trace_file import read_races
from spork_demo.ui.learn_words import PRESETS
from tests import handmade_rounds as made
from tests.sample_race import COSTS, PLACE, sample_race
from tests.test_schedule import hindsight as search_without_stop

SHIPPED = read_races(Path(__file__).resolve().parent.parent / "assets" / "traces")
CURVE = Curve((1, 2, 4, 8), (10.0, 11.0, 13.0, 17.0), Provenance(), 2.0, 5, 1.0)
share = st.floats(0.0, 1.0)


@given(share, st.integers(0, 12))
def test_expected_tokens_are_the_sum_over_how_many_drafts_are_kept(acceptance, drafts):
    kept = [acceptance**n * (1 - acceptance) * (n + 1) for n in range(drafts)]
    naive = sum(kept) + acceptance**drafts * (drafts + 1)
    assert break_even.expected_tokens(acceptance, drafts) == pytest.approx(naive)


def test_expected_tokens_against_a_simulation():
    dice, rounds = random.Random(1), 20_000
    committed = 0
    for _ in range(rounds):
        kept = next((n for n in range(5) if dice.random() >= 0.7), 5)
        committed += kept + 1
    assert break_even.expected_tokens(0.7, 5) == pytest.approx(committed / rounds, rel=0.02)


def test_calls_between_measured_sizes_are_linear_and_none_is_invented():
    assert [CURVE.call(rows) for rows in (1, 3, 6, 8)] == [10.0, 12.0, 15.0, 17.0]
    for rows in (0, 9):
        with pytest.raises(ValueError, match="not measured"):
            CURVE.call(rows)


def test_speedup_is_tokens_per_second_over_those_of_single_calls():
    seconds = {"block": 2.0, "chain": 3.0, "free": 0.0}
    for drafter, drafting in seconds.items():
        tokens = 1 + 0.6 + 0.36 + 0.216
        wanted = (tokens / (drafting + 13.0)) / (1 / 10.0)
        assert break_even.speedup(CURVE, drafter, 0.6, 3) == pytest.approx(wanted)
    assert break_even.speedups(CURVE, "free", 0.6)[0] == 1.0


def test_lengths_end_where_nothing_was_measured():
    assert len(break_even.speedups(CURVE, "free", 0.5)) == 8
    assert len(break_even.speedups(CURVE, "block", 0.5)) == 6, "a block holds five"
    unmeasured = replace(CURVE, chain_seconds=None)
    assert break_even.speedups(unmeasured, "chain", 0.5) == (1.0,)


def test_the_best_length_grows_with_acceptance():
    best = [break_even.best_length(break_even.speedups(CURVE, "chain", a / 20)) for a in range(21)]
    assert best == sorted(best)
    assert (best[0], best[-1]) == (0, 7)


@given(st.integers(1, 7), st.sampled_from(["block", "chain", "free"]))
def test_break_even_is_where_the_speedup_passes_one(drafts, drafter):
    needed = break_even.needed_acceptance(CURVE, drafter, drafts)
    if drafter == "block" and drafts > 5:
        assert needed is None
        return
    assert break_even.speedup(CURVE, drafter, needed, drafts) == pytest.approx(1.0, abs=1e-9)


def test_drafts_dearer_than_tokens_never_break_even():
    dear = replace(CURVE, chain_seconds=20.0)
    assert break_even.needed_acceptance(dear, "chain", 3) is None
    assert break_even.best_length(break_even.speedups(dear, "chain", 0.99)) == 0


@pytest.mark.parametrize("depth", [1, 5, 11])
def test_forks_of_the_target_never_cost_less_than_a_call_a_token(depth):
    for kept in range(11):
        calls = sum(1 + depth for _ in range(10))
        tokens = sum(1 + depth if place < kept else 1 for place in range(10))
        assert break_even.calls_per_token(kept / 10, depth) == pytest.approx(calls / tokens)
        assert break_even.calls_per_token(kept / 10, depth) >= 1


def distributions(size: int = 4):
    weights = st.lists(st.floats(0.01, 1.0), min_size=size, max_size=size)
    return weights.map(rules.normalised)


def enumerated(p, q, keep, other):
    """Every draft, kept or replaced: the output distribution by brute force."""
    out = [0.0] * len(p)
    for x, chance in enumerate(q):
        kept = keep(p, q, x)
        out[x] += chance * kept
        for y, instead in enumerate(other(p, q)):
            out[y] += chance * (1 - kept) * instead
    return out


@given(distributions(), distributions())
def test_closed_forms_are_what_enumeration_gives(p, q):
    def residual(p, q):
        rest = [max(0.0, a - b) for a, b in zip(p, q, strict=True)]
        return rules.normalised(rest) if sum(rest) > 1e-12 else p

    exact = enumerated(p, q, lambda p, q, x: min(1.0, p[x] / q[x]), residual)
    article = enumerated(p, q, lambda p, _, x: p[x], lambda p, _: p)
    assert rules.exact_output(p, q) == pytest.approx(exact, abs=1e-9)
    assert rules.exact_output(p, q) == pytest.approx(p, abs=1e-9)
    assert rules.article_output(p, q) == pytest.approx(article)
    assert rules.article_acceptance(p, q) <= rules.exact_acceptance(p, q) + 1e-12


@pytest.mark.parametrize("preset", PRESETS)
def test_the_code_of_the_lanes_gives_the_closed_forms(preset):
    _, p, q = PRESETS[preset]
    draws = 3000
    counts = rule_counts(p, q, draws, seed=3)
    limit = 4 * rules.chance_distance(rules.mixed(p, q, 0.5), draws)
    for found, wanted in (
        (counts.exact, rules.exact_output(p, q)),
        (counts.article, rules.article_output(p, q)),
    ):
        assert sum(found) == draws
        assert rules.total_variation([n / draws for n in found], wanted) < limit


def test_presets_are_distributions_and_the_cold_one_is_not_biased():
    for _, p, q in PRESETS.values():
        assert sum(p) == pytest.approx(1) and sum(q) == pytest.approx(1)
    _, p, q = PRESETS["cold"]
    assert rules.article_output(p, q) == pytest.approx(p)
    _, p, q = PRESETS["sure"]
    assert rules.total_variation(rules.article_output(p, q), p) > 0.1


def test_the_distance_of_chance_is_what_honest_draws_have():
    p, draws = (0.5, 0.3, 0.15, 0.05), 400
    generator = torch.Generator().manual_seed(0)
    found = []
    for _ in range(400):
        drawn = torch.multinomial(torch.tensor(p), draws, True, generator=generator)
        frequencies = (torch.bincount(drawn, minlength=4) / draws).tolist()
        found.append(rules.total_variation(frequencies, p))
    assert rules.chance_distance(p, draws) == pytest.approx(sum(found) / 400, rel=0.1)


@given(share, share)
def test_both_choosers_are_those_of_the_decoder_and_of_the_search_it_forbids(first, second):
    rates = {rows: rate for rows, rate in enumerate(hindsight.RATES, 1)}
    promised = hindsight.throughputs((first, second))
    decided = hardware_lengths([(first, second)], rates.__getitem__, stair=0)
    assert hindsight.causal(promised) == decided.lengths[0]
    best, values = search_without_stop((first, second), rates.__getitem__)
    assert hindsight.hindsight(promised) == best
    assert promised == pytest.approx(values)


def test_appendix_a_comes_out_as_printed():
    toy = hindsight.Toy((0.7, 0.3), (0.5, 0.5), (0.9, 0.0))
    assert hindsight.output(toy, hindsight.causal) == pytest.approx((0.7, 0.3))
    assert hindsight.output(toy, hindsight.hindsight) == pytest.approx((0.85, 0.15))
    after_a, after_b = hindsight.cases(toy, hindsight.hindsight)
    assert (after_a.sent, after_b.sent) == (2, 0)
    assert after_a.throughputs == pytest.approx((1.0, 0.9, 1.134))


@given(st.floats(0.01, 0.99), st.floats(0.01, 0.99), share, share)
def test_deciding_draft_by_draft_never_shifts_the_odds(p, q, after_a, after_b):
    toy = hindsight.Toy((p, 1 - p), (q, 1 - q), (after_a, after_b))
    assert hindsight.output(toy, hindsight.causal) == pytest.approx(toy.p)


def test_hindsight_against_a_simulation():
    toy, dice, runs = hindsight.Toy((0.6, 0.4), (0.3, 0.7), (0.95, 0.1)), random.Random(2), 20_000
    first = 0
    for _ in range(runs):
        token = int(dice.random() >= toy.q[0])
        promised = hindsight.throughputs((rules.exact_acceptance(toy.p, toy.q), toy.behind[token]))
        if hindsight.hindsight(promised) and dice.random() < toy.p[token] / toy.q[token]:
            first += token == 0
        elif hindsight.hindsight(promised):
            first += toy.p[0] > toy.q[0]
        else:
            first += dice.random() < toy.p[0]
    assert hindsight.output(toy, hindsight.hindsight)[0] == pytest.approx(first / runs, abs=0.015)


def test_a_live_curve_holds_the_sizes_that_were_timed():
    curve = curve_of(COSTS)
    assert curve.rows == (1, 2, 4, 8, 16, 32)
    assert curve.call(3) == pytest.approx(0.0195 + 0.0015)
    assert not curve.recorded and curve.place == COSTS.place


def test_a_recorded_curve_is_medians_of_rounds_of_one_machine():
    curve = recorded_curve(SHIPPED)
    assert curve.recorded and curve.place == SHIPPED[0].lanes[0].provenance
    assert curve.rows[0] == 1 and list(curve.seconds) == sorted(curve.seconds)
    judged = sorted(
        r.judge_seconds for race in SHIPPED for lane in race.lanes if lane.settings.exact
        for r in lane.rounds if r.scheduled + 1 == curve.rows[-1] and r.target_calls == 1
    )  # fmt: skip
    assert curve.seconds[-1] in (judged[len(judged) // 2], sum(judged[:2]) / 2)
    other = replace(PLACE, device="another")
    foreign = [replace(lane, provenance=other) for lane in sample_race().lanes]
    assert recorded_curve([*SHIPPED, Race("", tuple(foreign))]) == curve


def test_too_few_rounds_make_no_curve():
    assert recorded_curve([]) is None
    assert recorded_curve([Race("", (made.greedy_lane(),))]) is None


def test_the_rounds_shown_are_what_the_words_beside_them_say():
    refused = examples.refused_in_part(SHIPPED).found(SHIPPED)
    assert 2 <= refused.accepted < refused.scheduled
    whole = examples.kept_whole(SHIPPED).found(SHIPPED)
    assert whole.accepted == len(whole.nodes) and whole.committed[-1].fate == "bonus"
    tree = examples.forked(SHIPPED).found(SHIPPED)
    assert examples.siblings_kept(tree) and examples.fed_separately(tree) > len(tree.nodes)
    cut = examples.scheduled(SHIPPED).found(SHIPPED)
    assert 0 < cut.scheduled < len(cut.nodes)
    race, lane = examples.article_spork(SHIPPED)
    assert SHIPPED[race].lanes[lane].settings.drafter == "target"


def test_sharing_and_siblings_of_a_handmade_tree():
    tree = made.tree_round()
    paths = [(0, 3, 6, 9), (0, 3, 6, 10), (0, 3, 6, 11), (0, 3, 7), (0, 4, 8), (1, 5), (2,)]
    assert examples.fed_separately(tree) == len(list(itertools.chain(*paths)))
    assert examples.siblings_kept(tree) == 0
    swapped = replace(tree.nodes[1], draft_probability=0.9)
    second = replace(tree, nodes=(tree.nodes[0], swapped, *tree.nodes[2:]))
    assert examples.siblings_kept(second) == 1


def test_without_fitting_rounds_there_is_no_example():
    races = [Race("", (made.greedy_lane(),))]
    finders = (examples.refused_in_part, examples.kept_whole, examples.forked, examples.scheduled)
    assert [find(races) for find in finders] == [None] * 4
    assert examples.article_spork(races) is None
    assert Place(0, 0, 3).found(races).index == 3
