"""Calibrating as a person does: run, move the quantile, apply, find it on the race tab."""

import re

from playwright.sync_api import expect

from spork_demo.calibration import verdict
from spork_demo.settings import Settings
from tests.browser.test_race_page import turn
from tests.sample_calibration import sample_calibration

DSPARK = ("--dspark", "--gap", "0.02")
SLOW = ("--dspark", "--gap", "0.08")
THRESHOLD = re.compile(r"At τ (\d\.\d\d)")


def calibrate(page):
    page.get_by_role("tab", name="Calibrate").click()
    page.click("#calibrate-run")


def threshold(page) -> str:
    caption = page.locator("#calibrate-score-chart .pv-caption")
    expect(caption).to_contain_text(THRESHOLD)
    return THRESHOLD.search(caption.inner_text())[1]


def test_calibrate_move_the_quantile_apply_and_find_it_on_the_race_tab(open_page):
    page = open_page(*DSPARK)
    page.click("#lanes button")
    page.check("#lane2-rules input[value=article]")
    calibrate(page)
    expect(page.locator("#calibrate-notice")).to_contain_text("Calibrated")
    page.wait_for_selector("#calibrate-score-chart .main-svg")
    first = threshold(page)
    page.check("#calibrate-judge input[value=first_token]")
    page.wait_for_function(
        "document.querySelector('#calibrate-score-chart .pv-title').textContent"
        ".includes('first token')"
    )
    turn(page, "#calibrate-quantile", "0.4")
    wanted = f"{verdict(sample_calibration(Settings(), 8), 'first_token', 0.4).threshold:.2f}"
    assert wanted != first
    caption = page.locator("#calibrate-score-chart .pv-caption")
    expect(caption).to_contain_text(f"At τ {wanted},")
    page.locator("#calibrate-score-chart").scroll_into_view_if_needed()  # else it is not drawn
    expect(page.locator("#calibrate-score-chart .pv-chart")).to_contain_text(f"τ {wanted}")
    page.click("#calibrate-apply")
    expect(page.locator("#calibrate-notice")).to_contain_text(f"τ {wanted}")
    expect(page.locator("#calibrate-notice")).to_contain_text("Lane 2")
    page.get_by_role("tab", name="Race", exact=True).click()
    page.click("#knobs button")
    page.click("#knobs-judging button")
    expect(page.locator("#knob-accept_threshold input[type=number]")).to_have_value(
        f"{float(wanted):g}"
    )


def test_stop_keeps_what_was_found_and_the_page_goes_on(open_page):
    page = open_page(*SLOW)
    calibrate(page)
    page.wait_for_function("/prompts? on|of [1-9]/.test("
                           "document.querySelector('#calibrate-judges').textContent)")  # fmt: skip
    page.click("#calibrate-stop")
    expect(page.locator("#calibrate-notice")).to_contain_text("Stopped after")
    assert threshold(page)
    page.click("#calibrate-run")
    expect(page.locator("#calibrate-notice")).to_contain_text("Prompt")
    page.click("#calibrate-stop")
    expect(page.locator("#calibrate-notice")).to_contain_text("Stopped")


def test_in_chinese_on_a_phone_nothing_runs_off_the_page(open_page):
    page = open_page(*DSPARK, width=390, height=844, query="zh?__theme=dark&tab=calibrate")
    page.click("#calibrate-run")
    expect(page.locator("#calibrate-notice")).to_contain_text("校准完成")
    page.locator("#calibrate-reliability-chart").scroll_into_view_if_needed()
    page.wait_for_selector("#calibrate-reliability-chart .main-svg")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    expect(page.locator("#calibrate-score-chart .pv-caption")).to_contain_text("τ 为")
