"""How often a stream is told of what comes, and when its time is over."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar

BREATH = 0.02
"""Seconds between a frame and the next round, while no lane's clock runs: time to send and draw."""

T = TypeVar("T")


class Watched(Protocol):
    """A race or a sweep that is watched as it goes on."""

    @property
    def late(self) -> bool: ...

    @property
    def due(self) -> bool: ...

    def take(self, item: Any) -> None: ...

    def expire(self) -> None: ...

    def frame(self) -> Any: ...


def frames(watched: Watched, items: Iterable[Any]) -> Iterator[Any]:
    """A frame whenever one is due, until `items` or the time of what is watched are over."""
    for item in items:
        watched.take(item)
        if watched.late:
            watched.expire()
            return
        if watched.due:
            yield watched.frame()
            time.sleep(BREATH)


def paced(
    items: Iterable[T], clock: Callable[[], float], every: float, seconds: float
) -> Iterator[tuple[T, bool, bool]]:
    """Each of `items`, whether it is time to tell what there is, and whether `seconds` are over.

    every: seconds between two times to tell. What ends the time is still handed on.
    """
    begun = told = clock()
    for item in items:
        now = clock()
        due = now - told >= every
        if due:
            told = now
        yield item, due, now - begun > seconds
