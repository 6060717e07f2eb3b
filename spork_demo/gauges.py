"""What the page's server holds at a moment, for `/metrics`: what must come back to rest."""

import os
import threading
from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry, Gauge

from spork_demo.line import KINDS, Line


def observe(page: Any, line: Line, registry: CollectorRegistry) -> None:
    """Count threads, sessions, events, waiting runs and temporary files of a page being served."""

    def held(name: str, what: str, count: Callable[[], int]) -> None:
        Gauge(name, what, registry=registry).set_function(count)

    held("spork_threads", "Threads of this process.", threading.active_count)
    held("spork_sessions", "Open pages the server keeps values of.", lambda: _sessions(page))
    held("spork_events", "Events that came and have not ended.", lambda: _events(page))
    held("spork_generators", "Handlers that have begun and not ended.", lambda: _generators(page))
    held(
        "spork_temporary_files",
        "Files uploaded or made to be taken.",
        lambda: files_below(page.GRADIO_CACHE),
    )
    waiting = Gauge("spork_waiting", "Runs that wait for the device.", ("kind",), registry=registry)
    for kind in KINDS:
        waiting.labels(kind).set_function(lambda kind=kind: line.waiting(kind))


def files_below(folder: str) -> int:
    """How many files there are; a folder that goes while they are counted holds none."""
    return sum(len(files) for _, _, files in os.walk(folder))


def _sessions(page: Any) -> int:
    return len(page.app.state_holder.session_data)


def _events(page: Any) -> int:
    return len(page.app.get_blocks()._queue.event_ids_to_events)


def _generators(page: Any) -> int:
    return sum(iterator is not None for iterator in page.app.iterators.values())
