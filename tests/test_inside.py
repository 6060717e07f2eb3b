"""The Inside tab without a browser: any lane, any round, any race, never an error."""

import json
from dataclasses import replace
from pathlib import Path

import gradio as gr
import pytest

from spork_demo.charts import palette
from spork_demo.trace import Race, Trace
from spork_demo.ui import inside, plotly_view, round_text, tree_view
from spork_demo.ui.ending import with_ends_named
from tests import handmade_rounds as made
from tests.sample_race import dspark_race

RACE = made.handmade_race()
TOLD, TREE, WHY, STORY, CHANCES, COSTS, RELIABILITY, COLUMN, JUDGE, COST = range(2, 12)


def build() -> tuple[gr.Blocks, inside.InsideParts]:
    with gr.Blocks() as page:
        parts = inside.build_inside(gr.State(RACE))
    return page, parts


def test_every_update_fills_every_output():
    _, parts = build()
    races = (None, Race("", ()), Race("", (Trace(RACE.lanes[0].settings, "p"),)), RACE)
    for race in races:
        assert len(parts.show(race, 0, 0)) == len(parts.refresh(race)) == len(parts.outputs)


@pytest.mark.parametrize("lane", [-5, 0, 3, 99, None])
@pytest.mark.parametrize("place", [-7, 0, 5, 10_000])
def test_numbers_out_of_range_are_brought_into_it(lane, place):
    for race in (None, Race("", ()), RACE, made.hostile_race()):
        values = inside.shown(race, lane, place)
        assert json.loads(values[TOLD])["verdict"]
        inside.tree_of(race, lane, place, place)


def test_a_race_opens_on_its_most_telling_round():
    assert inside.telling_lane(RACE) == 1
    assert inside.telling_round(RACE, 1) == 0, "the tree with a kept path and refused forks"
    assert inside.telling_lane(Race("", (made.greedy_lane(),))) == 0


def test_scrubber_and_lanes_follow_the_race():
    choice, scrubber, *_ = inside.shown(RACE, 1, 4)
    assert choice["choices"] == [(lane.label, place) for place, lane in enumerate(RACE.lanes)]
    assert (choice["value"], scrubber["value"], scrubber["maximum"]) == (1, 5, 24)


def test_the_judges_chart_is_there_only_when_numbers_judged():
    visible = [inside.shown(RACE, lane, 1)[COLUMN]["visible"] for lane in range(4)]
    assert visible == [False, False, True, True]


def test_thresholds_at_temperature_0_say_that_they_decide_nothing():
    cold = Race("", (made.threshold_lane(temperature=0.0),))
    assert "decide nothing" in json.loads(inside.shown(cold, 0, 1)[JUDGE])["caption"]
    assert json.loads(inside.shown(RACE, 3, 1)[JUDGE])["caption"] == ""


def test_a_slow_lane_gets_its_reasons_under_the_cost_chart():
    assert "cannot beat greedy" in json.loads(inside.shown(RACE, 2, 0)[COST])["caption"]


def test_the_text_so_far_stops_at_the_round_and_marks_its_tokens():
    value = json.loads(inside.shown(RACE, 0, 2)[TOLD])
    assert value["before"] == " the quick"
    assert value["marks"] == [[" brown", "plain", "■", "plain"]]


def test_a_chain_shows_what_it_drafted_in_vain_and_a_tree_does_not():
    value = json.loads(inside.shown(dspark_race(), 2, 7)[TOLD])
    round_ = dspark_race().lanes[2].rounds[7]
    assert [mark[1] for mark in value["dropped"]] == ["rejected"] * 2 + ["cut"] * 2
    assert len(value["dropped"]) == len(round_.nodes) - round_.accepted
    assert json.loads(inside.shown(RACE, 1, 0)[TOLD])["dropped"] == []


def test_underlines_are_those_of_the_race_view():
    sheet = (Path(__file__).parent.parent / "assets" / "style.css").read_text(encoding="utf-8")
    for fate, look in palette.FATES.items():
        shared = f"text-decoration: underline var(--fate-{fate}-line) var(--fate-{fate});"
        assert (shared in sheet) is bool(look.underline)
        assert (f"underline {look.underline} var(--fate-{fate}," in round_text.STYLE) is bool(
            look.underline
        )
        assert (f"--fate-{fate}-line: {look.underline};" in palette.css_variables()) is bool(
            look.underline
        )


def test_long_text_keeps_its_end():
    value = json.loads(round_text.round_value(made.greedy_lane(600), 599, "", ""))
    assert len(value["before"]) == round_text.BEFORE_CHARACTERS + len(round_text.ELLIPSIS)
    assert value["before"].startswith(round_text.ELLIPSIS)


def test_a_picked_token_is_marked_in_figure_and_table_and_tells_its_story():
    value = json.loads(inside.tree_of(RACE, 1, 0, 9))
    assert "wrote «␣the» instead" in value["caption"]
    assert [row["index"] for row in value["table"]["rows"] if row["selected"]] == [9]


def test_the_table_leaves_out_columns_that_hold_nothing():
    assert "threshold" not in tree_view.tree_table(made.tree_round()).head
    assert "threshold" in tree_view.tree_table(made.threshold_round(0, 1)).head
    plain = tree_view.tree_table(made.greedy_lane().rounds[0])
    assert plain.rows[0].cells[:3] == ("␣the", "the target's own", "■ plain")


def test_the_anchor_is_the_last_token_before_the_round():
    assert tree_view.anchor_text(RACE.lanes[0], 0) == ""
    assert tree_view.anchor_text(RACE.lanes[0], 1) == " the"


def test_the_stop_token_is_called_end_of_text_wherever_it_stands():
    nodes = made.chain([" a", "<|im_end|>"], 1)
    tokens = made.taken(nodes, "x", "correction")
    ended = made.make_round(
        0, nodes, (tokens[0], replace(tokens[1], token=nodes[1].token, text=""))
    )
    race = Race("", (replace(made.tree_lane(), rounds=(ended,), stop_reason="eos"),))
    value = json.loads(inside.shown(race, 0, 0)[TREE])
    assert [row["cells"][0] for row in value["table"]["rows"]].count("‹end›") == 2
    assert "stop token «‹end›»" in json.loads(inside.shown(race, 0, 0)[TOLD])["verdict"]
    assert with_ends_named(RACE) == RACE


def test_payloads_carry_no_tag_and_are_strict_json():
    for value in inside.shown(made.hostile_race(), 1, 0):
        if isinstance(value, str):
            assert "<" not in value
            json.loads(value, parse_constant=pytest.fail)


def test_events_are_private_quick_and_named():
    page, _ = build()
    events = [fn for fn in page.fns.values() if (fn.api_name or "").startswith("inside_")]
    assert {fn.api_name for fn in events} == {
        "inside_round", "inside_previous", "inside_next", "inside_lane", "inside_pick_round",
        "inside_pick_node",
    }  # fmt: skip
    for fn in events:
        assert (fn.queue, fn.api_visibility, fn.show_progress) == (False, "private", "hidden")


def test_a_click_without_a_number_is_the_anchor():
    picked = [
        inside.picked(gr.EventData(None, data)) for data in ({}, {"index": "x"}, {"index": 3})
    ]
    assert picked == [-1, -1, 3]


def test_the_head_serves_plotlys_script_by_its_path():
    head = plotly_view.head()
    assert head.startswith("<script>") and head.count("</script>") == 1
    assert "plotly-cartesian.min.js" in head and gr.utils.is_static_file(plotly_view.LIBRARY)


def test_templates_interpolate_nothing():
    for view in (plotly_view.plotly_view(), round_text.round_text()):
        assert not any(mark in view.html_template + view.css_template for mark in ("${", "{{"))
