"""The what-if panel without a browser: what is asked, what is answered, in both languages."""

import json
import math
import re
from dataclasses import replace

import pytest

from spork_demo.language import speaking
from spork_demo.settings import Settings
from spork_demo.trace import Race
from spork_demo.ui import inside
from spork_demo.ui.reel import reel_value
from spork_demo.ui.what_if_view import answered, asked
from spork_demo.what_if import question
from tests import handmade_rounds as made
from tests.dspark_rounds import dspark_lane
from tests.sample_race import dspark_race
from tests.test_chinese import RECORDED, english

RACE = made.handmade_race()
TREE, SCORED, THRESHOLDS = 1, 2, 3


def answer(race: Race, at: tuple[int, int], limit=None, low=None, high=None, length=None) -> dict:
    return json.loads(answered(race, at, limit, low, high, length)[0])


def test_only_the_sliders_of_the_rounds_own_rule_are_there_at_its_recorded_numbers():
    panel, *sliders, told = asked(RACE.lanes[SCORED], 0)
    assert panel["visible"] and told is None
    assert [slider["visible"] for slider in sliders] == [True, False, False, False]
    assert sliders[0]["value"] == 0.7
    _, *sliders, _ = asked(RACE.lanes[THRESHOLDS], 0)
    assert [slider.get("value") for slider in sliders] == [None, 0.1, 0.5, None]
    lane = dspark_race().lanes[2]
    _, *sliders, _ = asked(lane, 7)
    assert (sliders[3]["value"], sliders[3]["maximum"]) == (lane.rounds[7].scheduled, 7)
    assert asked(RACE.lanes[TREE], 0)[0]["visible"] is False
    assert answered(RACE, (TREE, 0), 0.5, 0, 1, 3) == (None, None)
    assert answered(None, (0, 0), 0.5, 0, 1, 3) == (None, None)


def test_tau_above_the_best_score_drops_the_fork_and_the_chart_shows_it():
    value, chart = answered(RACE, (SCORED, 1), 0.9, 0, 1, 0)
    told = json.loads(value)
    assert told["place"] == "With τ 0.90"
    assert told["verdict"] == (
        "The best fork, «␣plan is simple:», scores 0.820, below τ 0.90: no fork is kept. The "
        "target's top-1 token, «␣plan», is taken instead. That is 1 token; the recorded "
        "round has 4 tokens."
    )
    assert told["committed"] == [[" plan", "fallback"]]
    assert "τ 0.9" in chart and "τ 0.7<" not in chart
    kept = answer(RACE, (SCORED, 0), 0.5)
    assert (
        "at least τ 0.50: it is kept whole. That is 4 tokens; the recorded round has 1 token."
        in kept["verdict"]
    )
    assert answer(RACE, (SCORED, 0), 0.7)["verdict"].endswith("This is the recorded verdict.")


def test_thresholds_that_refuse_that_pass_and_that_leave_it_open():
    refused = answer(RACE, (THRESHOLDS, 0), low=0.65, high=0.65)["verdict"]
    assert refused == (
        "2 drafts kept. «␣a» has p 0.60, not above its threshold 0.650. The target's own token is "
        "drawn anew, so the trace does not tell which it is. That is 3 tokens; the recorded round "
        "has 5 tokens."
    )
    opened = answer(RACE, (THRESHOLDS, 1), low=0.05, high=0.05)["verdict"]
    assert "1 draft kept for sure." in opened
    assert "It is kept with probability 0.12" in opened
    assert "How many tokens the round commits is open; it did commit 2 tokens." in opened
    crossed = answer(RACE, (THRESHOLDS, 0), low=0.8, high=0.2)
    assert crossed["verdict"].startswith("The threshold of a certain draft must not be above")


def test_lengths_tell_what_is_kept_and_what_it_would_have_been_worth():
    race = Race("", (made.greedy_lane(), dspark_lane(Settings("dspark", drafter="dspark"))))
    lane = race.lanes[1]
    place = next(p for p, r in enumerate(lane.rounds) if r.accepted >= 2)
    told = answer(race, (1, place), length=1)
    assert told["place"] == f"With 1 of {len(lane.rounds[place].nodes)} drafts sent"
    assert "The draft is kept." in told["verdict"] and "tokens/s with hindsight" in told["verdict"]
    none = answer(race, (1, place), length=0)["verdict"]
    assert none.startswith("With no draft sent, the round is greedy. The target adds")
    again = answer(race, (1, place), length=lane.rounds[place].scheduled)["verdict"]
    assert "This is the recorded verdict." in again


def test_a_draft_that_was_never_judged_is_said_to_be():
    warm = dspark_lane(Settings("dspark", drafter="dspark", schedule="threshold", temperature=1.0))
    place = next(
        p for p, r in enumerate(warm.rounds) if 0 < r.scheduled == r.accepted < len(r.nodes)
    )
    told = answer(Race("", (warm,)), (0, place), length=99)["verdict"]
    assert "was never judged, so the trace does not tell whether it is kept." in told


@pytest.mark.parametrize("bad", [None, math.nan, math.inf, "x", True, 1e300, -5])
def test_absurd_numbers_are_answered_without_an_error(bad):
    for at in ((SCORED, 1), (THRESHOLDS, 1)):
        assert answer(RACE, at, bad, bad, 1.0, bad)["verdict"]
    assert answer(dspark_race(), (2, 7), length=bad)["verdict"]
    assert answered(RACE, (99, -99), bad, bad, bad, bad)[0]


def test_hostile_tokens_stay_text():
    lane = made.scored_lane()
    nodes = tuple(replace(n, text="<img src=x onerror=1>") for n in lane.rounds[1].nodes)
    race = Race("", (replace(lane, rounds=(replace(lane.rounds[1], nodes=nodes),)),))
    for value in answered(race, (0, 0), 0.1, 0, 1, 0):
        assert "<" not in value
        json.loads(value)


@pytest.mark.parametrize("race", [*RECORDED, RACE, dspark_race()], ids=lambda race: race.title)
def test_player_and_answers_hold_no_english_in_chinese(race):
    found = set()
    with speaking("zh"):
        value = json.loads(reel_value(race, 0, 0))
        said = [re.sub(r"\{\w+\}", "", word) for word in value["words"].values()]
        said += [name for _, name in value["phases"]]
        said += [look["name"] for look in value["fates"].values()]
        for lane in value["lanes"]:
            for entry in lane["rounds"][::5]:
                said += [entry["verdict"], entry["cost"], entry["standing"]]
        for at, lane in enumerate(race.lanes):
            for place in range(0, len(lane.rounds), 5):
                if question(lane, place) is None:
                    continue
                for tau, high, length in ((0.1, 0.2, 0), (0.9, 1.0, 99), (0.5, 0.5, 2)):
                    told = answer(race, (at, place), tau, 0.05, high, length)
                    said += [told["place"], told["verdict"]]
        assert inside.shown(None, 0, 0)[0]
    for text in said:
        found |= english(text) - {"End", "Home"}
    assert found == set()
