"""A host whose runs are counted, logged without their prompts, and ended when the server stops."""

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from spork_demo.calibration import CalibrationPlan, CalibrationProgress
from spork_demo.cells import Cell
from spork_demo.host import Host, PairInfo, RunRefusedError, Status
from spork_demo.language import say
from spork_demo.settings import Settings
from spork_demo.sweep import Sweep
from spork_demo.trace import LaneEvent, Race, Round

logger = logging.getLogger(__name__)

SECONDS = (0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300)


class ObservedHost:
    """`host`, observed. registry: what a metrics page shows."""

    def __init__(self, host: Host, registry: CollectorRegistry) -> None:
        self._host = host
        self._stopping = threading.Event()
        self._idle = threading.Condition()
        self._count = 0
        self._runs = Counter(
            "spork_runs", "Runs ended, by kind and how.", ("kind", "outcome"), registry=registry
        )
        self._seconds = Histogram(
            "spork_run_seconds", "Seconds from a run's start to its end, waiting for the device "
            "and comparison included.", ("kind",), buckets=SECONDS, registry=registry,
        )  # fmt: skip
        self._tokens = Counter(
            "spork_tokens", "Tokens committed in races.", ("method", "rules"), registry=registry
        )
        running = Gauge("spork_running", "Runs going on now.", registry=registry)
        running.set_function(lambda: self._count)
        ready = Gauge("spork_ready", "1 when lanes can run live.", registry=registry)
        ready.set_function(lambda: float(self.status().ready))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)

    def status(self) -> Status:
        return self._host.status()

    def pairs(self) -> Sequence[PairInfo]:
        return self._host.pairs()

    @property
    def running(self) -> int:
        """Runs going on now, those that wait for the device included."""
        return self._count

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    def race(
        self, prompt: str, lanes: Sequence[Settings], labels: Sequence[str], pair: str = ""
    ) -> Iterator[Race | LaneEvent]:
        """See `Host.race`."""
        methods = [f"{lane.method} {lane.rules}" for lane in lanes]
        events = self._host.race(prompt, lanes, labels, pair)
        told = {"pair": self._named(pair), "lanes": methods}
        yield from self._watched("race", events, told, lanes)

    def sweep(
        self, prompts: Sequence[str], grid: Sequence[Cell], repeats: int = 1, pair: str = ""
    ) -> Iterator[Sweep]:
        """See `Host.sweep`."""
        told = {"pair": self._named(pair), "cells": len(grid), "prompts": len(prompts)}
        yield from self._watched("sweep", self._host.sweep(prompts, grid, repeats, pair), told)

    def calibrate(self, plan: CalibrationPlan, pair: str = "") -> Iterator[CalibrationProgress]:
        """See `Host.calibrate`."""
        told = {"pair": self._named(pair), "prompts": plan.prompts}
        yield from self._watched("calibrate", self._host.calibrate(plan, pair), told)

    def stop(self, patience: float) -> bool:
        """Refuse new runs and end those that go on after their round; False where one still goes
        on after so many seconds.
        """
        self._stopping.set()
        with self._idle:
            return self._idle.wait_for(lambda: self._count == 0, patience)

    def _named(self, pair: str) -> str:
        """A pair's name as it may be logged: what is none of ours is a stranger's text."""
        return pair if not pair or pair in {each.name for each in self.pairs()} else "unknown"

    def _watched(
        self, kind: str, events: Iterator[Any], told: dict[str, Any], lanes: Sequence[Settings] = ()
    ) -> Iterator[Any]:
        begun, outcome, tokens = time.monotonic(), "stopped", 0
        self._add(1)
        try:
            self._refuse_when_stopping()
            with closing(events):
                for event in events:
                    tokens += self._counted(event, lanes)
                    yield event
                    self._refuse_when_stopping()
            outcome = "finished"
        except RunRefusedError:
            outcome = "stopped" if self.stopping else "refused"
            raise
        except Exception:
            outcome = "failed"
            raise
        finally:
            self._add(-1)
            seconds = time.monotonic() - begun
            self._runs.labels(kind, outcome).inc()
            self._seconds.labels(kind).observe(seconds)
            said = {"kind": kind, "outcome": outcome, "seconds": round(seconds, 3), **told}
            logger.info("run ended", extra={"fields": {**said, "tokens": tokens}})

    def _counted(self, event: Any, lanes: Sequence[Settings]) -> int:
        """Tokens an event brought, counted under its lane's method."""
        if not isinstance(event, LaneEvent) or not isinstance(event.event, Round):
            return 0
        count, lane = len(event.event.committed), lanes[event.lane]
        self._tokens.labels(lane.method, lane.rules).inc(count)
        return count

    def _refuse_when_stopping(self) -> None:
        if self.stopping:
            raise RunRefusedError(say("The server is stopping; the text so far is kept."))

    def _add(self, change: int) -> None:
        with self._idle:
            self._count += change
            self._idle.notify_all()
