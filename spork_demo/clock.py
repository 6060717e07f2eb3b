"""When things happened on a lane's own stopwatch, so that lanes can be put side by side.

All seconds count from the end of the prefill, so that lanes start together.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from spork_demo.trace import Trace


def ends(trace: Trace) -> tuple[float, ...]:
    """The lane's seconds at the end of each round."""
    return tuple(accumulate(round_.seconds for round_ in trace.rounds))


def counts(trace: Trace) -> tuple[int, ...]:
    """The tokens committed by the end of each round."""
    return tuple(accumulate(len(round_.committed) for round_ in trace.rounds))


def rounds_by(times: Sequence[float], seconds: float) -> int:
    """How many rounds were over after `seconds`; a round that ends just then is over."""
    return bisect_right(times, seconds)


def tokens_by(trace: Trace, seconds: float) -> int:
    """How many tokens a lane had committed after `seconds`."""
    over = rounds_by(ends(trace), seconds)
    return counts(trace)[over - 1] if over else 0


def standing(trace: Trace, other: Trace) -> tuple[int, ...]:
    """For each round of `trace`: where `other` stood when it ended, in committed tokens."""
    times, committed = ends(other), (0, *counts(other))
    return tuple(committed[rounds_by(times, end)] for end in ends(trace))
