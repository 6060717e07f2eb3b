"""A lane of another server in a browser: picked by name, watched, stopped, and when it fails."""

import json
import re

from tests.browser.fake_app import HOSTILE
from tests.browser.served_lanes import SERVERS
from tests.browser.test_race_page import CONTRASTS, TEXTS, run, wait_until_finished

QUICK, SILENT, GONE = SERVERS


def pick(page, place: int, label: str, option: str) -> None:
    """Choose an entry of a menu of a lane."""
    page.click(f"#lane{place}-{label} input")
    page.get_by_role("option", name=option, exact=True).click()


def race_against(page, server: str) -> None:
    """Two lanes: greedy, and the server."""
    page.click("#lanes button")
    page.get_by_label("2", exact=True).first.check()
    pick(page, 2, "method", "Served")
    page.wait_for_selector("#lane2-rules", state="hidden")
    page.wait_for_function("document.querySelector('#lane2-preset input').value != 'automatic'")
    if server != QUICK:
        pick(page, 2, "preset", server)
    run(page)


def test_a_served_lane_is_picked_watched_and_told_apart(open_page):
    page = open_page("--served")
    race_against(page, QUICK)
    wait_until_finished(page)
    lane = page.locator(".lane").nth(1)
    assert lane.locator(".lane-name").inner_text() == "2 Served"
    assert lane.locator(".lane-who").inner_text() == f"{QUICK}, tiny, scripted, on loopback"
    assert "differs at character" in lane.locator(".lane-verdict").inner_text()
    cells = lane.locator(".cell").all_inner_texts()
    assert re.search("speedup\n–\nnot the same backend", "\n".join(cells), re.IGNORECASE)
    assert lane.locator(".lane-count").inner_text().startswith("60 tokens")
    assert float(lane.locator(".lane-rate").inner_text()) > 0
    assert page.locator(".race-legend .fate-served").count() == 1
    assert all(ratio >= 4.5 for _, ratio in page.evaluate(CONTRASTS))
    lane.locator(".token").nth(1).click()
    card = page.inner_text(".token-card")
    assert "arrived together" in card and "token id" not in card
    page.click(".card-open")
    together = int(re.search(r"arrived together\s+(\d+)", card)[1])
    assert together >= 3  # sent at once; on a slow machine more arrive so
    page.wait_for_function(
        "told => document.querySelector('#inside-told')?.textContent.includes(told)",
        arg=f"{together} tokens arrived together",
    )


def test_stop_ends_a_server_that_has_fallen_silent(open_page):
    page = open_page("--served")
    race_against(page, SILENT)
    page.wait_for_function(f"({TEXTS})[1]?.includes('go on')")
    page.click("#stop")
    page.wait_for_function("document.querySelector('#notice').textContent.includes('Stopped')")
    assert "go on" in page.evaluate(TEXTS)[1]


def test_a_server_that_is_down_fails_alone_in_one_sentence(open_page):
    page = open_page("--served")
    race_against(page, GONE)
    wait_until_finished(page)
    ends = page.locator(".lane-end").all_inner_texts()
    assert ends[1] == "The server could not be reached."
    assert page.evaluate(TEXTS)[0] != ""


def test_what_a_server_sends_is_text_and_nothing_else(open_page):
    page = open_page("--served", "--hostile")
    race_against(page, QUICK)
    wait_until_finished(page)
    assert page.evaluate("window.hacked") is None
    assert json.dumps("".join(HOSTILE)) == json.dumps(page.evaluate(TEXTS)[1].rstrip("∎◦"))
