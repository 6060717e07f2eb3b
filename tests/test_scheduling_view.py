"""Why so many drafts were sent, and whether confidences come true: charts and sentences."""

import json
from dataclasses import replace

import gradio as gr
import pytest

from spork_demo.charts import palette
from spork_demo.charts.reliability import reliability_alt, reliability_chart, reliable_lane
from spork_demo.charts.scheduling import (
    chances_alt,
    chances_chart,
    throughput_alt,
    throughput_chart,
)
from spork_demo.reliability import predictions
from spork_demo.settings import Settings
from spork_demo.trace import Race, Trace
from spork_demo.ui import inside, results
from spork_demo.ui.handlers import CHART_SECONDS, Desk
from spork_demo.ui.reliability_view import lane_reliability, race_reliability
from spork_demo.ui.scheduling_story import scheduling_story
from tests.dspark_rounds import dspark_lane, dspark_round
from tests.handmade_rounds import greedy_lane, handmade_race, threshold_lane, tree_round
from tests.sample_race import LIMITS, PRESETS, FakeHost, dspark_race
from tests.test_charts import colours
from tests.test_ui_entry import values

# 1 / 50 ms = 20; 1.9 / 52 ms = 36.5; 2.62 / 54 ms = 48.5; 2.76 / 56 ms = 49.3; 2.77 / 68 ms
WEIGHED = dspark_round(0, (0.9, 0.8, 0.2, 0.05, 0.9), 2, raw=(0.95, 0.9, 0.5, 0.4, 0.95))
SETTINGS = Settings("dspark", drafter="dspark", draft_length=7)
LANE = dspark_lane(SETTINGS, tokens=60)
LONG = dspark_lane(SETTINGS, tokens=200)


def traces_named(figure, name):
    return [trace for trace in figure.data if trace.name == name]


def test_the_hardware_story_gives_expected_tokens_seconds_and_the_refused_draft():
    assert scheduling_story(WEIGHED) == (
        "Sending 3 drafts is expected to commit 1 + 0.90 + 0.72 + 0.14 = 2.76 tokens in 10 ms of "
        "drafting and 46 ms of target call, as measured on the machine of this run: Θ = 49.4 "
        "tokens/s. Draft 4, expected to survive with probability 0.01, would change Θ to 40.8, no "
        "more than 49.4, so it and all behind it, 2 in all, were cut."
    )


def test_a_block_sent_whole_by_hardware_says_every_draft_paid():
    story = scheduling_story(dspark_round(0, (0.99, 0.99), 2))
    assert "Every further draft raised Θ, from 20.0 with none sent, so all were sent." in story


def test_a_block_sent_whole_over_a_step_does_not_claim_that_every_draft_raised_it():
    whole = dspark_round(0, (0.99, 0.99), 2)
    low = replace(whole.scheduling, throughputs=(20.0, 19.5, 31.0), hopes=(30.0, 31.0))
    assert "Not every draft raised Θ by itself" in scheduling_story(replace(whole, scheduling=low))


def test_nothing_sent_is_one_token_expected():
    story = scheduling_story(dspark_round(0, (0.01,), 0))
    assert "Sending no draft is expected to commit 1 token in 10 ms" in story
    assert "so it was cut." in story


def test_a_stair_is_told_apart_from_a_plain_refusal():
    why = WEIGHED.scheduling
    stair = replace(why, hopes=(*why.hopes[:-1], why.throughputs[-1] + 2))
    story = scheduling_story(replace(WEIGHED, scheduling=stair))
    assert "even if the drafts behind it" in story and "at most 42.8 is in reach" in story


def test_the_threshold_story_names_the_first_draft_below_it():
    sent = scheduling_story(dspark_round(0, (0.9, 0.8, 0.3, 0.9), 2, "threshold"))
    assert "Draft 3 has confidence 0.30, below c 0.50, so it and all behind it, 2 in all" in sent
    whole = scheduling_story(dspark_round(0, (0.9, 0.8), 2, "threshold"))
    assert "the lowest confidence of the 2 drafts, 0.80, reaches c 0.50" in whole


def test_the_full_rule_says_what_the_last_draft_was_worth():
    story = scheduling_story(dspark_round(0, (0.9, 0.5), 1, "full"))
    assert "all 2 drafts, though the last, draft 2" in story and "probability 0.45" in story


def test_rounds_without_a_scheduler_have_no_story():
    assert scheduling_story(greedy_lane().rounds[0]) == ""


def test_sent_and_cut_drafts_differ_by_more_than_colour():
    figure = chances_chart(WEIGHED)
    sent, cut = traces_named(figure, "sent")[0], traces_named(figure, "cut")[0]
    assert list(sent.x) == pytest.approx([0.9, 0.72, 0.144])
    assert list(cut.y) == [3, 4]
    assert sent.marker.pattern.shape != cut.marker.pattern.shape
    assert "«,» 0.01, cut" in chances_alt(WEIGHED)


def test_under_the_threshold_rule_confidences_stand_against_c():
    figure = chances_chart(dspark_round(0, (0.9, 0.3), 1, "threshold"))
    assert list(traces_named(figure, "sent")[0].x) == [0.9]
    assert list(traces_named(figure, "predicted survival")[0].x) == pytest.approx([0.9, 0.27])
    assert list(traces_named(figure, "threshold c 0.50")[0].x) == [0.5, 0.5]


def test_throughputs_mark_the_chosen_and_the_refused_length_over_measured_seconds():
    figure = throughput_chart(WEIGHED)
    assert list(traces_named(figure, "chosen")[0].x) == [3]
    assert list(traces_named(figure, "refused")[0].x) == [4]
    assert list(traces_named(figure, "considered")[0].x) == [0, 1, 2]
    assert list(traces_named(figure, "target call")[0].y) == [40, 42, 44, 46, 58, 60]
    assert len({trace.marker.symbol for trace in figure.data[1:4]}) == 3
    assert "4 drafts 40.8 (refused)" in throughput_alt(WEIGHED)
    assert throughput_chart(dspark_round(0, (0.9,), 1, "full")) is None


def test_the_diagram_has_a_series_before_and_after_scaling_with_counts():
    found = predictions(LONG.rounds)
    figure = reliability_chart(found)
    assert {trace.name for trace in figure.data} == {
        "comes true", "before scaling", "after scaling",
    }  # fmt: skip
    bars = [trace for trace in figure.data if trace.type == "bar"]
    assert [sum(trace.y) for trace in bars] == [len(found)] * 2
    assert "After scaling: 0." in reliability_alt(found)
    single = predictions(threshold_lane().rounds)
    assert {trace.name for trace in reliability_chart(single).data} == {
        "comes true", "the drafter's confidences",
    }  # fmt: skip


def test_every_colour_of_the_new_figures_has_a_dark_one():
    shown = (
        chances_chart(WEIGHED), throughput_chart(WEIGHED), reliability_chart(()),
        reliability_chart(predictions(LANE.rounds)),
    )  # fmt: skip
    for figure in shown:
        used = set(colours(json.loads(figure.to_json()))) - {"rgba(0,0,0,0)"}
        assert used <= set(palette.DARK)


def test_the_caption_gives_both_errors_and_says_when_drafts_are_few():
    short = json.loads(lane_reliability(LANE))["caption"]
    assert "before temperature scaling" in short and "in 5 equal bins" in short
    assert "are too few to judge by" in short
    assert "too few" not in json.loads(lane_reliability(LONG))["caption"]
    plain = json.loads(lane_reliability(threshold_lane()))["caption"]
    assert "this drafter has no temperature scaling" in plain
    empty = json.loads(lane_reliability(Trace(SETTINGS, "p", label="DSpark")))["caption"]
    assert empty == "DSpark: points appear here as drafts are judged."


def test_exact_dspark_is_preferred_and_a_race_without_confidences_has_no_diagram():
    both = (threshold_lane(), LANE)
    assert reliable_lane(both) is LANE
    assert reliable_lane(handmade_race().lanes).settings.method == "dspark"
    assert race_reliability(Race("", (greedy_lane(),))) is None
    assert race_reliability(None) is None
    nodes = tuple(replace(node, confidence=0.5) for node in tree_round().nodes)
    forks = Trace(Settings("spork"), "p", rounds=(replace(tree_round(), nodes=nodes),))
    assert reliable_lane((forks,)) is None, "siblings are not prefixes of one another"
    assert len(results.chart_values(None)) == len(results.ChartViews._fields)


def test_the_inside_tab_shows_the_scheduler_only_where_one_decided():
    race = dspark_race()
    for lane, visible in ((0, False), (1, False), (2, True)):
        why, story, chances, costs, kept = inside.shown(race, lane, 3)[3:8]
        assert why["visible"] is visible
        assert all(bool(value) is visible for value in (story, chances, costs, kept))


def test_a_run_draws_the_diagram_as_it_goes_but_not_at_every_frame():
    clock = iter(range(10**6))
    desk = Desk(FakeHost(), LIMITS, PRESETS, [], clock=lambda: next(clock) / 20)
    frames = list(desk.live(**values(max_new_tokens=60, lane3_rules="exact")))
    drawn = [json.loads(frame[3]) for frame in frames if isinstance(frame[3], str)]
    assert 2 <= len(drawn) < len(frames) / (CHART_SECONDS * 2)
    assert "points appear here" in drawn[0]["caption"]
    assert "Expected calibration error" in drawn[-1]["caption"]
    assert gr.skip() in [frame[3] for frame in frames]


def test_closing_a_live_run_closes_the_host():
    host = FakeHost()
    run = Desk(host, LIMITS, PRESETS, [], clock=lambda: 0.0).live(**values())
    next(run)
    run.close()
    assert host.closed == ["Hello"]
