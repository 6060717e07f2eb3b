"""The Explore tab in a real browser: sweep, stop, pick a cell, sort, download, change language."""

import csv
import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.test_race_page import type_in

SLOW = ("--gap", "0.02")


def explored(page, name: str = "Explore"):
    page.get_by_role("tab", name=name).click()
    page.wait_for_selector("#sweep")
    return page


def fill(page, **values: str) -> None:
    for name, value in values.items():
        type_in(page, f"#explore-{name} :is(textarea, input)", value)


def notice_of(page, part: str, where: str = "#sweep-notice") -> None:
    page.wait_for_function(
        "([where, part]) => document.querySelector(where)?.textContent.includes(part)",
        arg=[where, part],
    )


@pytest.fixture(scope="module")
def swept_page(browser, fake_app):
    """Four cells over one prompt, swept once for all tests that only look at them."""
    errors: list[str] = []
    context = browser.new_context(viewport={"width": 1440, "height": 900}, accept_downloads=True)
    page = context.new_page()
    page.set_default_timeout(60_000)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(fake_app())
    page.wait_for_selector(".lane .token")
    explored(page)
    fill(page, values1="2, 4", values2="1, 5", prompts="Name a river.", tokens="20")
    page.click("#sweep")
    notice_of(page, "Finished")
    page.wait_for_selector("#sweep-speed [data-state=drawn]")
    yield page
    context.close()
    assert errors == []


@pytest.fixture
def small(swept_page):
    return explored(swept_page)


def test_a_sweep_shows_its_best_its_charts_and_its_table(small):
    assert "K 4, M 5, 2.29× greedy" in small.inner_text("#sweep-best")
    chart = small.locator("#sweep-speed .pv-chart")
    assert "4 cells, from 1.12× at K 2, M 1 to 2.29×" in chart.get_attribute("aria-label")
    small.locator("#sweep-front").scroll_into_view_if_needed()
    small.wait_for_selector("#sweep-front [data-state=drawn]")
    small.get_by_role("radio", name="perplexity ratio").click()
    small.wait_for_function(
        "document.querySelector('#sweep-front .pv-chart').textContent.includes('under the target')"
    )
    assert small.locator("#sweep-table tbody tr").count() == 4
    assert small.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_table_sorts_by_mouse_and_keyboard(small):
    first = small.locator("#sweep-table tbody tr").first
    assert "K 4, M 5" in first.inner_text()
    head = small.locator("#sweep-table thead th")
    speed = head.filter(has_text=re.compile(r"^speedup"))
    assert speed.get_attribute("aria-sort") == "descending"
    speed.locator("button").click()
    assert speed.get_attribute("aria-sort") == "ascending"
    assert "K 2, M 1" in first.inner_text()
    head.filter(has_text="rounds").locator("button").press("Enter")
    assert small.evaluate("document.activeElement.textContent").startswith("rounds")
    rounds = [int(text) for text in small.locator("#sweep-table td:last-child").all_inner_texts()]
    assert rounds == sorted(rounds, reverse=True)


def test_the_files_hold_what_the_table_shows(small):
    found = {}
    for kind in ("csv", "json"):
        with small.expect_download() as download:
            small.click(f"#sweep-{kind}")
        found[kind] = Path(download.value.path()).read_text("utf-8")
        assert download.value.suggested_filename == f"spork_demo_sweep.{kind}"
    rows = list(csv.DictReader(found["csv"].splitlines()))
    assert [(row["fork_width"], row["fork_depth"]) for row in rows] == [
        ("2", "1"), ("2", "5"), ("4", "1"), ("4", "5"),
    ]  # fmt: skip
    plain = json.loads(found["json"])
    assert plain["prompts"] == ["Name a river."]
    assert [str(cell["speedup"]) for cell in plain["cells"]] == [row["speedup"] for row in rows]


def test_a_picked_square_becomes_lane_two_and_races(small):
    small.locator("#sweep-speed").scroll_into_view_if_needed()
    plot = small.locator("#sweep-speed .nsewdrag").first.bounding_box()
    small.mouse.move(plot["x"] + plot["width"] * 0.75, plot["y"] + plot["height"] * 0.75)
    small.mouse.click(plot["x"] + plot["width"] * 0.75, plot["y"] + plot["height"] * 0.75)
    notice_of(small, "Loaded into lane 2: SPORK exact, K 4, M 1", "#notice")
    assert small.locator("#prompt textarea").input_value() == "Name a river."
    small.click("#run")
    notice_of(small, "Finished", "#notice")
    lane = small.locator(".lane").nth(1)
    assert "K=4 M=1" in lane.inner_text() + str(lane.get_attribute("aria-label"))


def test_a_row_is_loaded_from_the_keyboard(small):
    small.locator("#sweep-table .st-load").nth(1).focus()
    small.keyboard.press("Enter")
    notice_of(small, "Loaded into lane 2", "#notice")
    assert small.get_by_role("tab", name="Race").get_attribute("aria-selected") == "true"


def test_stop_keeps_what_is_done(open_page):
    page = explored(open_page(*SLOW))
    fill(page, prompts="One\nTwo", tokens="60")
    page.click("#sweep")
    page.wait_for_selector("#sweep-progress progress")
    notice_of(page, "left, estimated", "#sweep-progress")
    page.wait_for_selector("#sweep-table tbody tr")
    page.click("#sweep-stop")
    notice = page.locator("#sweep-notice")
    expect(notice).to_contain_text(re.compile("Stopped. What is done is kept: [0-3] of 4 races"))
    expect(page.locator("#sweep-progress progress")).to_have_count(0)
    expect(page.locator("#sweep-table tbody")).to_contain_text("×")
    with page.expect_download():
        page.click("#sweep-csv")


def test_what_cannot_be_swept_is_said_and_keeps_the_results(small):
    fill(small, values1="<img src=x onerror='window.hacked=1'>")
    small.click("#sweep")
    notice_of(small, "look like 2, 4, 8")
    assert small.locator("#sweep-table tbody tr").count() == 4
    assert small.evaluate("window.hacked") is None


def test_the_menus_follow_the_method_on_a_phone_in_chinese(open_page):
    page = explored(open_page(width=390, height=844, query="zh"), "探索")
    page.locator("#explore-method input").click()
    page.get_by_role("option").nth(0).click()
    page.wait_for_function("document.querySelector('#explore-knob1 input').value.startsWith('γ')")
    values = page.locator("#explore-values1 :is(textarea, input)")
    expect(values).to_have_value("1, 2, 4, 6, 8")
    expect(page.locator("#explore-values2")).to_have_count(0)
    fill(page, tokens="8")
    page.click("#sweep")
    notice_of(page, "已完成")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
