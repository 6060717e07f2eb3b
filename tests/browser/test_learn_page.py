"""The lesson as a person walks through it: keys, sliders, recordings, settings, links."""

import pytest
from playwright.sync_api import expect

STEPS = 11


def here(page) -> str:
    """Title of the step on show."""
    return page.inner_text("#learn .learn-step:visible h2")


def best_length(page) -> int:
    return page.evaluate(
        """() => document.querySelector('#learn-gain .js-plotly-plot').data
          .find((trace) => trace.marker?.symbol === 'star').x[0]"""
    )


def at_step(open_page, key: str, *, root: str = "", **options):
    page = open_page("--lesson", query=f"{root}?tab=learn&step={key}", **options)
    page.wait_for_selector("#learn .learn-entry[aria-current]")
    return page


def test_keys_walk_through_every_step_and_back(open_page):
    page = at_step(open_page, "slow")
    assert here(page) == "Why decoding is slow"
    page.keyboard.press("ArrowLeft")
    assert here(page) == "Why decoding is slow", "nothing before the first"
    titles = [here(page)]
    for _ in range(STEPS - 1):
        page.keyboard.press("ArrowRight")
        titles.append(here(page))
        assert page.evaluate("document.activeElement.tagName") == "H2"
    assert len(set(titles)) == STEPS and titles[-1] == "Sources"
    page.keyboard.press("ArrowLeft")
    assert here(page) == "Glossary"
    page.click("#learn-foot .learn-next")
    assert here(page) == "Sources"
    page.get_by_role("button", name="Draft and verify").click()
    assert here(page) == "Draft and verify"


def test_a_round_is_proposed_checked_and_kept(open_page):
    page = at_step(open_page, "verify")
    assert page.locator(".lr-chip").count() == 4
    assert "q 0" in page.inner_text(".lr-drafts")
    page.get_by_role("button", name="2 Check").click()
    assert "the target says «" in page.inner_text(".lr-drafts")
    page.get_by_role("button", name="3 Keep").click()
    assert page.locator(".lr-chip").count() == 0
    assert page.locator(".lr-text .token").count() == 4
    page.get_by_role("radio", name="all drafts are kept").click()
    page.wait_for_function("document.querySelectorAll('.lr-chip').length === 4")
    page.get_by_role("button", name="2 Check").click()
    assert page.locator(".lr-chip.fate-accepted").count() == 4


def test_dragging_acceptance_moves_the_best_length(open_page):
    page = at_step(open_page, "pays")
    page.wait_for_selector("#learn-gain [data-state=drawn]")
    page.get_by_role("radio", name="a draft model").click()
    page.wait_for_function(
        "document.querySelector('#learn-gain .js-plotly-plot').data[1].x.length === 32"
    )
    before = best_length(page)
    handle = page.locator("#learn-acceptance input[type=range]")
    box = handle.bounding_box()
    page.mouse.move(box["x"] + 0.7 * box["width"], box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.97 * box["width"], box["y"] + box["height"] / 2, steps=8)
    page.mouse.up()
    page.wait_for_function(
        """(old) => document.querySelector('#learn-gain .js-plotly-plot').data
          .find((trace) => trace.marker?.symbol === 'star').x[0] > old""",
        arg=before,
    )
    page.keyboard.press("ArrowRight")
    assert here(page) == "When it pays", "an arrow in a slider moves the slider"


def test_rules_run_and_hindsight_shifts_the_odds(open_page):
    page = at_step(open_page, "bias")
    page.wait_for_selector("#learn-bias [data-state=drawn]")
    page.click("#learn-run-rules")
    page.wait_for_function(
        "document.querySelector('#learn-step-7 .learn-live').textContent.includes('Run 4000 times')"
    )
    page.keyboard.press("ArrowRight")
    assert "0.000 draft by draft, 0.150 in hindsight" in page.inner_text("#learn-step-8")


def test_a_recorded_round_opens_inside_its_race(open_page):
    page = at_step(open_page, "forks")
    page.wait_for_selector("#learn-tree [data-state=drawn]")
    page.click("#see-forks")
    page.wait_for_selector("#inside-tree [data-state=drawn]")
    assert page.get_by_role("tab", name="Inside a round").get_attribute("aria-selected") == "true"
    page.wait_for_function("document.querySelector('#inside-told').textContent.includes('Round 8')")


@pytest.mark.parametrize("width", [1440, 390])
def test_a_setting_of_the_table_comes_into_view(open_page, width):
    page = at_step(open_page, "trouble", width=width)
    page.get_by_role("button", name="τ · accept threshold").first.click()
    page.wait_for_selector("#knob-accept_threshold.learn-shown", state="visible")
    assert page.evaluate("document.activeElement.closest('#knob-accept_threshold') !== null")
    expect(page.locator("#knob-accept_threshold")).to_be_in_viewport()


@pytest.mark.parametrize(
    "options", [{"width": 390, "height": 844}, {"width": 1920, "height": 1080}]
)
def test_no_step_is_wider_than_the_screen(open_page, options):
    page = at_step(open_page, "slow", **options)
    entries = page.locator("#learn-contents .learn-entry").all()
    assert all(entry.bounding_box()["width"] > 24 for entry in entries), "none is an empty pill"
    for _ in range(STEPS):
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), here(page)
        page.keyboard.press("ArrowRight")


def test_a_link_leads_to_its_step_in_the_other_language_too(open_page):
    page = at_step(open_page, "hindsight", root="zh")
    assert here(page) == "事后决定"
    assert "逐个草稿决定" in page.inner_text("#learn-step-8")
