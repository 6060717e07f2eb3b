"""How long a lent GPU is asked for."""

import pytest

from spork_demo.gpu_seconds import (
    COST_CALLS,
    COST_SECONDS,
    LANE_CALLS,
    LONGEST,
    RACE_CALLS,
    REMEMBERED,
    SHORTEST,
    Network,
    Networks,
    Rates,
    asked_seconds,
    lane_seconds,
    placing_seconds,
    weighs_costs,
)
from spork_demo.settings import Settings

PAIR = Networks(Network(20, 5_000_000_000), Network(4, 500_000_000), Network(2, 1_000_000_000))
TARGET, DRAFT, BLOCK = 0.020 + 0.010, 0.004 + 0.001, 0.002 + 0.002


def test_greedy_is_a_call_a_token():
    assert lane_seconds(PAIR, Settings(max_new_tokens=100)) == pytest.approx(100 * TARGET)


@pytest.mark.parametrize(
    ("settings", "a_round"),
    [
        (Settings(method="spork", drafter="ngram"), TARGET),
        (Settings(method="speculative", drafter="draft_model", draft_length=4), TARGET + 4 * DRAFT),
        (Settings(method="dspark", drafter="dspark"), TARGET + BLOCK),
        (
            Settings(method="speculative", drafter="early_exit", verifier_layers=5, draft_length=2),
            TARGET + 2 * TARGET / 4,
        ),
        (
            Settings(
                method="spork",
                rules="article",
                drafter="target",
                judge="early_layers",
                fork_depth=3,
                verifier_layers=10,
            ),
            TARGET + 4 * TARGET + TARGET / 2,
        ),
    ],
)
def test_a_round_is_a_target_call_with_its_drafts_and_its_judge(settings, a_round):
    seconds = lane_seconds(PAIR, settings)
    assert seconds == pytest.approx(settings.max_new_tokens / 1.5 * a_round)


def test_a_race_adds_what_no_lane_pays_for():
    rates = Rates()
    lanes = [Settings(max_new_tokens=10), Settings(method="spork", drafter="ngram")]
    prompt = TARGET + 200 * 5e9 / 5e13
    expected = sum(lane_seconds(PAIR, each) for each in lanes) + 8 * prompt
    expected += (RACE_CALLS + 2 * LANE_CALLS + COST_CALLS) * TARGET + COST_SECONDS
    assert rates.race("a", PAIR, lanes, 200) == pytest.approx(expected)


def test_what_was_measured_replaces_the_guess_for_that_pair_and_those_settings():
    rates = Rates()
    lane = Settings(method="speculative", drafter="ngram", max_new_tokens=96)
    rates.learn("a", lane, tokens=50, seconds=0.5)
    longer = Settings(method="speculative", drafter="ngram", max_new_tokens=200, seed=9)
    other = Settings(method="speculative", drafter="ngram", draft_length=8)
    assert rates.lane("a", PAIR, longer) == pytest.approx(2.0)
    assert rates.lane("b", PAIR, longer) == pytest.approx(lane_seconds(PAIR, longer))
    assert rates.lane("a", PAIR, other) == pytest.approx(lane_seconds(PAIR, other))
    rates.learn("a", lane, tokens=0, seconds=0.0)
    assert rates.lane("a", PAIR, longer) == pytest.approx(2.0)


def test_only_so_much_is_remembered():
    rates = Rates()
    for number in range(REMEMBERED + 10):
        rates.learn(f"pair {number}", Settings(), 1, 1.0)
    assert len(rates._measured) == REMEMBERED
    assert rates.lane("pair 0", PAIR, Settings()) != pytest.approx(96.0)
    assert rates.lane(f"pair {REMEMBERED + 9}", PAIR, Settings()) == pytest.approx(96.0)


def test_costs_are_weighed_by_exact_dspark_and_by_exact_trees():
    assert weighs_costs(Settings(method="dspark", drafter="dspark"))
    assert not weighs_costs(Settings(method="dspark", drafter="dspark", schedule="full"))
    assert weighs_costs(Settings(method="spork", drafter="ngram"))
    assert not weighs_costs(Settings(method="spork", drafter="ngram", fork_shape="forks"))
    assert not weighs_costs(Settings())


@pytest.mark.parametrize(
    ("placing", "work", "longest", "asked"),
    [
        (2.0, 0.1, 120, SHORTEST),
        (2.0, 10.0, 120, 15),
        (2.0, 1000.0, 120, LONGEST),
        (2.0, 1000.0, 30, 30),
        (2.0, float("inf"), 120, LONGEST),
    ],
)
def test_what_is_asked_for_is_bounded_by_the_lender_and_by_the_deployment(
    placing, work, longest, asked
):
    assert asked_seconds(placing, work, longest) == asked


def test_weights_of_all_pairs_are_placed():
    assert placing_seconds([PAIR, PAIR]) == pytest.approx(2.0 + 2 * 6.5e9 / 2e9)
