"""Lanes side by side, a round at a time, as if each ran alone.

The lane whose stopwatch is furthest behind goes next, so at every moment all lanes have run for
about the same time of their own and what is seen is a race. No model is needed here.
"""

import logging
from collections.abc import Iterator, Sequence

from spork_demo.language import later
from spork_demo.trace import Event, Finished, LaneEvent, Round, Started

logger = logging.getLogger(__name__)

MEMORY_SIGNS = ("out of memory", "allocate memory", "not enough memory")


def interleave(lanes: Sequence[Iterator[Event]]) -> Iterator[LaneEvent]:
    """Events of all lanes until each has finished.

    An exception inside a round ends that lane with stop reason `failed`; what it had committed
    stays, and the others run on. Closing this iterator closes every lane.
    """
    clocks = dict.fromkeys(range(len(lanes)), 0.0)
    try:
        while clocks:
            lane = min(clocks, key=lambda index: (clocks[index], index))
            event = _next_event(lanes[lane])
            clocks[lane] += _seconds(event)
            if isinstance(event, Finished):
                del clocks[lane]
            yield LaneEvent(lane, event)
    finally:
        for lane in lanes:
            lane.close()


def _next_event(lane: Iterator[Event]) -> Event:
    try:
        return next(lane)
    except StopIteration:
        return Finished("failed", message=later("The lane ended without saying why."))
    except Exception as error:
        logger.exception("a lane failed inside a round")
        return Finished("failed", message=failure_sentence(error))


def failure_sentence(error: Exception) -> str:
    """What a visitor is told of an exception: its kind, never its text."""
    return memory_sentence(error) or later(
        "This lane met an unexpected error and stopped; its text so far is kept."
    )


def memory_sentence(error: BaseException) -> str:
    """What to do where `error` says that memory did not suffice; empty where it does not."""
    said = str(error).lower()
    if isinstance(error, MemoryError) or any(sign in said for sign in MEMORY_SIGNS):
        return later("The device ran out of memory; try fewer forks or fewer new tokens.")
    return ""


def _seconds(event: Event) -> float:
    if isinstance(event, Started):
        return event.prefill_seconds
    return event.seconds if isinstance(event, Round) else 0.0
