"""What the page may ask of the machine behind it: the only way from a widget to a model.

`app.py` hands the page a `Host`; tests hand it one that replays recorded races.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from spork_demo.calibration import CalibrationPlan, CalibrationProgress
from spork_demo.cells import Cell
from spork_demo.language import later
from spork_demo.settings import Settings
from spork_demo.sweep import Sweep
from spork_demo.trace import LaneEvent, Provenance, Race

logger = logging.getLogger(__name__)


class RunRefusedError(Exception):
    """The run cannot start or go on. The message is one sentence for the visitor."""


@dataclass(frozen=True, slots=True)
class Status:
    """How far the model is. `ready` means lanes can run live; `failed` that they never will."""

    message: str
    ready: bool = False
    failed: bool = False
    done_bytes: int = 0
    total_bytes: int = 0


@dataclass(frozen=True, slots=True)
class PairInfo:
    """One model pair this deployment offers.

    layers: the target's depth, 0 until it is loaded. about: what its drafters learned
    from and what narrower weights cost, empty where there is nothing to say.
    """

    name: str
    layers: int
    has_draft_model: bool
    languages: tuple[str, ...] = ()
    has_dspark: bool = False
    about: str = ""


@dataclass(frozen=True, slots=True)
class MachineCosts:
    """What calls cost on this machine, as measured when the pair was loaded.

    rows: the sizes that were timed. call_seconds[n]: a target call on n + 1 rows, linear between
    those. block_seconds: drafting a DSpark block of `block_size`; chain_seconds: a call of the
    draft model on one row; None where the pair has no such drafter.
    """

    place: Provenance
    context: int
    rows: tuple[int, ...]
    call_seconds: tuple[float, ...]
    block_seconds: float | None = None
    block_size: int = 0
    chain_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class RuleCounts:
    """How often each token came out first when rounds were verified by either rule."""

    exact: tuple[int, ...]
    article: tuple[int, ...]


class Host(Protocol):
    """The machine side of the page."""

    def status(self) -> Status:
        """Where loading stands; cheap, called about once a second."""
        ...

    def pairs(self) -> Sequence[PairInfo]:
        """Pairs that can run here, the default one first; empty until something is loaded."""
        ...

    def race(
        self, prompt: str, lanes: Sequence[Settings], labels: Sequence[str], pair: str = ""
    ) -> Iterator[Race | LaneEvent]:
        """Run all lanes on one prompt, a round at a time.

        First yields the empty Race (settings resolved, provenance filled in), then LaneEvents.
        A Race that comes later replaces it: the machine was lost, and all lanes begin again.
        Closing the iterator stops the run at the next round boundary and frees the device.
        Raises RunRefusedError with a sentence.
        """
        ...

    def sweep(
        self, prompts: Sequence[str], grid: Sequence[Cell], repeats: int = 1, pair: str = ""
    ) -> Iterator[Sweep]:
        """Race every cell on every prompt; yields the sweep so far after each round.

        Holds the device from the first race to the last. Closing the iterator stops it at the next
        round boundary. Raises RunRefusedError with a sentence before the first race.
        """
        ...

    def costs(self, pair: str = "") -> MachineCosts | None:
        """What calls of a pair cost here, if that has been measured; cheap, measures nothing."""
        ...

    def rule_counts(
        self, p: Sequence[float], q: Sequence[float], draws: int, seed: int
    ) -> RuleCounts | None:
        """Verify `draws` drafts from q against p by the exact and by the article rule, with the
        code that lanes run. None while the engine is not there or its device is busy.
        """
        ...

    def calibrate(self, plan: CalibrationPlan, pair: str = "") -> Iterator[CalibrationProgress]:
        """Score the forks of held-out prompts; holds the device as a race does.

        The last progress holds everything found. Closing the iterator stops the run at the next
        round boundary. Raises RunRefusedError with a sentence.
        """
        ...


class DeferredHost:
    """Puts the page up before torch is even imported: `build` makes the real host meanwhile."""

    def __init__(self, build: Callable[[], Host]) -> None:
        self._build = build
        self._host: Host | None = None
        self._status = Status(later("Starting the decoding engine."))

    def start(self) -> None:
        """Build in the background and return at once."""
        threading.Thread(target=self._run, name="build-host", daemon=True).start()

    def status(self) -> Status:
        return self._host.status() if self._host else self._status

    def pairs(self) -> Sequence[PairInfo]:
        return self._host.pairs() if self._host else ()

    def race(
        self, prompt: str, lanes: Sequence[Settings], labels: Sequence[str], pair: str = ""
    ) -> Iterator[Race | LaneEvent]:
        if self._host is None:
            raise RunRefusedError(self._status.message)
        yield from self._host.race(prompt, lanes, labels, pair)

    def sweep(
        self, prompts: Sequence[str], grid: Sequence[Cell], repeats: int = 1, pair: str = ""
    ) -> Iterator[Sweep]:
        if self._host is None:
            raise RunRefusedError(self._status.message)
        yield from self._host.sweep(prompts, grid, repeats, pair)

    def costs(self, pair: str = "") -> MachineCosts | None:
        return self._host.costs(pair) if self._host else None

    def rule_counts(
        self, p: Sequence[float], q: Sequence[float], draws: int, seed: int
    ) -> RuleCounts | None:
        return self._host.rule_counts(p, q, draws, seed) if self._host else None

    def calibrate(self, plan: CalibrationPlan, pair: str = "") -> Iterator[CalibrationProgress]:
        if self._host is None:
            raise RunRefusedError(self._status.message)
        yield from self._host.calibrate(plan, pair)

    def _run(self) -> None:
        try:
            self._host = self._build()
        except Exception:
            logger.exception("the decoding engine could not be started")
            self._status = Status(
                later("The decoding engine could not be started here."), failed=True
            )
