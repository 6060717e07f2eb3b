"""Lanes of other servers beside those of any host.

Served lanes run after the others, one after another: a server on this machine would slow lanes
that run beside it, and they it. By then the inner host has let go of its device.
"""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from spork_demo.fidelity import compare_texts
from spork_demo.host import Host, RunRefusedError
from spork_demo.language import later
from spork_demo.served.lane import ServedLane
from spork_demo.served.server import Server
from spork_demo.settings import SERVED, Settings
from spork_demo.trace import LaneEvent, Provenance, Race, Trace, advance
from spork_demo.trace_served import Served


class ServingHost:
    """Any host, and the servers of the Spacefile as further lanes of its races."""

    def __init__(self, inner: Host, servers: Sequence[Server], seconds: float) -> None:
        self._inner = inner
        self._servers: Mapping[str, Server] = {server.name: server for server in servers}
        self._seconds = seconds

    def __getattr__(self, name: str) -> Any:
        """Whatever is not about races is the inner host's."""
        return getattr(self._inner, name)

    def race(
        self, prompt: str, lanes: Sequence[Settings], labels: Sequence[str], pair: str = ""
    ) -> Iterator[Race | LaneEvent]:
        """See `Host.race`."""
        here = [place for place, lane in enumerate(lanes) if lane.method != SERVED]
        away = {
            place: self._lane(prompt, lane, pair)
            for place, lane in enumerate(lanes)
            if lane.method == SERVED
        }
        if not away:
            yield from self._inner.race(prompt, lanes, labels, pair)
            return
        elsewhere = {
            place: _empty_trace(lane, prompt, labels[place]) for place, lane in away.items()
        }
        race = Race(prompt.strip()[:80], tuple(elsewhere.values()))
        if not here:
            yield race
        for item in self._run_here(
            prompt, [lanes[n] for n in here], [labels[n] for n in here], pair
        ):
            if isinstance(item, Race):
                own = iter(item.lanes)
                together = (elsewhere.get(place) or next(own) for place in range(len(lanes)))
                race = Race(item.title, tuple(together))
                yield race
            else:
                news = LaneEvent(here[item.lane], item.event)
                race = advance(race, news)
                yield news
        for place, lane in away.items():
            with closing(lane.events()) as events:
                for event in events:
                    news = LaneEvent(place, event)
                    race = advance(race, news)
                    yield news
        yield from compare_texts(race)

    def _run_here(
        self, prompt: str, lanes: Sequence[Settings], labels: Sequence[str], pair: str
    ) -> Iterator[Race | LaneEvent]:
        if lanes:
            with closing(self._inner.race(prompt, lanes, labels, pair)) as news:
                yield from news

    def _lane(self, prompt: str, settings: Settings, pair: str) -> ServedLane:
        server = self._servers.get(settings.server)
        if server is None:
            raise RunRefusedError(later("There is no such server on this page."))
        running = pair or next((offered.name for offered in self._inner.pairs()), "")
        comparable = bool(server.same_as) and server.same_as == running
        return ServedLane(server, prompt, settings, self._seconds, comparable)


def _empty_trace(lane: ServedLane, prompt: str, label: str) -> Trace:
    """What is known before the first piece. The machine is the server's, so it is not named."""
    server = lane.server
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return Trace(
        lane.settings,
        prompt,
        label,
        provenance=Provenance(target=server.model, device=server.about, date=now),
        served=Served(server.name, server.model, lane.comparable),
    )
