"""Thresholds, AUC, bins and costs of stored scores, against counting them one by one."""

from random import Random

import pytest

from spork_demo.calibration import (
    Calibration,
    CalibrationProgress,
    Fork,
    auc,
    histogram,
    passing,
    survival,
    threshold_at,
    verdict,
)
from spork_demo.reliability import Prediction
from spork_demo.settings import Settings
from tests.sample_calibration import JUDGES, sample_calibration

SPORK = Settings("spork", "article", drafter="target", judge="early_layers")


def scores(seed: int, count: int, *, coarse: bool) -> list[float]:
    random = Random(seed)
    return [round(random.random(), 1) if coarse else random.random() for _ in range(count)]


@pytest.mark.parametrize("coarse", [True, False], ids=["ties", "no ties"])
@pytest.mark.parametrize(("right", "wrong"), [(1, 1), (7, 30), (60, 11)])
def test_auc_is_the_share_of_pairs_in_order_ties_half(coarse, right, wrong):
    agreeing, disagreeing = scores(1, right, coarse=coarse), scores(2, wrong, coarse=coarse)
    pairs = [(a > b) + (a == b) / 2 for a in agreeing for b in disagreeing]
    assert auc(agreeing, disagreeing) == pytest.approx(sum(pairs) / len(pairs))


def test_auc_needs_both_kinds():
    assert auc([], [0.1]) is None
    assert auc([0.1], []) is None
    assert auc([0.5] * 4, [0.5] * 9) == 0.5
    assert auc([0.9], [0.1, 0.2]) == 1.0


@pytest.mark.parametrize("quantile", [0.0, 0.1, 0.25, 0.37, 0.5])
@pytest.mark.parametrize("count", [1, 3, 10, 97])
def test_the_threshold_is_the_highest_step_the_wanted_share_reaches(quantile, count):
    values = scores(count, count, coarse=False)
    steps = [step / 100 for step in range(101)]
    enough = [t for t in steps if (passing(values, t) or 0) >= 1 - quantile - 1e-12]
    assert threshold_at(values, quantile) == pytest.approx(max(enough))


def test_a_threshold_that_is_a_step_is_not_lowered_by_rounding():
    for step in range(101):
        assert threshold_at([step / 100], 0.1) == step / 100


def test_without_agreeing_forks_the_threshold_is_the_slider_s_own():
    assert threshold_at([], 0.1) == 0.7
    assert passing([], 0.5) is None


def test_every_score_falls_into_the_bin_it_belongs_to():
    values = [*scores(3, 200, coarse=False), 0.0, 1.0, 0.25, 0.95]
    naive = [sum(n / 20 <= v < (n + 1) / 20 for v in values) for n in range(20)]
    naive[-1] += values.count(1.0)
    assert histogram(values) == naive
    assert sum(histogram(values)) == len(values)


def test_the_costs_are_those_of_the_lane_that_would_run():
    found = sample_calibration(SPORK, 3)
    for judge in JUDGES:
        told = verdict(found, judge, 0.1)
        own = found.judges.index(judge)
        positions: dict[int, list[Fork]] = {}
        for fork in found.forks:
            positions.setdefault(fork.place, []).append(fork)
        best = [max(forks, key=lambda f: f.scores[own]) for forks in positions.values()]
        kept = [fork for fork in best if fork.scores[own] >= told.threshold]
        assert told.kept == pytest.approx(len(kept) / len(best))
        assert told.wrong == pytest.approx(sum(not f.agrees for f in kept) / len(kept))
        wrong = [fork for fork in found.forks if not fork.agrees]
        let = [fork for fork in wrong if fork.scores[own] >= told.threshold]
        assert told.passing_wrong == pytest.approx(len(let) / len(wrong))
        assert 0.9 <= told.passing_right < 0.93
        assert (told.agreeing, told.disagreeing) == (120, 360)
        assert not told.few


def test_a_higher_quantile_gives_up_more_and_lets_less_pass():
    found = sample_calibration(SPORK, 2)
    told = [verdict(found, "first_token", q / 100) for q in range(0, 51, 5)]
    assert [t.threshold for t in told] == sorted(t.threshold for t in told)
    wrong = [t.passing_wrong for t in told]
    assert wrong == sorted(wrong, reverse=True)
    assert told[0].passing_right == 1.0


def test_nothing_found_is_told_as_nothing():
    empty = Calibration("pair", SPORK, JUDGES)
    told = verdict(empty, "draft_model", 0.1)
    assert (told.auc, told.kept, told.wrong, told.passing_wrong) == (None,) * 4
    assert told.few
    assert survival(empty) == []


def test_survival_is_counted_slot_by_slot():
    drafts = (
        (Prediction(0.9, 0.8, True), Prediction(0.5, 0.4, False)),
        (Prediction(0.7, 0.6, True),),
        (Prediction(0.2, 0.1, False), Prediction(0.1, 0.05, False)),
    )
    first, second = survival(Calibration("pair", SPORK, JUDGES, drafts=drafts))
    assert first == (3, pytest.approx(0.6), pytest.approx(0.5), pytest.approx(2 / 3))
    assert second == (2, pytest.approx(0.3), pytest.approx(0.225), 0.0)


def test_the_time_left_follows_from_the_pace():
    assert CalibrationProgress(0, 4, 0.0, 0.0).seconds_left is None
    assert CalibrationProgress(1, 4, 0.25, 10.0).seconds_left == pytest.approx(30)
    assert CalibrationProgress(4, 4, 1.0, 40.0).seconds_left == 0
