"""The app as a stranger starts it: recorded race first, then the real model, live."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import free_port, wait_for
from tests.browser.test_race_page import turn

ROOT = Path(__file__).resolve().parents[2]
LOADING_MS = 120_000
RUN_MS = 120_000


@pytest.fixture(scope="module")
def address(embedded_folder):
    """`python app.py`, on a port of its own."""
    port = free_port()
    environment = os.environ | {"GRADIO_SERVER_PORT": str(port)}
    process = subprocess.Popen(
        [sys.executable, "app.py"], cwd=ROOT, env=environment, stdout=subprocess.DEVNULL
    )
    url = f"http://127.0.0.1:{port}/"
    try:
        wait_for(process, url)
        yield url
    finally:
        process.terminate()
        process.wait(timeout=20)


def test_a_stranger_sees_a_recorded_race_and_then_runs_one_live(browser, address):
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    problems = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(address)
    expect(page.get_by_text("recorded", exact=True).first).to_be_visible(timeout=60_000)
    expect(page.locator("#host-status")).to_contain_text("lanes run live", timeout=LOADING_MS)
    page.locator("#prompt textarea").fill("Count from 1 to 30, separated by commas.")
    page.locator("#knobs button").first.click()
    turn(page, "#knob-max_new_tokens", 24)
    page.locator("#run").click()
    expect(page.locator("#notice")).to_contain_text("Finished", timeout=RUN_MS)
    expect(page.get_by_text("identical to greedy", exact=False).first).to_be_visible()
    expect(page.get_by_text("live", exact=True).first).to_be_visible()
    page.get_by_role("tab", name="Inside a round").click()
    expect(page.get_by_text("The target checked them", exact=False).first).to_be_visible()
    assert problems == []
    page.close()
