"""Every knob refuses what it cannot be, in one sentence."""

import math

import pytest

from spork_demo.settings import (
    CHOICES,
    FORK_NODE_LIMIT,
    KNOBS,
    SEED_LIMIT,
    Settings,
    SettingsError,
    resolve,
)

WRONG = [None, "0.5", True, [], {}, math.nan, math.inf, -math.inf, 1e30, -1e30, 10**400]


@pytest.mark.parametrize("knob", KNOBS.values(), ids=KNOBS.keys())
@pytest.mark.parametrize("value", WRONG, ids=map(str, WRONG))
def test_every_knob_refuses_what_is_no_number_in_its_range(knob, value):
    with pytest.raises(SettingsError) as refusal:
        Settings(**{knob.name: value})
    assert str(refusal.value).startswith(knob.name)


@pytest.mark.parametrize("knob", KNOBS.values(), ids=KNOBS.keys())
def test_every_knob_takes_its_ends_and_its_default(knob):
    others = {"min_threshold": 0.0, "max_threshold": 1.0}
    for value in (knob.low, knob.default, knob.high):
        assert getattr(Settings(**(others | {knob.name: value})), knob.name) == value


def test_every_settings_field_is_a_knob_or_a_choice():
    assert set(Settings.__slots__) == set(KNOBS) | set(CHOICES) | {"server"}


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, SEED_LIMIT + 1])
def test_seeds_that_would_wrap_or_overflow_are_refused(seed):
    with pytest.raises(SettingsError, match="seed"):
        Settings(seed=seed)


def test_seed_zero_is_a_seed():
    assert Settings(seed=0).seed == 0


def test_a_whole_number_from_a_slider_becomes_an_int():
    assert type(Settings(fork_width=4.0).fork_width) is int
    with pytest.raises(SettingsError, match="whole"):
        Settings(fork_width=2.5)


@pytest.mark.parametrize(("temperature", "greedy"), [(0.0, True), (9e-4, True), (0.5, False)])
def test_temperatures_below_a_thousandth_are_greedy(temperature, greedy):
    assert Settings(temperature=temperature).greedy is greedy


@pytest.mark.parametrize(("size", "nodes"), [((2, 3), 8), ((4, 4), 20), ((1, 1), 2)])
def test_plain_forks_have_k_times_one_plus_m_nodes(size, nodes):
    assert Settings(fork_width=size[0], fork_depth=size[1]).plain_nodes == nodes


def test_more_forks_than_the_cap_are_refused_before_anything_is_allocated():
    big = Settings(fork_width=9, fork_depth=12, fork_shape="forks")
    assert big.plain_nodes == 117 <= FORK_NODE_LIMIT
    with pytest.raises(SettingsError, match="130 fork tokens a round; the limit is 128"):
        Settings(fork_width=10, fork_depth=12, fork_shape="forks")
    # a tree is bounded by its budget, whatever K and M would span
    assert Settings(fork_width=10, fork_depth=12, fork_shape="tree").node_budget == 24
    with pytest.raises(SettingsError, match="node_budget"):
        Settings(node_budget=87_380)


def test_thresholds_must_not_cross():
    with pytest.raises(SettingsError, match="min_threshold"):
        Settings(min_threshold=0.6, max_threshold=0.5)


@pytest.mark.parametrize(
    ("rules", "judge"), [("exact", "early_layers"), ("exact", "first_token"), ("article", "target")]
)
def test_a_judge_must_fit_its_rules(rules, judge):
    with pytest.raises(SettingsError, match=r"judge"):
        Settings(method="spork", rules=rules, judge=judge)


def test_unknown_names_and_choices_are_refused():
    with pytest.raises(SettingsError, match="no setting called"):
        Settings.from_plain({"gamma": 4})
    with pytest.raises(SettingsError, match="method"):
        Settings(method="<b>")


def test_plain_and_back_is_the_same():
    settings = Settings(method="spork", fork_width=5, temperature=0.7)
    assert Settings.from_plain(settings.to_plain()) == settings


def test_auto_becomes_what_the_pair_can_serve():
    spork = resolve(Settings(method="spork"), has_draft_model=False)
    assert (spork.drafter, spork.judge) == ("ngram", "target")
    article = resolve(Settings(method="spork", rules="article"), has_draft_model=False)
    assert (article.drafter, article.judge) == ("target", "early_layers")
    assert resolve(Settings(method="speculative"), has_draft_model=True).drafter == "draft_model"
    assert resolve(Settings(method="speculative"), has_draft_model=False).drafter == "ngram"
    both = {"has_draft_model": True, "counted": True}
    assert resolve(Settings(method="speculative"), **both).drafter == "ngram"
    article = Settings(method="speculative", rules="article")
    assert resolve(article, **both).drafter == "draft_model"


def test_what_the_pair_cannot_serve_is_refused():
    with pytest.raises(SettingsError, match="no draft model"):
        resolve(Settings(method="speculative", drafter="draft_model"), has_draft_model=False)
    with pytest.raises(SettingsError, match="between 1 and 4"):
        resolve(
            Settings(method="spork", drafter="early_exit", verifier_layers=5),
            has_draft_model=False,
            layers=4,
        )
    with pytest.raises(SettingsError, match="Exact DSpark"):
        resolve(Settings(method="dspark", rules="exact"), has_draft_model=True)
