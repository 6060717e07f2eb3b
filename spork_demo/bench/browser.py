"""The page in a browser of this machine, for measuring."""

import shutil
from typing import Any

from spork_demo.host import Host
from spork_demo.spacefile import Spacefile

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_MS = 180_000
POLL_MS = 400
"""Looking at every frame, as is usual, would itself make the browser draw every frame."""


class Opened:
    """The page, served on a free port of this machine, and a browser's tab on it, if there is."""

    def __init__(self, served: Any, playwright: Any, browser: Any, tab: Any) -> None:
        self._served, self._playwright, self._browser, self.tab = served, playwright, browser, tab

    @classmethod
    def on(cls, host: Host, spacefile: Spacefile, new_tokens: int, **options: Any) -> "Opened":
        """options: more of `build_page`."""
        path = next(filter(None, map(shutil.which, CHROMIUM)), None)
        try:
            # the page and the browser are only wanted here
            from playwright.sync_api import sync_playwright  # noqa: PLC0415

            from spork_demo.ui.page import (  # noqa: PLC0415
                build_page,
                launch_options,
                queue_options,
            )
        except ImportError:
            path = None
        if path is None:
            return cls(None, None, None, None)
        served = build_page(host, spacefile.limits, spacefile.presets, (), **options)
        served.queue(**queue_options(spacefile.limits))
        _, address, _ = served.launch(
            prevent_thread_lock=True, quiet=True, **launch_options(spacefile.limits)
        )
        playwright = sync_playwright().start()
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-gpu"]
        )
        tab = browser.new_page(viewport={"width": 1440, "height": 900})
        tab.goto(address)
        tab.locator("#knobs button").first.click()
        tab.locator("#knob-max_new_tokens input[type=number]").fill(str(new_tokens))
        return cls(served, playwright, browser, tab)

    def run(self, prompt: str) -> None:
        self.tab.locator("#prompt textarea").fill(prompt)
        self.tab.locator("#run").click()
        self.tab.wait_for_function(
            "() => !document.querySelector('#notice').innerText.includes('Finished')",
            timeout=PATIENCE_MS,
            polling=POLL_MS,
        )
        self.tab.wait_for_function(
            "() => document.querySelector('#notice').innerText.includes('Finished')",
            timeout=PATIENCE_MS,
            polling=POLL_MS,
        )

    def close(self) -> None:
        if self.tab is not None:
            self._browser.close()
            self._playwright.stop()
            self._served.close()
