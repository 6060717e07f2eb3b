"""From widget values to a run: every widget fills one setting, and nothing bad gets through."""

import dataclasses
import math

import pytest

from spork_demo.settings import KNOBS, Settings, SettingsError
from spork_demo.ui.entry import (
    LANE_FIELDS,
    SHARED_FIELDS,
    EntryError,
    offered,
    own_knobs,
    presets_for,
    read_entry,
)
from spork_demo.ui.lane_picker import DEFAULT_LANES, lane_choices
from tests.sample_race import LIMITS, PAIR, PRESETS


def values(**changes):
    """What the widgets hold when the page opens, with a prompt."""
    plain = {"prompt": "Hello", "pair": None, "lanes": 3}
    for place, (method, rules) in enumerate(DEFAULT_LANES, 1):
        plain |= {f"lane{place}_method": method, f"lane{place}_rules": rules}
        plain |= {f"lane{place}_preset": "automatic", f"lane{place}_own": ""}
    plain |= {name: getattr(Settings(), name) for name in SHARED_FIELDS}
    return plain | changes


def read(**changes):
    return read_entry(values(**changes), LIMITS, PRESETS)


def test_every_setting_is_filled_by_exactly_one_widget():
    filled = [field for fields in LANE_FIELDS.values() for field in fields] + [*SHARED_FIELDS]
    assert sorted(filled) == sorted(Settings.__slots__)


def test_each_shared_widget_moves_its_own_field_and_no_other():
    usual = read().lanes[1].to_plain()
    for name, knob in KNOBS.items():
        moved = max(knob.low, knob.default - knob.step)
        if moved == knob.default:
            moved = knob.default + knob.step
        lane = read(**{name: moved}).lanes[1].to_plain()
        assert {field for field in lane if lane[field] != usual[field]} == {name}


def test_the_opening_lanes_are_greedy_spork_and_dspark():
    entry = read()
    assert [(lane.method, lane.rules) for lane in entry.lanes] == [
        ("greedy", "exact"),
        ("spork", "exact"),
        ("dspark", "exact"),
    ]
    assert entry.labels == ("1 Greedy", "2 SPORK exact", "3 DSpark exact")


def test_a_preset_sets_drafter_and_judge():
    lane = read(lane2_rules="article", lane2_preset="SPORK as in the article").lanes[1]
    assert (lane.drafter, lane.judge) == ("target", "early_layers")


def test_a_preset_of_other_rules_is_refused():
    with pytest.raises(EntryError, match="^Lane 2: There is no such preset"):
        read(lane2_preset="SPORK as in the article")


def test_presets_are_filtered_and_automatic_comes_first():
    assert presets_for(PRESETS, "spork", "exact") == ("automatic", "SPORK, n-gram forks")
    assert presets_for(PRESETS, "greedy", "exact") == ("automatic",)


def test_choosing_dspark_moves_the_rules_to_article_and_says_why():
    rules, preset, note = lane_choices(PRESETS, (PAIR,), "dspark", "exact", "automatic")
    assert rules["value"] == "article"
    assert [value for _, value in preset["choices"]] == ["automatic", "DSpark as in the article"]
    assert "does not have" in note


def test_with_a_dspark_drafter_exact_rules_stay():
    pair = dataclasses.replace(PAIR, has_dspark=True)
    rules, _, note = lane_choices(PRESETS, (pair,), "dspark", "exact", "automatic")
    assert rules["value"] == "exact"
    assert "the target's own" in note


def test_presets_no_pair_can_serve_are_not_offered():
    without = dataclasses.replace(PAIR, has_draft_model=False, has_dspark=False)
    every = dataclasses.replace(PAIR, has_draft_model=True, has_dspark=True)
    names = [preset.name for preset in offered(PRESETS, (without,))]
    assert "DSpark as in the article" not in names
    assert "DSpark, its own drafter" not in names
    assert offered(PRESETS, (without, every)) == PRESETS


def test_own_knobs_override_the_shared_ones_for_one_lane():
    entry = read(lanes=4, lane2_own="fork_width=5", lane4_own="γ=2, temperature=0.5")
    assert [lane.fork_width for lane in entry.lanes] == [4, 5, 4, 4]
    assert (entry.lanes[3].draft_length, entry.lanes[3].temperature) == (2, 0.5)
    assert entry.labels[1] == "2 SPORK exact K=5"


@pytest.mark.parametrize(
    "text",
    [
        "fork_width",
        "fork_width=",
        "=3",
        "fork_width=three",
        "fork_width=1.5",
        "fork_width=-1",
        "fork_width=٣",
        "fork_width=2 fork_width=3",
        "method=greedy",
        "drafter=target",
        "__class__=1",
        "temperature=nan",
        "temperature=1e3",
        "x" * 500,
        7,
        ["fork_width=2"],
    ],
)
def test_own_knobs_are_parsed_strictly(text):
    with pytest.raises(EntryError):
        own_knobs(text)


def test_own_knobs_out_of_range_name_the_lane():
    with pytest.raises(EntryError, match="^Lane 2: fork_width must be between"):
        read(lane2_own="fork_width=99")


@pytest.mark.parametrize("prompt", [None, "", "   ", "\n\t", 5, ["x"], {"a": 1}, "x" * 201])
def test_a_bad_prompt_is_one_sentence(prompt):
    with pytest.raises(EntryError) as error:
        read(prompt=prompt)
    assert str(error.value).endswith(".")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("bad", [math.nan, math.inf, None, "0.5", True, 10**400, [3], -1])
def test_a_bad_slider_is_one_sentence(bad):
    with pytest.raises((EntryError, SettingsError)) as error:
        read(fork_width=bad)
    assert str(error.value).startswith("Lane 1: fork_width must be")


@pytest.mark.parametrize("lanes", [None, 0, 1, 5, 2.5, math.nan, True, "3", 10**30])
def test_a_bad_lane_count_names_the_limit(lanes):
    with pytest.raises(EntryError, match="2 to 4 lanes"):
        read(lanes=lanes)


@pytest.mark.parametrize("method", [None, "beam", 3, ["greedy"]])
def test_an_unknown_method_is_refused(method):
    with pytest.raises(EntryError, match="^Lane 1: Choose a method"):
        read(lane1_method=method)


def test_limits_of_the_deployment_are_named():
    with pytest.raises(EntryError, match="limit is 128"):
        read(max_new_tokens=129)
    with pytest.raises(EntryError, match="limit is 32"):
        read(node_budget=33)
    with pytest.raises(EntryError, match="limit is 32"):
        read(fork_shape="forks", fork_width=8, fork_depth=5)


def test_missing_values_fall_back_to_the_settings_defaults():
    entry = read_entry(
        {"prompt": "Hi", "lanes": 2, "lane1_method": "greedy", "lane1_rules": "exact",
         "lane2_method": "spork", "lane2_rules": "exact"}, LIMITS, PRESETS,
    )  # fmt: skip
    assert entry.lanes == (Settings(), Settings("spork"))
