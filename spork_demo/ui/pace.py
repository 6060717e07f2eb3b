"""How often a stream is told of what comes, and when its time is over."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


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
