"""A sweep spread over replicas: one race at a time on each, and each race counts once.

A race has a number. What it brings is folded apart from the others and is added to the cells only
when it has come to its end, and only the first time; a race that begins again begins from nothing.
"""

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from spork_demo.cells import Cell
from spork_demo.cluster.messages import BusyError, LostError
from spork_demo.sweep import Part, Sweep, UnderWay
from spork_demo.trace import LaneEvent, Race, advance

BUSY_SECONDS = 0.5
"""Between two tries of a race that too many others wait before."""

AHEAD = 64
"""Events that may wait for whoever watches the sweep; behind them the races wait."""

POLL_SECONDS = 0.2

Races = Callable[[Part, threading.Event], Iterator[Race | LaneEvent]]


class _End:
    """A race has come to its end."""


class Spread:
    """Runs `plan` with `races`, `width` at a time. lost: races that nothing came of."""

    def __init__(
        self, plan: Sequence[Part], grid: Sequence[Cell], races: Races, width: int
    ) -> None:
        self.races = len(plan)
        self.lost = 0
        self._run = races
        self._waiting: queue.SimpleQueue[Part] = queue.SimpleQueue()
        for part in plan:
            self._waiting.put(part)
        self._width = min(width, len(plan))
        self._news: queue.Queue[tuple[Part, Any]] = queue.Queue(AHEAD)
        self._stop = threading.Event()
        self._gathered = Gathered(plan, grid)

    def states(self) -> Iterator[Sweep]:
        """The sweep after each event. Closing the iterator ends the races under way."""
        workers = [threading.Thread(target=self._work, daemon=True) for _ in range(self._width)]
        for worker in workers:
            worker.start()
        left = self.races
        try:
            yield self._gathered.state()
            while left:
                part, item = self._news.get()
                if isinstance(item, LostError):
                    self.lost += 1
                elif isinstance(item, Exception):
                    raise item
                left -= isinstance(item, LostError | _End)
                self._gathered.take(part, item)
                yield self._gathered.state()
        finally:
            self._stop.set()
            for worker in workers:
                worker.join(timeout=2)

    def _work(self) -> None:
        """Run races until none waits."""
        while not self._stop.is_set():
            try:
                part = self._waiting.get_nowait()
            except queue.Empty:
                return
            self._tell(part, self._ran(part))

    def _ran(self, part: Part) -> Any:
        """How a race ended: `_End`, or what kept it from ending."""
        while not self._stop.is_set():
            try:
                for item in self._run(part, self._stop):
                    self._tell(part, item)
                return _End()
            except BusyError:
                time.sleep(BUSY_SECONDS)
            except Exception as error:
                return error
        return _End()

    def _tell(self, part: Part, item: Any) -> None:
        while not self._stop.is_set():
            with contextlib.suppress(queue.Full):
                self._news.put((part, item), timeout=POLL_SECONDS)
                return


class Gathered:
    """What the races of a sweep have brought, each by its number."""

    def __init__(self, plan: Sequence[Part], grid: Sequence[Cell]) -> None:
        lanes = sum(len(part.lanes) for part in plan)
        self._whole = Sweep(tuple(grid), races=len(plan), lanes=lanes)
        self._running: dict[int, UnderWay] = {}
        self._ended: set[int] = set()

    def take(self, part: Part, item: Any) -> None:
        """The next of one race: the empty race, an event, or how it ended."""
        if part.number in self._ended:
            return
        if isinstance(item, Race):
            self._running[part.number] = UnderWay(item, part.places)
            self._whole = replace(self._whole, provenance=item.lanes[0].provenance)
        elif isinstance(item, LaneEvent):
            known = self._running[part.number]
            self._running[part.number] = replace(known, race=advance(known.race, item))
        else:
            self._ended.add(part.number)
            known = self._running.pop(part.number, None)
            if known is not None and isinstance(item, _End):
                self._whole = replace(
                    self._whole, running=known.race, places=known.places
                ).ended_race()

    def state(self) -> Sweep:
        """The whole so far."""
        first, *beside = self._running.values() or [None]
        if first is None:
            return self._whole
        return replace(self._whole, running=first.race, places=first.places, beside=tuple(beside))
