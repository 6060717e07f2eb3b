"""The Inside tab without a browser: any lane, any round, any race, never an error."""

import json
from dataclasses import replace
from pathlib import Path

import gradio as gr
import pytest

from spork_demo.charts import palette
from spork_demo.trace import Race, Token, Trace
from spork_demo.ui import inside, plotly_view, round_text, tree_view
from spork_demo.ui.ending import with_ends_named
from spork_demo.ui.reel import standing_sentence
from spork_demo.ui.round_player import round_player
from tests import handmade_rounds as made
from tests.sample_race import dspark_race

RACE = made.handmade_race()
TOLD, AT, TREE, WHY, STORY, CHANCES, COSTS, RELIABILITY, COLUMN, JUDGE, PANEL = range(11)
LIMIT, LOW, HIGH, LENGTH, ANSWER, COST = range(11, 17)


def build() -> tuple[gr.Blocks, inside.InsideParts]:
    with gr.Blocks() as page:
        parts = inside.build_inside(gr.State(RACE))
    return page, parts


def reel(race: Race, lane: int = 0, place: int = 0) -> dict:
    return json.loads(inside.shown(race, lane, place)[TOLD])


def test_every_update_fills_every_output():
    _, parts = build()
    races = (None, Race("", ()), Race("", (Trace(RACE.lanes[0].settings, "p"),)), RACE)
    for race in races:
        assert len(parts.show(race, 0, 0)) == len(parts.refresh(race)) == len(parts.outputs)
        assert len(inside.following(race, 1, 3)) == len(parts.followers)


@pytest.mark.parametrize("lane", [-5, 0, 3, 99, None])
@pytest.mark.parametrize("place", [-7, 0, 5, 10_000])
def test_numbers_out_of_range_are_brought_into_it(lane, place):
    for race in (None, Race("", ()), RACE, made.hostile_race()):
        value = json.loads(inside.shown(race, lane, place)[TOLD])
        assert value.get("verdict") or value["lanes"][value["lane"]]["rounds"][value["round"]]
        inside.tree_of(race, lane, place, place)
        inside.following(race, lane, place)


def test_a_race_opens_on_its_most_telling_round():
    assert inside.telling_lane(RACE) == 1
    assert inside.telling_round(RACE, 1) == 0, "the tree with a kept path and refused forks"
    assert inside.telling_lane(Race("", (made.greedy_lane(),))) == 0


def test_the_reel_holds_every_round_of_every_lane_and_where_to_open():
    value = reel(RACE, 1, 4)
    assert (value["lane"], value["round"]) == (1, 4)
    assert [lane["name"] for lane in value["lanes"]] == [lane.label for lane in RACE.lanes]
    assert [len(lane["rounds"]) for lane in value["lanes"]] == [len(t.rounds) for t in RACE.lanes]
    assert inside.shown(RACE, 1, 4)[AT] == (1, 4)
    assert inside.following(RACE, 99, 99)[0] == (3, 20)


def test_each_round_carries_the_lanes_clock_and_where_greedy_stood():
    first, second = reel(RACE)["lanes"][1]["rounds"][:2]
    assert (first["end"], first["tokens"]) == (0.055, 4)
    assert first["standing"] == "Greedy was at token 1 by then, 3 tokens behind."
    assert (second["end"], second["tokens"]) == (0.11, 6)
    assert second["standing"] == "Greedy was at token 2 by then, 4 tokens behind."
    assert {entry["standing"] for entry in reel(RACE)["lanes"][0]["rounds"]} == {""}
    slow = reel(RACE)["lanes"][2]["rounds"]
    assert slow[0]["standing"] == "Greedy was at token 4 by then, 3 tokens ahead."
    assert standing_sentence(3, 0) == "Greedy had no token yet by then."
    assert standing_sentence(3, 3) == "Greedy was at token 3 by then, too."


def test_each_round_is_priced_by_what_greedy_pays_for_as_many_tokens():
    first = reel(RACE)["lanes"][1]["rounds"][0]
    assert first["phases"] == [6.0, 43.0, 2.0, 4.0]
    assert first["price"] == pytest.approx(4 * 40)
    assert first["cost"] == "4 tokens in 55 ms where greedy takes 160 ms: 2.91× as fast."
    lost = reel(RACE)["lanes"][2]["rounds"][0]
    assert lost["cost"] == "1 token in 190 ms where greedy takes 40 ms: slower, 0.21× its speed."
    own = reel(RACE)["lanes"][0]["rounds"][0]
    assert (own["price"], own["cost"]) == (None, "")
    alone = reel(Race("", (made.tree_lane(),)))["lanes"][0]["rounds"][0]
    assert (alone["price"], alone["cost"], alone["standing"]) == (None, "", "")


def test_the_judges_chart_is_there_only_when_numbers_judged():
    visible = [inside.shown(RACE, lane, 1)[COLUMN]["visible"] for lane in range(4)]
    assert visible == [False, False, True, True]


def test_thresholds_at_temperature_0_say_that_they_decide_nothing():
    cold = Race("", (made.threshold_lane(temperature=0.0),))
    assert "decide nothing" in json.loads(inside.shown(cold, 0, 1)[JUDGE])["caption"]
    assert json.loads(inside.shown(RACE, 3, 1)[JUDGE])["caption"] == ""


def test_a_slow_lane_gets_its_reasons_under_the_cost_chart():
    assert "cannot beat greedy" in json.loads(inside.shown(RACE, 2, 0)[COST])["caption"]


def test_tokens_are_marked_and_what_cannot_be_seen_is_shown():
    marks = [entry["committed"] for entry in reel(RACE)["lanes"][0]["rounds"]]
    assert marks[2] == [[" brown", "plain"]]
    assert marks[5] == [["\n", "plain", "⏎\n"]]
    bare = made.make_round(0, (), (Token(77, "", "plain"),))
    race = Race("", (replace(made.greedy_lane(), rounds=(bare,)),))
    assert reel(race)["lanes"][0]["rounds"][0]["committed"] == [["", "plain", "#77"]]


def test_a_chain_shows_what_it_drafted_in_vain_and_a_tree_does_not():
    entry = reel(dspark_race())["lanes"][2]["rounds"][7]
    round_ = dspark_race().lanes[2].rounds[7]
    assert [mark[1] for mark in entry["dropped"]] == ["rejected"] * 2 + ["cut"] * 2
    assert len(entry["dropped"]) == len(round_.nodes) - round_.accepted
    assert reel(RACE)["lanes"][1]["rounds"][0]["dropped"] == []


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
    assert "stop token «‹end›»" in reel(race)["lanes"][0]["rounds"][0]["verdict"]
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
        "inside_settled", "inside_pick_node", "inside_limit", "inside_low", "inside_high",
        "inside_length",
    }  # fmt: skip
    for fn in events:
        assert (fn.queue, fn.api_visibility, fn.show_progress) == (False, "private", "hidden")


def test_what_the_browser_sends_is_a_whole_number_or_ignored():
    sent = [
        inside.picked(gr.EventData(None, data))
        for data in ({}, {"index": "x"}, {"index": True}, {"index": 2.5}, {"index": 3})
    ]
    assert sent == [-1, -1, -1, -1, 3]


@pytest.mark.parametrize(
    ("told", "place"),
    [("2 11", (2, 11)), ("0 0", (0, 0)), ("", (0, 0)), (None, (0, 0)), (7, (0, 0)), ([], (0, 0)),
     ("1 2 3", (0, 0)), ("-1 2", (0, 0)), ("1 9999999", (0, 0)), ("٣ ٤", (0, 0))],
)  # fmt: skip
def test_the_place_told_is_two_numbers_or_the_start(told, place):
    assert inside.resting(told) == place


def test_the_head_serves_plotlys_script_by_its_path():
    head = plotly_view.head()
    assert head.startswith("<script>") and head.count("</script>") == 1
    assert "plotly-cartesian.min.js" in head and gr.utils.is_static_file(plotly_view.LIBRARY)


def test_templates_interpolate_nothing():
    for view in (plotly_view.plotly_view(), round_text.text_view(), round_player()):
        assert not any(mark in view.html_template for mark in ("${", "{{"))
