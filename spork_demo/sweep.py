"""One or two knobs swept over prompts: races, a few cells beside one greedy lane at a time.

Plain data; a race is run by whoever has a model.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from spork_demo.cells import Cell, Outcome
from spork_demo.metrics import measure
from spork_demo.settings import SEED_LIMIT, Settings
from spork_demo.trace import LaneEvent, Provenance, Race, Trace, advance

CELLS_A_RACE = 6
"""Lanes that race beside one greedy lane."""

Run = Callable[[str, Sequence[Settings]], Iterator[Race | LaneEvent]]
"""Runs lanes on a prompt: first the empty race, then its events, its fidelity among them."""


@dataclass(frozen=True, slots=True)
class Part:
    """One race of a sweep: its number, its cells' places in the grid, its lanes, greedy first."""

    number: int
    prompt: str
    places: tuple[int, ...]
    lanes: tuple[Settings, ...]


@dataclass(frozen=True, slots=True)
class UnderWay:
    """A race that goes on, whose lanes after the greedy one belong to the cells at `places`."""

    race: Race
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep so far. cells: what races that are over brought. running: the race under way, whose
    lanes after the greedy one belong to the cells at `places`. beside: races that go on at the
    same time on other machines.
    """

    cells: tuple[Cell, ...]
    races: int
    lanes: int
    races_done: int = 0
    lanes_done: int = 0
    running: Race | None = None
    places: tuple[int, ...] = ()
    provenance: Provenance = Provenance()
    beside: tuple[UnderWay, ...] = ()

    @property
    def under_way(self) -> tuple[UnderWay, ...]:
        """Every race that goes on."""
        first = (UnderWay(self.running, self.places),) if self.running else ()
        return first + self.beside

    @property
    def share(self) -> float:
        """How much of the sweep is done, by lanes, those under way by their tokens."""
        under_way = [lane for each in self.under_way for lane in each.race.lanes]
        return (self.lanes_done + sum(map(_lane_share, under_way))) / self.lanes

    def so_far(self) -> tuple[Cell, ...]:
        """The cells with what races under way have brought: speed, their texts not compared."""
        found = list(self.cells)
        for each in self.under_way:
            lanes = each.race.lanes
            for place, lane in zip(each.places, lanes[1:], strict=False):
                if lane.rounds and lanes[0].rounds:
                    found[place] = _added(found[place], lane, lanes[0])
        return tuple(found)

    def took(self, item: Race | LaneEvent, places: tuple[int, ...]) -> "Sweep":
        """One more item of the race under way."""
        if isinstance(item, Race):
            return replace(self, running=item, places=places, provenance=item.lanes[0].provenance)
        return replace(self, running=advance(self.running, item))

    def ended_race(self) -> "Sweep":
        """The race under way is over and counts."""
        lanes = len(self.running.lanes) if self.running else 0
        return replace(
            self,
            cells=self.so_far(),
            races_done=self.races_done + 1,
            lanes_done=self.lanes_done + lanes,
            running=None,
            places=(),
        )


def sweep(
    run: Run, prompts: Sequence[str], grid: Sequence[Cell], repeats: int = 1
) -> Iterator[Sweep]:
    """The sweep after each event of its races, prompt by prompt, then once more per repeat.

    Closing the iterator ends the race under way at its next round; what was yielded is kept.
    A repeat races with the next seed, so that samples differ.
    """
    plan = parts(prompts, grid, repeats)
    state = Sweep(tuple(grid), races=len(plan), lanes=sum(len(part.lanes) for part in plan))
    yield state
    for part in plan:
        with closing(run(part.prompt, part.lanes)) as news:
            for item in news:
                state = state.took(item, part.places)
                yield state
        state = state.ended_race()
        yield state


def parts(prompts: Sequence[str], grid: Sequence[Cell], repeats: int = 1) -> tuple[Part, ...]:
    """The races of a sweep, in order."""
    order = itertools.product(range(repeats), prompts, groups(grid))
    found = []
    for number, (repeat, prompt, places) in enumerate(order):
        settings = [_reseeded(grid[place].settings, repeat) for place in places]
        greedy = replace(settings[0], method="greedy")
        found.append(Part(number, prompt, places, (greedy, *settings)))
    return tuple(found)


def groups(grid: Sequence[Cell]) -> tuple[tuple[int, ...], ...]:
    """Which cells race together: those whose greedy lane is the same, a few at a time."""
    alike: dict[tuple[Any, ...], list[int]] = {}
    for place, cell in enumerate(grid):
        s = cell.settings
        alike.setdefault((s.temperature, s.top_p, s.top_k, s.seed, s.max_new_tokens), []).append(
            place
        )
    return tuple(
        tuple(places[start : start + CELLS_A_RACE])
        for places in alike.values()
        for start in range(0, len(places), CELLS_A_RACE)
    )


def _reseeded(settings: Settings, repeat: int) -> Settings:
    return replace(settings, seed=(settings.seed + repeat) % (SEED_LIMIT + 1))


def _added(cell: Cell, lane: Trace, greedy: Trace) -> Cell:
    """`cell` with one more race. A lane that failed counts with what it committed."""
    ours, theirs = measure(lane), measure(greedy)
    outcome = Outcome(
        settings=lane.settings,
        tokens=ours.committed,
        seconds=ours.decode_seconds,
        rounds=ours.rounds,
        target_calls=ours.target_calls,
        greedy_tokens=theirs.committed,
        greedy_seconds=theirs.decode_seconds,
        fidelity=lane.fidelity,
        over=lane.stop_reason is not None,
        identical=lane.fidelity is not None and lane.ids == greedy.ids,
        failed=lane.stop_reason == "failed",
    )
    return replace(cell, outcomes=(*cell.outcomes, outcome))


def _lane_share(lane: Trace) -> float:
    if lane.stop_reason is not None:
        return 1.0
    committed = sum(len(round_.committed) for round_ in lane.rounds)
    return min(1.0, committed / lane.settings.max_new_tokens)
