"""A browser, and the page on a fake host in its own process.

Without a browser these tests are skipped, unless CI is set: there they fail.
"""

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.missing import missing

CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "/usr/bin/chromium")
FAKE_APP = Path(__file__).with_name("fake_app.py")
START_SECONDS = 60
PATIENCE_MS = 60_000
"""How long a test waits for what is to be seen: two busy cores serve page, host and browser."""


@pytest.fixture(scope="package")
def browser():
    """Headless Chromium for the tests of this folder, and gone after them.

    While it is open its event loop counts as running in this thread, and no test could
    call `asyncio.run`.
    """
    try:
        from playwright.sync_api import expect, sync_playwright
    except ImportError:
        missing("playwright is not installed")
    path = next((found for name in CHROMIUM if (found := shutil.which(name))), None)
    if path is None:
        missing("no Chromium was found on PATH")
    expect.set_options(timeout=PATIENCE_MS)
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=arguments)
        yield chromium
        chromium.close()


@pytest.fixture(scope="package")
def fake_app() -> Iterator[Callable[..., str]]:
    """`fake_app("--hostile")` is the address of such a page; each kind is started once."""
    running: dict[tuple[str, ...], tuple[subprocess.Popen, str]] = {}

    def start(*options: str) -> str:
        if options not in running:
            port = free_port()
            command = [sys.executable, str(FAKE_APP), "--port", str(port), *options]
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            running[options] = (process, f"http://127.0.0.1:{port}/")
            wait_for(process, running[options][1])
        return running[options][1]

    yield start
    for process, _ in running.values():
        process.terminate()
        process.wait(10)


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(process: subprocess.Popen, url: str) -> None:
    """Until the app answers at `url`; fails the test when it ends or takes too long."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            pytest.fail("the app ended before it served a page")
        try:
            if httpx.get(url, timeout=2).status_code == 200:
                return
        except httpx.HTTPError:
            time.sleep(0.2)
    pytest.fail("the app did not serve a page in time")


@pytest.fixture
def open_page(browser, fake_app):
    """`open_page("--hostile", width=390)` opens such a page; errors in it fail the test."""
    contexts = []
    errors: list[str] = []

    def open_(*options: str, width: int = 1440, height: int = 900, query: str = "", **context):
        size = {"width": width, "height": height}
        contexts.append(browser.new_context(viewport=size, accept_downloads=True, **context))
        page = contexts[-1].new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(fake_app(*options) + query)
        page.wait_for_selector(".lane .token", state="attached")  # another tab may hide it
        return page

    yield open_
    for context in contexts:
        context.close()
    assert errors == []
