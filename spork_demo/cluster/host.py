"""The machine behind the page where it is a cluster: every run goes to a replica that is free.

A replica runs one thing at a time, races and the races of sweeps alike, on devices nobody else
uses, so a lane is timed there as on one machine. A run whose replica is lost begins again from its
start, once: all its lanes on one replica, because clocks of two machines do not add up, and with
the same seeds, so that nothing is written that was not asked for.
"""

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

from spork_demo.calibration import CalibrationPlan, CalibrationProgress
from spork_demo.cells import Cell
from spork_demo.cluster.messages import (
    Begun,
    BusyError,
    Facts,
    LostError,
    Pool,
    Refused,
    Request,
)
from spork_demo.cluster.spread import Spread
from spork_demo.cluster_spec import Cluster
from spork_demo.host import MachineCosts, PairInfo, RuleCounts, RunRefusedError, Status
from spork_demo.language import current, later, say
from spork_demo.settings import Settings
from spork_demo.sweep import Sweep, parts
from spork_demo.trace import LaneEvent, Race

logger = logging.getLogger(__name__)


class ClusterHost:
    """Runs everything on the replicas of `pool`."""

    def __init__(self, pool: Pool, cluster: Cluster) -> None:
        self._pool = pool
        self._cluster = cluster
        self._pairs: dict[str, PairInfo] = {}
        self._costs: dict[str, MachineCosts] = {}
        self._status = Status(
            later("Starting the replicas on the cluster; each loads its models once.")
        )

    def start(self) -> None:
        """Start the replicas in the background and return at once."""
        threading.Thread(target=self._start, name="start-replicas", daemon=True).start()

    def status(self) -> Status:
        return self._status

    def pairs(self) -> Sequence[PairInfo]:
        return tuple(self._pairs.values())

    def race(
        self, prompt: str, lanes: Sequence[Settings], labels: Sequence[str], pair: str = ""
    ) -> Iterator[Race | LaneEvent]:
        """See `Host.race`."""
        yield from self._run("race", prompt, tuple(lanes), tuple(labels), pair)

    def sweep(
        self, prompts: Sequence[str], grid: Sequence[Cell], repeats: int = 1, pair: str = ""
    ) -> Iterator[Sweep]:
        """See `Host.sweep`. Its races run on as many replicas as are free."""
        for _ in self._run("check", tuple(prompts), tuple(grid), pair):
            pass
        language = current()

        def races(part: Any, stop: threading.Event) -> Iterator[Any]:
            given = (part.prompt, part.lanes, ("",) * len(part.lanes), pair)
            return self._retried(Request("race", given, language), stop)

        spread = Spread(parts(prompts, grid, repeats), grid, races, self._cluster.replicas)
        with closing(spread.states()) as states:
            yield from states
        if spread.lost:
            raise RunRefusedError(
                say(
                    "{count} of {races} races are missing: the replicas they ran on were lost "
                    "twice. All others are kept.",
                    count=spread.lost,
                    races=spread.races,
                )
            )

    def calibrate(self, plan: CalibrationPlan, pair: str = "") -> Iterator[CalibrationProgress]:
        """See `Host.calibrate`."""
        yield from self._run("calibrate", plan, pair)

    def costs(self, pair: str = "") -> MachineCosts | None:
        """See `Host.costs`. Of the replica that was heard last; all should be alike."""
        return self._costs.get(pair or next(iter(self._pairs), ""))

    def rule_counts(
        self, p: Sequence[float], q: Sequence[float], draws: int, seed: int
    ) -> RuleCounts | None:
        """See `Host.rule_counts`."""
        try:
            found = list(self._run("count_rules", tuple(p), tuple(q), draws, seed))
        except RunRefusedError:
            return None
        return next(iter(found), None)

    def close(self) -> None:
        """End what was started for this page."""
        self._pool.close()

    def _start(self) -> None:
        try:
            facts = self._pool.start()
        except Exception:
            logger.exception("the replicas could not be started")
            told = later(
                "The replicas could not be started on the cluster; the server's log says why."
            )
            self._status = Status(told, failed=True)
            return
        self._learn(facts)
        told = later(
            "{ready} Replicas on the cluster: {count}.",
            ready=facts.message,
            count=self._cluster.replicas,
        )
        self._status = Status(told, ready=True)

    def _learn(self, facts: Facts) -> None:
        for pair in facts.pairs:
            known = self._pairs.get(pair.name)
            if known is None or pair.layers:  # another replica may not have loaded it yet
                self._pairs[pair.name] = pair
        self._costs |= facts.costs

    def _run(self, kind: str, *arguments: Any) -> Iterator[Any]:
        """The items of a run, for a visitor."""
        if not self._status.ready:
            raise RunRefusedError(say(self._status.message))
        try:
            yield from self._retried(Request(kind, arguments, current()))
        except BusyError as error:
            raise RunRefusedError(
                say(
                    "Every machine is busy and {queue} runs wait already; try again in a moment.",
                    queue=self._cluster.queue,
                )
            ) from error
        except LostError as error:
            raise RunRefusedError(
                say(
                    "The machine of this run was lost, and so was the one it began again on; what "
                    "is shown is kept. Try again in a moment."
                )
            ) from error

    def _retried(self, request: Request, stop: threading.Event | None = None) -> Iterator[Any]:
        """The items of a run; after a loss, once, those of the same run from its start."""
        try:
            yield from self._attempt(request, stop)
            return
        except LostError as error:
            told = {"kind": request.kind, "replica": str(error)}
            logger.warning("a replica was lost; its run begins again", extra={"fields": told})
        yield from self._attempt(request, stop)

    def _attempt(self, request: Request, stop: threading.Event | None) -> Iterator[Any]:
        replica = ""
        try:
            with closing(self._pool.stream(request, stop)) as items:
                for item in items:
                    if isinstance(item, Begun):
                        replica = item.replica
                    elif isinstance(item, Refused):
                        raise RunRefusedError(item.sentence)
                    elif isinstance(item, Facts):
                        self._learn(item)
                        return
                    else:
                        yield item
        except LostError as error:
            raise LostError(f"{replica or 'before it began'}: {error}") from error
        if stop is None or not stop.is_set():
            raise LostError(f"{replica}: the stream broke off")
