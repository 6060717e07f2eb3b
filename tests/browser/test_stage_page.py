"""The stage over the app: opened by its button, by a link, and over a race that goes on."""

from tests.browser.test_race_page import SLOWER, run
from tests.sample_race import sample_race

SHOWN = "window.sporkStage.shown"


def on_screen(page, kind):
    page.wait_for_function(f"{SHOWN}?.kind === '{kind}'")


def test_the_button_opens_the_race_on_stage_and_escape_gives_the_page_back(open_page):
    page = open_page()
    page.click("#stage-open")
    page.wait_for_selector(".stage .stage-title")
    assert "recorded" in page.inner_text(".stage-top")
    assert "CPU, 2 cores · float32 · 2026-11-20" in page.inner_text(".stage-top")
    page.keyboard.press("ArrowRight")
    on_screen(page, "race")
    assert page.locator(".stage-start:visible").all_inner_texts() == ["Space plays it"]
    page.keyboard.press(" ")
    assert page.locator(".stage-start").count() == 0
    page.wait_for_selector(".stage .lane[data-lane='1'].is-finished")
    page.keyboard.press("ArrowRight")
    on_screen(page, "speed")
    assert page.locator(".stage .lane-verdict").all_inner_texts()[1] == "identical to greedy"
    page.keyboard.press("ArrowRight")
    on_screen(page, "lane")
    grounds = "(mark) => getComputedStyle(mark).backgroundColor"
    assert page.locator(".stage-text mark.fate-plain").first.evaluate(grounds) == "rgba(0, 0, 0, 0)"
    page.keyboard.press("ArrowDown")
    page.wait_for_selector(".stage-text mark.fate-accepted")
    kept = page.locator(".stage-text mark.fate-accepted").first.evaluate(grounds)
    assert kept not in ("rgba(0, 0, 0, 0)", "rgb(255, 255, 0)")
    page.keyboard.press("Escape")
    page.wait_for_selector(".stage", state="detached")
    assert page.evaluate("document.activeElement.closest('#stage-open') !== null")


def test_a_link_opens_the_page_on_stage(open_page):
    page = open_page(query="?stage=1&recording=1")
    page.wait_for_selector(".stage .stage-title")
    assert page.inner_text(".stage .stage-title") == sample_race().title


def test_a_race_that_goes_on_is_watched_on_stage_and_told_at_its_end(open_page):
    page = open_page(*SLOWER)
    run(page, "Said on stage.")
    page.wait_for_selector(".is-live .lane[data-lane='0'] .token:nth-of-type(3)")
    page.click("#stage-open")
    page.wait_for_selector(".stage .badge-live")
    page.keyboard.press("ArrowRight")
    on_screen(page, "race")
    tokens = "document.querySelectorAll('.stage .lane-text .token').length"
    page.wait_for_function(f"{tokens} > 0")
    before = page.evaluate(tokens)
    page.wait_for_function(f"(before) => {tokens} > before", arg=before)
    page.wait_for_function(
        "[...document.querySelectorAll('.stage .lane')].every("
        "(lane) => lane.classList.contains('is-finished'))"
    )
    page.keyboard.press("ArrowRight")
    on_screen(page, "speed")
    page.wait_for_function(
        "[...document.querySelectorAll('.stage .lane-verdict')]"
        ".some((verdict) => verdict.textContent === 'identical to greedy')"
    )
    page.keyboard.press("Home")
    on_screen(page, "title")
    assert page.inner_text(".stage .stage-prompt") == "Said on stage."
