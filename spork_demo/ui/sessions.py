"""Visitors' sessions, without what Gradio keeps of the page in each.

Gradio keeps the configuration of every widget, with its last value, once more for each visitor, so
that a "deep link" can be made of it. This page's links are its own (`share.py`), so nothing of
that is kept: a visitor costs a megabyte less, and arrives sooner. A widget that an event changed is
kept once for all visitors who have it that way, and what nobody changed in no session at all.

After every event Gradio also sums up how the last 10,000 went, for a dashboard that is off here.
That takes longer than most events, and is left out; `/metrics` has what is worth knowing.
"""

import sys
from collections import ChainMap
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from types import SimpleNamespace
from typing import Any
from weakref import WeakValueDictionary

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


class Alike:
    """Changed widgets, one for all sessions that have it in the same way, while any has."""

    def __init__(self) -> None:
        self._kept: WeakValueDictionary[tuple[int, str], Any] = WeakValueDictionary()

    def one(self, key: int, widget: Any) -> Any:
        """`widget`, or the one made before it with the same arguments for the same place."""
        return self._kept.setdefault((key, repr(widget.constructor_args)), widget)


class Session(SessionState):
    """What the server keeps of one visitor: the values of states, and widgets that changed."""

    def __init__(self, page: gr.Blocks, alike: Alike):
        super().__init__(SimpleNamespace(default_config=page.default_config, blocks=()))
        self.config_values = Unkept()
        self.blocks_config.blocks = ChainMap({}, page.default_config.blocks)
        self._alike = alike

    def __setitem__(self, key: int, value: Any) -> None:
        if not isinstance(self.blocks_config.blocks.get(key), gr.State):
            value = self._alike.one(key, value)
        super().__setitem__(key, value)


class Sessions(StateHolder):
    """Gradio's sessions, each a `Session`."""

    def __init__(self) -> None:
        super().__init__()
        self._alike = Alike()

    def __getitem__(self, session_id: str) -> SessionState:
        if session_id not in self.session_data:
            self.session_data[session_id] = Session(self.blocks, self._alike)
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
