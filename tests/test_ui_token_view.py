"""Lines of JSON for the race view: complete, in order, and harmless whatever the text is."""

import dataclasses
import json
from typing import get_args

from spork_demo.charts import palette
from spork_demo.settings import DRAFTERS, JUDGES, METHODS, RULES, SERVED, Settings
from spork_demo.trace import DraftFate, Fate, Fidelity, LaneEvent, Provenance, Race, StopReason
from spork_demo.ui import words
from spork_demo.ui.summary import exactness, strips
from spork_demo.ui.token_view import event_line, head_line, race_lines, summary_line
from tests.sample_race import FakeHost, dspark_race, greedy_lane, sample_race, with_texts

HOSTILE = (
    "<b>",
    "&amp;",
    '"',
    "${1+1}",
    "{{x}}",
    "\t",
    "  ",
    "\n",
    "\u2028",
    "\ud800",
    "</script>",
)


def parsed(lines):
    return [json.loads(line) for line in lines.splitlines()]


def shown(lines, lane):
    """The text the browser would show for a lane."""
    rounds = [x for x in parsed(lines) if x["kind"] == "round" and x["lane"] == lane]
    return "".join(token[1] for round_ in rounds for token in round_["committed"])


def test_a_race_becomes_head_events_and_summary():
    race = sample_race()
    lines = parsed(race_lines(race))
    assert lines[0]["kind"] == "race"
    assert lines[-1]["kind"] == "summary"
    for lane, trace in enumerate(race.lanes):
        kinds = [x["kind"] for x in lines[1:-1] if x["lane"] == lane]
        assert kinds == ["started", *["round"] * len(trace.rounds), "finished"]


def test_the_text_shown_is_the_text_of_the_trace():
    race = sample_race()
    for lane, trace in enumerate(race.lanes):
        assert shown(race_lines(race), lane) == trace.text


def test_hostile_text_travels_literally_and_nothing_can_read_it_as_a_tag():
    race = sample_race()
    race = dataclasses.replace(race, lanes=tuple(with_texts(x, HOSTILE) for x in race.lanes))
    lines = race_lines(race)
    assert shown(lines, 0) == race.lanes[0].text
    assert "<" not in lines
    assert lines.isascii()
    assert lines.count("\n") == len(lines.splitlines())


def test_drafted_tokens_that_were_not_kept_are_listed_apart():
    line = json.loads(event_line(LaneEvent(1, sample_race().lanes[1].rounds[0])))
    assert [token[2] for token in line["committed"]] == ["accepted"] * 3 + ["bonus"]
    assert [token[2] for token in line["dropped"]] == ["rejected", "cut"]


def test_tokens_tell_where_they_came_from_and_the_head_has_the_words():
    race = sample_race()
    line = json.loads(event_line(LaneEvent(1, race.lanes[1].rounds[0])))
    sources = [token[7] for token in (*line["committed"], *line["dropped"])]
    assert sources == ["table", "context", "draft_model", "", "context", "recycled"]
    assert parsed(head_line(race))[0]["sources"]["table"] == words.SOURCES["table"]
    assert set(words.SOURCES) == set(palette.SOURCES)


def test_the_head_names_the_models_that_draft():
    lines = parsed(head_line(dspark_race()))[0]
    assert lines["lanes"][2]["who"] == "DSpark network drafts (dspark-smollm2)"
    assert "(" not in lines["lanes"][1]["who"]
    drafting = dataclasses.replace(sample_race(), lanes=dspark_race().lanes[2:])
    assert head_line(drafting).count("SmolLM2-135M-Instruct + student-20m + dspark-smollm2") == 1


def test_lines_of_a_growing_race_only_append():
    host = FakeHost()
    lanes = (Settings(max_new_tokens=8), Settings("spork", max_new_tokens=8))
    news = list(host.race("x", lanes, ("1 Greedy", "2 SPORK exact")))
    lines = head_line(news[0])
    for item in news[1:]:
        assert (lines + event_line(item)).startswith(lines)
        lines += event_line(item)
    assert {x["lane"] for x in parsed(lines) if x["kind"] == "finished"} == {0, 1}


def with_fidelity(found, settings=None):
    race = sample_race()
    settings = settings or race.lanes[1].settings
    lane = dataclasses.replace(race.lanes[1], fidelity=found, settings=settings)
    return dataclasses.replace(race, lanes=(race.lanes[0], lane)), lane


def test_the_exactness_badge_tells_what_is_known():
    race, lane = with_fidelity(Fidelity())
    assert exactness(race, lane) == ("same", "identical to greedy")
    race, lane = with_fidelity(Fidelity(16, " slow", "\n", 0.02))
    assert exactness(race, lane) == (
        "differs",
        "differs at token 17: «␣slow» instead of «⏎», margin 0.02 (a near-tie)",
    )
    for noise, ending in (
        (0.0, "margin 0.02"),
        (0.005, "margin 0.02"),
        (0.11, "(a near-tie: one token alone and among others differ by up to 0.11 here)"),
    ):
        told = dataclasses.replace(lane, provenance=Provenance(noise=noise))
        assert exactness(race, told)[1].endswith(ending)
    race, lane = with_fidelity(None)
    assert exactness(race, lane) == ("unknown", "not comparable")
    race, lane = with_fidelity(None, Settings("spork", temperature=0.8))
    assert exactness(race, lane)[1] == "sampled: same distribution, not the same text"
    race, lane = with_fidelity(Fidelity(), Settings("spork", "article"))
    assert exactness(race, lane)[1].startswith("approximate by rule")


def test_without_a_greedy_lane_nothing_is_compared():
    race, lane = with_fidelity(Fidelity())
    alone = dataclasses.replace(race, lanes=(lane, lane))
    assert exactness(alone, lane) == ("unknown", "not comparable")
    assert dict(cell[:2] for cell in strips(alone)[0]["cells"])["speedup"] == "–"


def test_a_slowdown_is_shown_as_one():
    race = sample_race()
    slow = tuple(
        dataclasses.replace(round_, seconds=round_.seconds * 4) for round_ in race.lanes[1].rounds
    )
    lane = dataclasses.replace(race.lanes[1], rounds=slow)
    race = dataclasses.replace(race, lanes=(race.lanes[0], lane))
    cells = dict(cell[:2] for cell in strips(race)[1]["cells"])
    assert cells["speedup"] == "0.50× slower"


def test_every_choice_has_words():
    assert set(words.METHOD_NAMES) == {*METHODS, SERVED}
    assert set(words.RULES_CHOICES) == set(words.RULES_SHORT) == set(RULES)
    assert set(words.DRAFTER_NAMES) >= set(DRAFTERS)
    assert set(words.JUDGE_NAMES) >= set(JUDGES)
    assert set(words.FATE_WORDS) == {*get_args(Fate), *get_args(DraftFate)}
    assert set(words.STOP_WORDS) == set(get_args(StopReason))


def test_few_rounds_are_noted_and_nothing_measured_is_a_dash():
    short = Race("", (greedy_lane("x", 3),))
    assert "3 rounds" in strips(short)[0]["note"]
    empty = Race("", (dataclasses.replace(greedy_lane("x", 1), rounds=()),))
    assert dict(c[:2] for c in strips(empty)[0]["cells"])["decode speed"] == "–"
    assert "3 rounds" in summary_line(short)
