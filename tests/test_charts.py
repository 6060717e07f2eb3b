"""Charts: the right numbers, colours from the palette, text drawn literally, never an error."""

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spork_demo.charts import acceptance, comparison, figure, judged, palette, rounds
from spork_demo.charts.fork_tree import fork_tree, fork_tree_alt
from spork_demo.charts.tree_layout import ANCHOR, lay_out
from spork_demo.charts.tree_words import item_at
from spork_demo.trace import Node, Race, Round, Token, Trace
from tests import handmade_rounds as made

RACE = made.handmade_race()
EMPTY = Race("", ())
RACE_CHARTS = (
    comparison.speed_chart, comparison.phase_chart, acceptance.acceptance_chart,
)  # fmt: skip
HEX = re.compile(r"^#[0-9A-F]{6}$")


def every_figure() -> list:
    trees = [
        made.tree_round(),
        made.mixed_round(),
        made.scored_round(0, 1, (0.1, 0.9)),
        made.wide_round(),
        made.hostile_round(),
        made.threshold_round(0, 2),
        made.greedy_lane().rounds[0],
    ]
    judges = [judged.judge_chart(round_) for round_ in trees]
    return [
        *(chart(RACE) for chart in RACE_CHARTS),
        *(chart(EMPTY) for chart in RACE_CHARTS),
        *(rounds.rounds_chart(lane, 1, RACE.baseline) for lane in RACE.lanes),
        *(fork_tree(round_, " anchor", 0) for round_ in trees),
        *(judge for judge in judges if judge),
    ]


def colours(part, key: str = "") -> list[str]:
    if isinstance(part, str):
        return [part] if key.lower().endswith("color") else []
    if isinstance(part, list):
        return [colour for item in part for colour in colours(item, key)]
    if isinstance(part, dict):
        return [colour for name, item in part.items() for colour in colours(item, name)]
    return []


def written(fig) -> str:
    return json.dumps(json.loads(fig.to_json()), ensure_ascii=False)


def framed(round_: Round) -> dict[str, list[int]]:
    """Legend name of each source's frames, and how many there are."""
    named = [trace for trace in fork_tree(round_, " a").data if (trace.name or "")[:5] == "from "]
    return {trace.name: len(trace.x) for trace in named}


def test_frames_tell_sources_by_shape_where_there_is_more_than_one():
    assert framed(made.mixed_round()) == {
        "from the table": 4, "from this text": 4, "from recycled tokens": 3,
        "from the DSpark drafter": 1,
    }  # fmt: skip
    assert framed(made.tree_round()) == {}
    assert len({look.symbol for look in palette.SOURCES.values()}) == len(palette.SOURCES)


def test_every_colour_of_every_figure_has_a_dark_one():
    unseen = {"rgba(0,0,0,0)"}
    for fig in every_figure():
        used = set(colours(json.loads(fig.to_json()))) - unseen
        assert used <= set(palette.DARK), used - set(palette.DARK)


def test_fates_read_as_text_on_light_and_dark_pages():
    for look in palette.FATES.values():
        assert palette.contrast(look.hue.light, palette.LIGHT_PAGE) >= 4.5
        assert palette.contrast(look.hue.dark, palette.DARK_PAGE) >= 4.5


def test_phases_and_lanes_stand_out_from_light_and_dark_pages():
    for look in (*palette.PHASES.values(), *palette.LANES):
        assert palette.contrast(look.hue.light, palette.LIGHT_PAGE) >= 3
        assert palette.contrast(look.hue.dark, palette.DARK_PAGE) >= 3


def test_body_text_reads_on_every_wash():
    variables = dict(re.findall(r"--(\S+): (#\w+);", palette.css_variables().split(".dark")[0]))
    for fate in palette.FATES:
        assert palette.contrast(variables[f"fate-{fate}-wash"], palette.INK.light) >= 4.5


def test_colour_is_never_the_only_cue():
    assert len({look.symbol for look in palette.FATES.values()}) == len(palette.FATES)
    assert len({look.glyph for look in palette.FATES.values()}) == len(palette.FATES)
    assert len({look.pattern for look in palette.PHASES.values()}) == len(palette.PHASES)
    assert len({look.pattern for look in palette.LANES}) == len(palette.LANES)


def test_one_light_colour_never_has_two_dark_ones():
    pairs = {(hue.light, hue.dark) for hue in palette.hues().values()}
    assert len({light for light, _ in pairs}) == len(pairs)


def test_style_variables_name_every_fate_phase_and_lane_in_both_themes():
    css = palette.css_variables()
    assert css.count("--fate-fallback:") == css.count("--phase-judge:") == 2
    assert css.count("--lane-5:") == css.count("--fate-cut-wash:") == 2
    assert all(HEX.match(colour) for colour in re.findall(r": (#\S+);", css))


@pytest.mark.parametrize("chart", RACE_CHARTS)
def test_same_race_gives_the_same_figure(chart):
    assert chart(RACE).to_json() == chart(RACE).to_json()


@pytest.mark.parametrize("chart", RACE_CHARTS)
def test_a_race_without_rounds_gives_a_figure_that_says_so(chart):
    for race in (EMPTY, Race("", (Trace(made.greedy_lane().settings, "p"),))):
        assert re.search(r"No lane has \w+", written(chart(race)))


def test_alternatives_of_an_empty_race_say_there_is_nothing():
    alternatives = (comparison.speed_alt, comparison.phase_alt, acceptance.acceptance_alt)
    assert all(alternative(EMPTY).startswith("No lane has") for alternative in alternatives)


def test_speed_is_told_with_its_speedup_and_a_slowdown_is_called_one():
    # greedy: 1 token in 40 ms. SPORK of the article: 36 tokens in 12 x 190 ms = 15.8 a second.
    text = comparison.speed_alt(RACE)
    assert "Greedy 25.0 tokens/s;" in text
    assert "SPORK as in the article 15.8 tokens/s, 0.63× greedy (slower)" in text
    assert "only 12 rounds, fewer than 20" in text
    assert "15.8 · <b>0.63×</b>" in written(comparison.speed_chart(RACE))


def test_cost_per_token_is_split_by_phase():
    # 40 ms a greedy token: 38 judging, 1 committing, 1 unaccounted for
    text = comparison.phase_alt(RACE)
    assert "Greedy 40 ms (judge 38 ms, commit 1.0 ms, other 1.0 ms)" in text
    assert "Prefill comes before and is not counted here: 200 ms." in text


def test_bars_of_acceptance_add_up_to_the_accepted_length():
    # DSpark: 21 rounds keep 4, 1, 0, 2 in turn, so 16, 11, 6, 6 of them kept at least 1, 2, 3, 4
    lane = Race("", (RACE.lanes[3],))
    fig = acceptance.acceptance_chart(lane)
    assert [round(share * 21 / 100) for share in fig.data[0].y] == [16, 11, 6, 6]
    assert "1 + (16 + 11 + 6 + 6) / 21 = 2.86" in acceptance.acceptance_caption(lane)


def test_the_identity_names_the_rounds_in_which_the_target_added_nothing():
    text = acceptance.acceptance_caption(Race("", (RACE.lanes[2],)))
    assert "(4 + 8 + 8 + 8 + 8) / 12 = 3.00, as the target added a token in 4 of 12 rounds" in text


def test_a_long_lane_shows_the_rounds_around_the_selected_one():
    lane = made.greedy_lane(3000)
    fig = rounds.rounds_chart(lane, 1500)
    assert len(fig.data[0].x) == rounds.WINDOW
    assert 1501 in fig.data[0].x
    assert list(rounds.rounds_chart(lane, 2999).data[0].customdata)[-1] == 2999


def test_round_bars_carry_their_place_and_greedys_price():
    fig = rounds.rounds_chart(RACE.lanes[1], 0, RACE.baseline)
    assert list(fig.data[0].customdata) == list(range(24))
    price = next(line for line in fig.data if line.name == "greedy's price")
    assert price.y[0] == 160  # four tokens at 40 ms


def test_a_round_that_was_held_up_is_marked_and_does_not_flatten_the_rest():
    lane = RACE.lanes[1]
    held = (replace(lane.rounds[0], seconds=3.0), *lane.rounds[1:])
    fig = rounds.rounds_chart(replace(lane, rounds=held), 0, RACE.baseline)
    mark = next(trace for trace in fig.data if trace.name == "longer than drawn")
    assert list(mark.customdata) == [0] and mark.hovertext == ("3.00 s in all",)
    assert fig.layout.yaxis.range[1] == pytest.approx(172.8)  # greedy's price of four tokens
    even = rounds.rounds_chart(lane, 0)
    assert "longer than drawn" not in {trace.name for trace in even.data}


def test_rounds_in_words_give_the_selected_rounds_seconds():
    text = rounds.rounds_alt(RACE.lanes[1], 0, RACE.baseline)
    assert (
        "Round 1: 4 tokens in 55 ms (draft 6.0 ms, judge 43 ms, commit 2.0 ms, other 4.0 ms)"
        in text
    )
    assert "greedy pays 160 ms for as many" in text


def test_an_index_outside_the_lane_draws_and_says_only_the_whole():
    for selected in (-1, 99):
        assert rounds.rounds_chart(RACE.lanes[1], selected).data
        assert "Round" not in rounds.rounds_alt(RACE.lanes[1], selected)


def test_scores_are_drawn_against_tau_and_thresholds_against_probabilities():
    scores = judged.judge_chart(made.scored_round(0, 1, (0.31, 0.82)))
    assert list(scores.data[0].x) == [0.31, 0.82]
    assert "τ 0.7" in written(scores)
    thresholds = judged.judge_chart(made.threshold_round(0, 1))
    assert {trace.name for trace in thresholds.data} == {"target p", "threshold", "confidence"}
    assert judged.judge_chart(made.tree_round()) is None
    assert judged.judge_alt(made.tree_round()) == ""


def places_of(round_: Round):
    own = [token for token in round_.committed if token.fate != "accepted"]
    return lay_out(
        round_, "a", [node.text or "#" for node in round_.nodes], [token.text for token in own]
    )


def test_what_was_committed_runs_along_the_top_line():
    top = [place for place in places_of(made.tree_round()).places if place.y == 0]
    assert [place.label for place in top] == ["a", " fox", " jumps", " over", " the"]


def test_forks_of_the_article_each_have_a_line():
    tree = places_of(made.scored_round(0, 1, (0.2, 0.9, 0.3)))
    assert tree.rows == 3
    assert {place.y for place in tree.places if place.fate == "accepted"} == {0}


def test_the_fallback_token_hangs_from_the_anchor():
    tree = places_of(made.scored_round(0, None, (0.2, 0.3)))
    fallback = next(place for place in tree.places if place.fate == "fallback")
    assert (fallback.parent, fallback.y, fallback.depth) == (ANCHOR, 0, 1)


def test_a_greedy_round_is_the_anchor_and_one_plain_token():
    round_ = made.greedy_lane().rounds[0]
    assert [place.fate for place in places_of(round_).places] == ["anchor", "plain"]
    assert fork_tree_alt(round_, " x") == (
        "No token was drafted after «␣x»; the target added «␣the» (plain)."
    )


def test_points_carry_the_index_that_finds_their_token_again():
    round_ = made.tree_round()
    indices = [index for trace in fork_tree(round_, "x").data for index in (trace.customdata or ())]
    assert sorted(indices) == list(range(-1, 13))
    assert item_at(round_, 12).text == " the"
    assert item_at(round_, -1) is None and item_at(round_, 13) is None


def test_edges_are_drawn_by_fate():
    shapes = fork_tree(made.tree_round(), "x").layout.shapes
    kinds = [(shape.line.dash, shape.line.width) for shape in shapes]
    assert kinds.count(("solid", 4)) == 3
    assert ("dash", 1.8) in kinds and ("dot", 1.4) in kinds
    assert kinds[-1][0] == "solid", "the verdict's path lies on top"


def test_markup_in_tokens_is_escaped_wherever_plotly_would_read_it():
    for text in (written(fork_tree(made.hostile_round(), "<b>x</b>")),
                 written(comparison.speed_chart(made.hostile_race()))):  # fmt: skip
        assert "<img" not in text and "<script" not in text and "<i>" not in text
    labels = written(fork_tree(made.hostile_round(), "x"))
    assert "&lt;b&gt;bold&lt;/b&gt;" in labels and "&amp;amp;" in labels and "${1+1}" in labels


def test_whitespace_and_invisible_characters_can_be_seen():
    assert figure.visible(" a\n\tb") == "␣a⏎⇥b"
    assert figure.visible("\u202ex") == "‹202E›x"
    assert figure.token_label(5, "") == "#5"
    assert figure.phrase(" two words  end ") == "␣two words␣␣end␣"


def test_long_text_is_shortened_by_width_and_chinese_counts_double():
    assert figure.shortened("abcdef", 4) == "abc…"
    assert figure.shortened("水的化学式", 5) == "水的…"
    assert figure.shortened("水的", 4) == "水的"


def test_times_are_told_in_a_fitting_unit():
    spans = (0.0004, 0.0099, 0.0421, 0.9994, 1.25)
    assert [figure.milliseconds(s) for s in spans] == [
        "0.4 ms",
        "9.9 ms",
        "42 ms",
        "999 ms",
        "1.25 s",
    ]


share = st.none() | st.floats(0, 1)


@st.composite
def any_round(draw) -> Round:
    count = draw(st.integers(0, 24))
    fate = st.sampled_from(["accepted", "rejected", "cut"])
    nodes = tuple(
        Node(
            draw(st.integers(0, 9)), draw(st.text(max_size=6)), draw(st.integers(-1, index - 1)),
            draw(fate), draw(share), draw(share), draw(share), draw(share),
            draw(st.text(max_size=3)),
        )
        for index in range(count)
    )  # fmt: skip
    own = draw(st.sampled_from(["plain", "bonus", "correction", "fallback"]))
    return made.make_round(0, nodes, made.taken(nodes, draw(st.text(max_size=6)), own))


@settings(max_examples=60, deadline=None)
@given(any_round(), st.text(max_size=9), st.none() | st.integers(-3, 30))
def test_any_tree_gives_valid_json_and_no_two_tokens_in_one_place(round_, anchor, selected):
    fig = fork_tree(round_, anchor, selected)
    json.dumps(json.loads(fig.to_json()), allow_nan=False)
    assert fork_tree_alt(round_, anchor).endswith(".")
    tree = places_of(round_)
    assert len({(place.depth, place.y) for place in tree.places}) == len(tree.places)
    assert len(tree.places) == 1 + len(round_.nodes) + sum(
        token.fate != "accepted" for token in round_.committed
    )
    assert max(place.y for place in tree.places) == tree.rows - 1


def test_a_label_never_reaches_into_the_next_column():
    tree = places_of(made.tree_round())
    edges = {place.depth: (place.x - place.half, place.x + place.half) for place in tree.places}
    assert all(edges[depth][1] < edges[depth + 1][0] for depth in range(len(edges) - 1))


def test_tokens_without_numbers_are_drawn_without_them():
    node = Node(1, "x", -1, "rejected")
    round_ = made.make_round(0, (node,), (Token(2, "y", "correction"),))
    assert "q " not in written(fork_tree(round_, ""))
