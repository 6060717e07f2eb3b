"""The tab Learn without a browser: every step in every language, every number a person may send."""

import json
from dataclasses import replace
from pathlib import Path

import gradio as gr
import pytest

from spork_demo.host import RuleCounts, Status
from spork_demo.language import LANGUAGES, speaking
from spork_demo.trace_file import read_races
from spork_demo.ui import learn, learn_links, learn_odds, learn_round, learn_tables, learn_values
from spork_demo.ui.controls import build_knobs
from spork_demo.ui.learn_words import LESSON_STEPS, PRESETS, STEPS
from spork_demo.ui.page import build_page
from tests.sample_race import COSTS, LIMITS, FakeHost
from tests.sample_race import PRESETS as LANE_PRESETS

RACES = read_races(Path(__file__).resolve().parent.parent / "assets" / "traces")
NUMBERS = learn_values.Numbers.of(FakeHost(measured=COSTS), RACES)
BAD = (None, "x", float("nan"), float("inf"), -3, 1e9, True)


@pytest.mark.parametrize("code", LANGUAGES)
def test_every_step_is_told_in_every_language(code):
    with speaking(code):
        texts = [learn.step_text(step) for step in STEPS]
        tables = learn_tables.glossary_table(), learn_tables.sources_table()
        trouble = learn_tables.trouble_table(learn_links.setting_names())
    assert all(text.count("<p>") == len(s.paragraphs) for text, s in zip(texts, STEPS, strict=True))
    own = [any("\u4e00" <= letter <= "\u9fff" for letter in text) for text in texts]
    assert own == [code == "zh"] * len(STEPS)
    assert "目标模型" in tables[0] and "target" in tables[0], "terms stand in both languages"
    assert trouble.count("<tr>") == len(learn_tables.TROUBLES) + 1
    assert LESSON_STEPS == 8 and len({step.key for step in STEPS}) == len(STEPS)


@pytest.mark.parametrize("recorded", [RACES, []], ids=["shipped", "none"])
def test_the_page_holds_the_lesson_once_a_language_with_or_without_recordings(recorded):
    page = build_page(FakeHost(), LIMITS, LANE_PRESETS, recorded)
    ids = [getattr(block, "elem_id", None) for block in page.blocks.values()]
    for place in range(1, len(STEPS) + 1):
        assert ids.count(f"learn-step-{place}") == len(LANGUAGES)


def test_every_setting_the_table_names_stands_where_it_says():
    with gr.Blocks() as page:
        build_knobs(LIMITS)
    blocks = {
        block.elem_id: block for block in page.blocks.values() if getattr(block, "elem_id", 0)
    }
    for name, place in learn_links.setting_places().items():
        if name in learn_links.ELSEWHERE:
            continue
        parents, block = [], blocks[place["id"]].parent
        while block is not None:
            parents.append(getattr(block, "elem_id", None))
            block = block.parent
        assert [p for p in reversed(parents) if p] == place["within"][1:], name


def test_costs_are_measured_else_recorded_else_not_there():
    measured = NUMBERS.curve()
    assert not measured.recorded
    assert "measured here" in learn_values.origin(measured)
    waiting = learn_values.Numbers.of(FakeHost(state=Status("Loading")), RACES)
    assert waiting.curve().recorded
    assert "recorded" in learn_values.origin(waiting.curve())
    nothing = learn_values.Numbers.of(FakeHost(), [])
    assert nothing.curve() is None
    assert learn_values.cost_values(None) == (None, "")
    assert "Not measured yet" in learn_values.origin(None)
    assert learn_values.gain_values(None, 0.7, 4, "free") == (None, "")


def test_the_sum_under_the_curve_is_that_of_the_marked_lengths():
    chart, text = learn_values.gain_values(NUMBERS.curve(), 0.5, 2, "chain")
    tokens, seconds = 1.75, 2 * 0.002 + 0.021
    assert f"{tokens / (seconds / 0.02):.2f}×" in text
    figure = json.loads(chart)["figure"]
    best = next(trace for trace in figure["data"] if trace["name"] == "best γ")
    curve = next(trace for trace in figure["data"] if trace["name"] == "speedup")
    assert best["y"][0] == max(curve["y"]) and best["x"][0] == curve["y"].index(max(curve["y"]))


@pytest.mark.parametrize("bad", BAD)
def test_whatever_a_slider_sends_there_is_a_chart(bad):
    learn_values.gain_values(NUMBERS.curve(), bad, bad, "no such drafter")
    learn_odds.bias_values("no such preset", bad)
    learn_odds.hindsight_values(bad, bad, bad, bad)


def test_rules_run_in_batches_and_counts_add_up():
    frames = list(learn_odds.run_rules(FakeHost(), "near", 0.0, 0))
    assert len(frames) == learn_odds.BATCHES
    assert f"Run {learn_odds.DRAWS} times" in frames[-1][1]
    names = [t.get("name") for t in json.loads(frames[-1][0])["figure"]["data"]]
    assert names.count("came out when run") == 2


def test_where_no_engine_is_the_rules_say_so():
    ((chart, text),) = learn_odds.run_rules(FakeHost(state=Status("Loading")), "near", 0.0, 0)
    assert "not there yet" in text and json.loads(chart)["figure"]


def test_counts_of_one_preset_are_told_with_their_distance():
    _, text = learn_odds.bias_values("cold", 0.0, RuleCounts((400, 0, 0, 0), (400, 0, 0, 0)))
    assert text.count("0.000") == 5, "both closed forms, both runs, and no chance at all"
    for preset in PRESETS:
        learned = learn_odds.vocabulary(preset, 1.0)
        assert learned[0] == pytest.approx(learned[1])


def test_a_round_goes_to_the_page_without_tags():
    trace = RACES[0].lanes[2]
    hostile = replace(trace.rounds[0].nodes[0], text="<img src=x onerror=alert(1)>${1}")
    nodes = (hostile, *trace.rounds[0].nodes[1:])
    round_ = replace(trace.rounds[0], nodes=nodes)
    value = learn_round.staged_value(replace(trace, rounds=(round_,)), 0)
    assert "<" not in value
    assert json.loads(value)["drafts"][0]["text"].startswith("<img")
    assert len(json.loads(value)["stages"]) == 3
