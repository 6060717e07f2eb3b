"""What the page learns once the model is there: choices catch up, a visitor's own stay."""

from dataclasses import replace

import gradio as gr
import pytest

from spork_demo.host import Status
from spork_demo.ui import words
from spork_demo.ui.lane_picker import lane_choices, serving
from spork_demo.ui.waiting import host_news, pair_news
from tests.sample_race import DSPARK_PAIR, PAIR, PRESETS, FakeHost

LOADING = Status("Fetching the model.")
READY = Status("Ready.", ready=True)
PICKS = ("greedy", "exact", "automatic", "dspark", "exact", "automatic")


def lanes(news: list, start: int) -> list[tuple]:
    """Rules, preset and note of every lane in what a handler returned."""
    found = news[start:]
    return [tuple(found[i : i + 3]) for i in range(0, len(found), 3)]


def news(host, *picks, wanted=None, layers=None):
    return host_news(host, PRESETS, wanted, layers, *(picks or PICKS))


def test_while_loading_nothing_but_the_strip_changes():
    wanted, strip, timer, *rest = news(FakeHost(state=LOADING))
    assert "Fetching" in strip
    assert timer.active
    assert [wanted, *rest] == [gr.skip()] * (3 + len(PICKS))


def test_exact_dspark_comes_back_once_a_pair_with_its_drafter_is_there():
    host = FakeHost(state=READY, offers=(DSPARK_PAIR,))
    (rules, _, note) = lanes(news(host), 5)[1]
    assert (rules["value"], note) == ("exact", words.EXACT_NOTE)


def test_without_a_drafter_the_article_rules_stay_and_say_why():
    (rules, preset, note) = lanes(news(FakeHost(state=READY)), 5)[1]
    assert (rules["value"], note) == ("article", words.DSPARK_NOTE)
    assert ("DSpark as in the article",) * 2 in preset["choices"]


def test_what_the_visitor_chose_while_it_loaded_is_kept():
    host = FakeHost(state=READY, offers=(DSPARK_PAIR,))
    picks = ("dspark", "article", "DSpark as in the article", "spork", "exact", "automatic")
    (dspark, preset, note), (spork, _, _) = lanes(news(host, *picks), 5)
    assert (dspark["value"], preset["value"]) == ("article", "DSpark as in the article")
    assert note == words.ARTICLE_NOTE
    assert spork["value"] == "exact"


def test_another_pair_brings_its_own_choices_layers_and_training():
    small = replace(PAIR, name="small", layers=12)
    host = FakeHost(state=READY, offers=(DSPARK_PAIR, small))
    strip, layers, *choices = pair_news(host, PRESETS, "small", 20, *PICKS)
    assert (layers["maximum"], layers["value"]) == (12, 12)
    assert lanes(choices, 0)[1][0]["value"] == "article"
    assert DSPARK_PAIR.about not in strip
    strip, layers, *choices = pair_news(host, PRESETS, DSPARK_PAIR.name, 5, *PICKS)
    assert DSPARK_PAIR.about in strip
    assert layers["value"] == 5, "what the visitor chose stays where the pair has it"
    assert lanes(choices, 0)[1][0]["value"] == "exact"


def test_what_a_link_asks_for_comes_with_the_pairs_and_is_asked_for_no_more():
    small = replace(PAIR, name="small", layers=12)
    host = FakeHost(state=READY, offers=(DSPARK_PAIR, small))
    wanted = {"pair": "small", "lane2_preset": "DSpark as in the article"}
    picks = ("greedy", "exact", "automatic", "dspark", "article", "automatic")
    left, _, timer, menu, layers, *choices = news(host, *picks, wanted=wanted, layers=11)
    assert left is None
    assert not timer.active
    assert menu["value"] == "small"
    assert layers["value"] == 11
    assert lanes(choices, 0)[1][1]["value"] == "DSpark as in the article"
    assert lanes(news(host, *picks, wanted={}), 5)[1][1]["value"] == "automatic"


def test_the_strip_says_what_the_drafters_learned_from():
    host = FakeHost(state=READY, offers=(DSPARK_PAIR,))
    assert DSPARK_PAIR.about in news(host)[1]
    odd = replace(DSPARK_PAIR, about="<b>text</b>")
    strip = news(FakeHost(state=READY, offers=(odd,)))[1]
    assert "&lt;b&gt;text" in strip


@pytest.mark.parametrize("name", [None, "", "no such pair", 7])
def test_an_unknown_pair_name_stands_for_the_first(name):
    assert serving((DSPARK_PAIR, PAIR), name) == (DSPARK_PAIR,)
    assert serving((), name) == ()


def test_leaving_dspark_gives_back_the_rules_that_were_asked_for():
    rules, _, note = lane_choices(PRESETS, (PAIR,), "dspark", "exact", "automatic")
    assert (rules["value"], note) == ("article", words.DSPARK_NOTE)
    rules, _, note = lane_choices(PRESETS, (PAIR,), "spork", "exact", "automatic")
    assert (rules["value"], note) == ("exact", words.EXACT_NOTE)
