"""How many tokens of a drafted block are sent to the target (DSpark, arXiv 2607.05147).

A decision about draft k may use what was known before k was drawn and nothing that depends on k
itself: not the token, not the confidences behind it. Otherwise the drafts that are judged would
no longer be distributed as the q they were drawn from, and the output would not be the target's
(Appendix A). So every rule here walks from the anchor outwards, decides draft k from the
confidences of drafts 1 to k, and never takes a decision back.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul

from spork_demo.decoding.cost_table import CostTable
from spork_demo.settings import Settings
from spork_demo.trace import Scheduling

STAIR = 1.03
"""Calls whose seconds differ by less than this factor are steps of one stair."""

Scheduler = Callable[[Sequence[float]], tuple[int, Scheduling]]
"""From the confidences of a block to how many of its drafts are sent, and why."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """What Algorithm 1 decided: drafts sent, one number a request.

    throughputs: expected tokens per second with 0, 1, 2, ... drafts sent in all, the last one
        being the first that was refused, if any was. hopes: for each draft considered, the best
        throughput that was in reach by sending it.
    """

    lengths: tuple[int, ...]
    throughputs: tuple[float, ...]
    hopes: tuple[float, ...]


def prefix_survival(confidences: Sequence[float]) -> tuple[float, ...]:
    """The chance that drafts 1..k are all accepted, for k = 1, 2, ...: products of confidences,
    each of which is conditional on the drafts before it.
    """
    return tuple(accumulate(confidences, mul))


def threshold_length(confidences: Sequence[float], threshold: float) -> int:
    """Drafts before the first whose own confidence is below `threshold`."""
    for place, confidence in enumerate(confidences):
        if confidence < threshold:
            return place
    return len(confidences)


def hardware_lengths(
    confidences: Sequence[Sequence[float]],
    steps_per_second: Callable[[int], float],
    stair: float = STAIR,
) -> Lengths:
    """Algorithm 1: which drafts of several requests to judge in one target call.

    confidences: one sequence a request. steps_per_second: rounds per second when the target
        is fed so many rows, anchors included.
    stair: real cost curves climb in stairs, and stopping at the first rise would leave out drafts
        that cost nothing behind it. A draft that starts a stair is therefore judged by the whole
        stair, taking the drafts behind it, which nobody may look at yet, to be accepted as often
        as itself. With 0 every draft stands for itself, as in the paper; on a curve that rises
        ever faster the two are the same.
    """
    survivals = [prefix_survival(each) for each in confidences]
    candidates = sorted(
        (-survival, request, place)
        for request, each in enumerate(survivals)
        for place, survival in enumerate(each)
        if survival > 0
    )
    lengths, rows, expected = [0] * len(confidences), len(confidences), float(len(confidences))
    throughputs, hopes = [expected * steps_per_second(rows)], []
    for negative, request, place in candidates:
        own = confidences[request]
        behind = [-negative * own[place] ** n for n in range(len(own) - place)]
        rows, before, expected = rows + 1, throughputs[-1], expected - negative
        throughputs.append(expected * steps_per_second(rows))
        hopes.append(max(_stair(expected + negative, behind, rows, steps_per_second, stair)))
        if hopes[-1] <= before:
            break
        lengths[request] = place + 1
    return Lengths(tuple(lengths), tuple(throughputs), tuple(hopes))


def _stair(
    expected: float,
    behind: Sequence[float],
    rows: int,
    steps_per_second: Callable[[int], float],
    stair: float,
) -> list[float]:
    """Throughputs of sending one, two, ... drafts of survivals `behind`, up to the stair's end."""
    first, reached = steps_per_second(rows), []
    for further, survival in enumerate(behind):
        rate = steps_per_second(rows + further)
        if further and first > rate * stair:
            break
        expected += survival
        reached.append(expected * rate)
    return reached


def scheduler(settings: Settings, costs: CostTable | None = None) -> Scheduler:
    """The rule `settings` asks for. `hardware` needs a measured cost table."""
    if settings.schedule == "threshold":
        return lambda confidences: _by_threshold(confidences, settings.confidence_threshold)
    if settings.schedule == "hardware":
        if costs is None:
            raise ValueError("Scheduling by hardware cost needs a measured cost table.")
        return lambda confidences: _by_hardware(confidences, costs)
    return send_all


def send_all(confidences: Sequence[float]) -> tuple[int, Scheduling]:
    """The whole block."""
    return len(confidences), Scheduling("full", prefix_survival(confidences))


def _by_threshold(confidences: Sequence[float], threshold: float) -> tuple[int, Scheduling]:
    why = Scheduling("threshold", prefix_survival(confidences), threshold=threshold)
    return threshold_length(confidences, threshold), why


def _by_hardware(confidences: Sequence[float], costs: CostTable) -> tuple[int, Scheduling]:
    decided = hardware_lengths([confidences], costs.steps_per_second)
    return decided.lengths[0], Scheduling(
        "hardware",
        prefix_survival(confidences),
        throughputs=decided.throughputs,
        hopes=decided.hopes,
        call_seconds=costs.call_seconds[: len(confidences) + 1],
        draft_seconds=costs.draft_seconds,
    )
