"""Visitors' sessions, without Gradio's second copy of the page in each.

Gradio keeps the configuration of every widget, with its last value, once more for each visitor, so
that a "deep link" can be made of it. This page's links are its own (`share.py`), so nothing of
that is kept: a visitor costs a megabyte less, and arrives sooner.

After every event Gradio also sums up how the last 10,000 went, for a dashboard that is off here.
That takes longer than most events, and is left out; `/metrics` has what is worth knowing.
"""

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import gradio as gr
from gradio.state_holder import SessionState, StateHolder


class Unkept(dict[int, dict[str, Any]]):
    """Takes any entry and keeps none; every key reads as an empty one."""

    def __contains__(self, key: object) -> bool:
        return True

    def __getitem__(self, key: int) -> dict[str, Any]:
        return {}

    def __setitem__(self, key: int, value: dict[str, Any]) -> None:
        return


class Session(SessionState):
    """What the server keeps of one visitor: the values of states, and widgets that changed."""

    def __init__(self, page: gr.Blocks):
        super().__init__(SimpleNamespace(default_config=page.default_config, blocks=()))
        self.config_values = Unkept()


class Sessions(StateHolder):
    """Gradio's sessions, each a `Session`."""

    def __getitem__(self, session_id: str) -> SessionState:
        if session_id not in self.session_data:
            self.session_data[session_id] = Session(self.blocks)
        return super().__getitem__(session_id)


Lifespan = Callable[[Any], AbstractAsyncContextManager[None]]
"""What runs around the time a server serves."""


def own_sessions(inner: Lifespan | None = None) -> Lifespan:
    """A lifespan of Gradio's server around `inner`: from its start it keeps `Sessions`, and sums
    nothing up.
    """

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        app.state_holder = Sessions()
        app.state_holder.set_blocks(app.get_blocks())
        app.get_blocks()._queue.ANAYLTICS_CACHE_FREQUENCY = sys.maxsize  # sic
        async with inner(app) if inner else nullcontext():
            yield

    return lifespan
