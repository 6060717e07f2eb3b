"""Exact DSpark on the page, on a fake host whose pair has a DSpark drafter."""

import pytest
from playwright.sync_api import expect

from spork_demo.trace_file import dumps
from spork_demo.ui.inside import telling_round
from tests.browser.test_race_page import CONTRASTS, badge, run, upload, wait_until_finished
from tests.sample_race import DSPARK_PAIR, dspark_race, sample_race

TELLING = telling_round(dspark_race(), 2) + 1
DSPARK = ("--dspark", "--gap", "0.02")
LATE = ("--dspark", "--late", "12")
SLOW = ("--dspark", "--gap", "0.08")
READS = (
    ".headed p, .headed h3, .pv-caption, .pv-title, .pv-table td, .rt-dropped, .rt-dropped mark,"
    " .rt-mark, .lane-note, .host-learned"
)


def open_inside(page, lane="3 DSpark exact", round_=TELLING):
    page.get_by_role("tab", name="Inside a round").click()
    page.get_by_role("radio", name=lane).check()
    page.focus("#inside-round input")
    page.keyboard.press("Home")
    for _ in range(round_ - 1):
        page.keyboard.press("ArrowRight")
    page.wait_for_function(
        "(round) => document.querySelector('#inside-tree .pv-title').textContent"
        ".endsWith('round ' + round)",
        arg=round_,
    )
    page.wait_for_selector("#inside-story .headed")
    page.locator("#inside-chances").scroll_into_view_if_needed()
    page.wait_for_selector("#inside-chances .main-svg")


def test_exact_dspark_is_the_lane_that_is_offered_and_its_drafter_is_named(open_page):
    page = open_page(*DSPARK)
    expect(page.locator("#host-status")).to_contain_text(DSPARK_PAIR.about)
    who = page.inner_text(".lane[data-lane='2'] .lane-who")
    assert who == "DSpark network drafts (dspark-smollm2)"
    page.click("#lanes button")
    page.wait_for_selector("#lane3-rules input[value=exact]:checked")
    page.click("#pair input")
    page.get_by_role("option", name="SmolLM2-135M-Instruct", exact=True).click()
    page.wait_for_selector("#lane3-rules input[value=article]:checked")
    expect(page.locator("#lane-pickers")).to_contain_text("needs its own trained drafter")


def test_when_the_model_comes_late_the_pickers_catch_up_but_choices_stay(open_page):
    page = open_page(*LATE)
    page.click("#lanes button")
    page.wait_for_selector("#lane3-rules input[value=article]:checked")
    page.check("#lane2-rules input[value=article]")
    page.wait_for_selector("#lane3-rules input[value=exact]:checked")
    assert page.is_checked("#lane2-rules input[value=article]")
    assert "needs its own trained drafter" not in page.inner_text("#lane-pickers")


def test_a_round_tells_why_so_many_were_sent(open_page):
    page = open_page(*DSPARK)
    open_inside(page)
    expect(page.locator("#inside-story")).to_contain_text("Sending 5 drafts is expected to commit")
    assert "in vain" not in page.inner_text("#inside-told")
    assert page.locator("#inside-told .rt-dropped .rt-cut").count() == 2
    page.locator("#inside-costs").scroll_into_view_if_needed()
    page.wait_for_selector("#inside-costs .main-svg")
    assert "refused" in page.get_attribute("#inside-costs .pv-chart", "aria-label")
    page.get_by_role("radio", name="1 Greedy").check()
    page.wait_for_selector("#inside-why", state="detached")


def test_the_schedule_is_chosen_on_the_page(open_page):
    page = open_page(*DSPARK)
    page.click("#knobs button")
    page.click("#knobs-scheduling button")
    page.check("#knob-schedule input[value=threshold]")
    run(page)
    wait_until_finished(page)
    page.get_by_role("tab", name="Inside a round").click()
    expect(page.locator("#inside-told .rounds-token")).to_contain_text("of 96")
    open_inside(page)
    story = page.locator("#inside-story")
    expect(story).to_contain_text("The rule is to stop before the first draft below c")
    expect(page.locator("#inside-costs figure:visible")).to_have_count(0)


def test_the_diagram_grows_while_the_race_runs(open_page):
    page = open_page(*SLOW)
    page.locator("#reliability-chart").scroll_into_view_if_needed()
    page.wait_for_selector("#reliability-chart .main-svg")
    page.evaluate("document.querySelector('#reliability-chart .pv-chart').kept = true")
    run(page)
    page.wait_for_selector(".is-live .badge-live")
    page.wait_for_function(
        "/from [1-9][0-9]? sent draft/.test("
        "document.querySelector('#reliability-chart .pv-caption').textContent)"
        " && document.querySelector('.is-live')"
    )
    assert page.evaluate("document.querySelector('#reliability-chart .pv-chart').kept")
    page.click("#stop")
    page.wait_for_function("document.querySelector('#notice').textContent.includes('Stopped')")


def test_a_recording_picked_during_a_run_ends_it_and_stays(open_page):
    page = open_page(*SLOW)
    run(page)
    page.wait_for_selector(".is-live .lane[data-lane='0'] .token:nth-of-type(3)")
    page.click("#recordings input")
    page.get_by_role("option", name="Exact DSpark").click()
    page.wait_for_function("document.querySelector('.badge')?.textContent.includes('recorded')")
    page.wait_for_timeout(2500)
    assert badge(page) == "recorded"
    assert page.inner_text(".race-prompt").endswith("Write a tiny Python function.")
    expect(page.locator("#recordings input")).to_have_value("Exact DSpark")
    expect(page.locator("#notice")).to_contain_text("This is a recorded race")
    run(page, "And again.")
    page.wait_for_selector(".is-live .lane[data-lane='0'] .token:nth-of-type(3)")
    page.click("#stop")


def test_a_file_opened_during_a_run_ends_it_and_stays(open_page, tmp_path):
    page = open_page(*SLOW)
    file = tmp_path / "race.json"
    file.write_text(dumps(sample_race("From a file.")), encoding="utf-8")
    run(page)
    page.wait_for_selector(".is-live .lane[data-lane='0'] .token:nth-of-type(3)")
    upload(page, file)
    page.wait_for_function("document.querySelector('#notice').textContent.includes('Loaded')")
    page.wait_for_timeout(2500)
    assert badge(page) == "recorded"
    assert page.inner_text(".race-prompt").endswith("From a file.")


def test_tokens_say_where_they_came_from(open_page):
    page = open_page(*DSPARK)
    page.click(".lane[data-lane='1'] .token:nth-of-type(1)")
    assert "from the table of text the target wrote earlier" in page.inner_text(".token-card")
    page.keyboard.press("Escape")
    page.get_by_role("tab", name="Inside a round").click()
    page.get_by_role("radio", name="2 SPORK exact").check()
    page.locator("#inside-tree").scroll_into_view_if_needed()
    page.wait_for_function(
        "document.querySelector('#inside-tree .pv-chart').textContent.includes('from this text')"
    )
    assert "comes from" in page.inner_text("#inside-tree .pv-table")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_words_of_the_round_read_on_their_background(open_page, theme):
    page = open_page(*DSPARK, query=f"?__theme={theme}")
    open_inside(page)
    page.wait_for_timeout(300)
    script = CONTRASTS.replace(CONTRASTS.split("const seen = ")[1].split(";")[0], repr(READS), 1)
    found = page.evaluate(script)
    assert len(found) > 20
    assert {tuple(pair) for pair in found if pair[1] < 4.5} == set()


def test_the_round_fits_a_phone(open_page):
    page = open_page(*DSPARK, width=390, height=844)
    open_inside(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
