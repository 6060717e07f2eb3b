"""Predicted survival against what happened, worked out by hand and against the torch version."""

from random import Random

import pytest
import torch

from spork_demo.metrics import measure
from spork_demo.reliability import Bin, binned, calibration_error, outcomes, predictions
from spork_demo.settings import Settings
from spork_demo.trace import Node, Token
from tests.dspark_rounds import dspark_lane, dspark_round
from tests.handmade_rounds import make_round, tree_round


def told(found):
    return [(round(each.after, 6), each.survived) for each in found]


def test_survival_is_the_product_of_confidences_and_ends_with_the_first_refusal():
    found = predictions([dspark_round(0, (0.9, 0.8, 0.5), 1, "full", raw=(1.0, 0.9, 0.8))])
    assert told(found) == [(0.9, True), (0.72, False), (0.36, False)]
    assert [each.before for each in found] == pytest.approx([1.0, 0.9, 0.72])


def test_cut_drafts_do_not_count():
    found = predictions([dspark_round(0, (0.9, 0.8, 0.3, 0.9), 2, "threshold")])
    assert told(found) == [(0.9, True), (0.72, True)]


def test_without_temperature_scaling_there_is_no_before():
    found = predictions([dspark_round(0, (0.9, 0.8), 2, "full")])
    assert {each.before for each in found} == {None}
    same = predictions([dspark_round(0, (0.9, 0.8), 2, "full", raw=(0.9, 0.8))])
    assert {each.before for each in same} == {None}
    assert outcomes(found, scaled=False) == ()
    assert outcomes(found, scaled=True) == ((0.9, True), (0.9 * 0.8, True))


def chain(fates: str, committed: int):
    names = {"A": "accepted", "R": "rejected"}
    nodes = tuple(Node(k, "x", k - 1, names[f], confidence=0.5) for k, f in enumerate(fates))
    tokens = tuple(
        Token(k, "x", "accepted" if k < fates.count("A") else "correction")
        for k in range(committed)
    )
    return make_round(0, nodes, tokens)


def test_drafts_behind_an_accepted_stop_token_do_not_count():
    assert told(predictions([chain("AARR", 2)])) == [(0.5, True), (0.25, True)]
    assert told(predictions([chain("AARR", 3)]))[2:] == [(0.125, False), (0.0625, False)]


def test_trees_and_drafts_without_confidence_are_left_out():
    assert predictions([tree_round(), make_round(0, (), ())]) == ()


def test_bins_hold_counts_and_means():
    bins = binned([(0.05, False), (0.15, True), (0.9, True), (1.0, False)], 5)
    assert [each.count for each in bins] == [2, 0, 0, 0, 2]
    assert (bins[0].predicted, bins[0].happened) == pytest.approx((0.1, 0.5))
    assert (bins[4].predicted, bins[4].happened) == pytest.approx((0.95, 0.5))
    assert bins[1] == Bin(0, None, None)


def test_the_error_of_a_right_prediction_is_small_and_of_a_wrong_one_its_distance():
    assert calibration_error([(0.75, True), (0.75, True), (0.75, True), (0.75, False)]) == 0
    assert calibration_error([(0.9, False)] * 4) == pytest.approx(0.9)
    assert calibration_error([]) is None


@pytest.mark.parametrize("bins", [5, 20])
def test_the_error_is_the_one_of_the_decoding_side(bins):
    from spork_demo.decoding.calibration import calibration_error as reference

    chance = Random(7)
    pairs = [(chance.random(), chance.random() < 0.4) for _ in range(300)]
    pairs += [(0.0, False), (1.0, True), (0.25, True), (0.05, False), (0.6, True)]
    predicted, happened = (
        torch.tensor(column, dtype=torch.float64) for column in zip(*pairs, strict=True)
    )
    assert calibration_error(pairs, bins) == pytest.approx(
        reference(predicted, happened, bins), abs=1e-12
    )


def test_every_sent_draft_of_a_whole_lane_is_counted_once():
    lane = dspark_lane(Settings("dspark", draft_length=6), tokens=60)
    found, figures = predictions(lane.rounds), measure(lane)
    last = lane.rounds[-1]
    assert len(found) in (figures.scheduled, figures.scheduled - last.scheduled + last.accepted)
    assert sum(each.survived for each in found) == figures.accepted
