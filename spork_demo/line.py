"""Whose turn it is on the device: a line for each kind of run, each of limited length.

Within a kind, first come first served. Of the kinds, the one that was served longest ago is next:
a race waits for one sweep at most, however many sweeps came before it.
"""

import asyncio
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

KINDS = ("races", "sweeps", "calibrations", "lessons", "calls")
"""Lines by name: runs of the page's tabs, and calls of the API."""

LOOK_SECONDS = 2.0
"""How long a place in the line may go without a word, so that one who left is noticed."""


class LineFullError(Exception):
    """No more of this kind may wait. ahead: runs that would have been before it."""

    def __init__(self, kind: str, limit: int, ahead: int) -> None:
        super().__init__(kind)
        self.kind, self.limit, self.ahead = kind, limit, ahead


@dataclass(eq=False, slots=True)
class Ticket:
    """One run's place in the line. called: the device is its own until it leaves."""

    kind: str
    called: bool = False
    news: asyncio.Event = field(default_factory=asyncio.Event)


class Line:
    """Used by one event loop.

    limits: how many of a kind may wait; a kind that is not named waits without limit. places: runs
    that may go on at once.
    """

    def __init__(self, limits: Mapping[str, int] | None = None, places: int = 1) -> None:
        self._limits = dict(limits or {})
        self._places = places
        self._running: set[Ticket] = set()
        self._waiting: dict[str, deque[Ticket]] = {kind: deque() for kind in KINDS}

    def join(self, kind: str) -> Ticket:
        """A place in the line, at its head where nobody is before. Raises LineFullError."""
        ticket, line = Ticket(kind), self._waiting[kind]
        line.append(ticket)
        ahead, limit = self.ahead(ticket), self._limits.get(kind)
        if ahead >= self._places and limit is not None and len(line) > limit:
            line.remove(ticket)
            raise LineFullError(kind, limit, ahead)
        self._call()
        return ticket

    def leave(self, ticket: Ticket) -> None:
        """Its run is over, or it waits no longer; harmless when repeated."""
        self._running.discard(ticket)
        if ticket in self._waiting[ticket.kind]:
            self._waiting[ticket.kind].remove(ticket)
        self._call()

    async def news(self, ticket: Ticket) -> None:
        """Returns when the line has moved, and after a while in any case."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):  # `wait_for` can lose a cancellation
                await ticket.news.wait()
        ticket.news.clear()

    def ahead(self, ticket: Ticket) -> int:
        """Runs that go on, and runs that will be called before `ticket` as things stand."""
        if ticket in self._running:
            return 0
        order = list(self._order())
        return len(self._running) + order.index(ticket)

    @property
    def empty(self) -> bool:
        """Whether nobody runs or waits; any thread may ask."""
        return not self._running and not any(tuple(self._waiting.values()))

    def waiting(self, kind: str) -> int:
        """How many of a kind wait."""
        return len(self._waiting[kind])

    def _order(self) -> Iterator[Ticket]:
        """Everybody who waits, in the order they will be called; kinds take turns."""
        lines = deque(deque(line) for line in self._waiting.values())
        while lines:
            line = lines.popleft()
            if line:
                yield line.popleft()
            if line:
                lines.append(line)

    def _call(self) -> None:
        while len(self._running) < self._places and (first := next(self._order(), None)):
            self._waiting[first.kind].popleft()
            self._waiting[first.kind] = self._waiting.pop(first.kind)  # served last: to the end
            self._running.add(first)
            first.called = True
            first.news.set()
        for line in self._waiting.values():
            for ticket in line:
                ticket.news.set()
