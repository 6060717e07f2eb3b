"""What the page's events have in common: who takes turns, and the language they speak."""

from typing import Any

import gradio as gr

from spork_demo.language import ENGLISH, current, spoken
from spork_demo.ui.guard import answering

RUNS: dict[str, Any] = {"concurrency_limit": None}
"""Events that run a model. Their handlers take turns (`ui.turns`); the queue lets all in."""

LIGHT: dict[str, Any] = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
"""Events that never wait for the device."""


def speak_here(page: gr.Blocks) -> None:
    """Make every handler of the page being built speak the language it is built in, and answer
    with a sentence whatever happens in it.

    Done once after all handlers are there, so that no registration can forget it. The API is
    English: the endpoints of other pages are their own business.
    """
    code = current()
    for event in page.fns.values():
        if event.page != page.current_page:
            continue
        if event.show_progress == "hidden":
            # The browser goes through whatever was ever told of progress at every update of a race.
            event.show_progress_on = []
        if event.fn is not None:
            event.fn = spoken(code, answering(event.fn))
        if code != ENGLISH:
            event.api_visibility = "private"
