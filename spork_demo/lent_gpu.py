"""Runs on a GPU that is lent for one call at a time, as ZeroGPU Spaces lend theirs.

What is known of such a call: it happens in a forked process, so nothing it changes comes back but
what it yields; arguments and every item are pickled; an exception comes back without its message;
it is ended when it takes longer than was asked for; closing the generator ends it after the item
it is at. So weights are placed before the page is up, everything is checked before a GPU is asked
for, a whole run is one call, and a call ends by itself in time.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from torch import nn

from spork_demo.calibration import CalibrationPlan, CalibrationProgress
from spork_demo.calibration_run import on_pair
from spork_demo.cells import Cell
from spork_demo.engine import Engine
from spork_demo.gpu_seconds import Network, Networks, Rates, asked_seconds, placing_seconds
from spork_demo.host import RunRefusedError, Status
from spork_demo.language import current, later, say, spoken
from spork_demo.models.pair import load_pair
from spork_demo.models.progress import ModelUnavailable
from spork_demo.race import failure_sentence
from spork_demo.runtime import USUAL_CONTEXT, LocalHost
from spork_demo.settings import Settings, SettingsError
from spork_demo.spacefile import Spacefile
from spork_demo.sweep import Sweep, groups
from spork_demo.trace import Finished, LaneEvent, Race, Round

logger = logging.getLogger(__name__)

SPARE = 1.0
"""Seconds kept back for the end of a call."""

BETWEEN_STATES = 0.25
"""Seconds."""

GREEDY = Settings()


@dataclass(frozen=True, slots=True)
class Request:
    """One call: the method of the host to run, what it is given, and the time there is.

    seconds: asked for. working: of these, for the work itself; the rest goes on placing weights.
    """

    kind: str
    arguments: tuple[Any, ...]
    language: str
    seconds: int
    working: float


@dataclass(frozen=True, slots=True)
class Refused:
    """The last item of a call that could not start or go on: an exception would lose the words."""

    sentence: str


Call = Callable[[Request], Iterator[Any]]
Lend = Callable[..., Callable[[Call], Call]]
"""`spaces.GPU`: given `duration`, a function of the request, it makes a call run on the GPU."""


class LentGpuHost(LocalHost):
    """A host whose GPU is there only inside one call. Made and started before the page is up."""

    def __init__(self, spacefile: Spacefile, lend: Lend) -> None:
        super().__init__(spacefile)
        self._rates = Rates()
        self._networks: dict[str, Networks] = {}
        self._lent = lend(duration=_seconds)(self._work)

    def start(self) -> None:
        """Load every pair now and on this thread: weights placed later, or on another one, would
        not be brought onto the GPU.
        """
        problem = later("No model pair of the Spacefile fits this machine.")
        for spec in self._specs.values():
            try:
                pair = load_pair(spec, report=self._report, kernels="stock")
            except ModelUnavailable as error:
                logger.warning("%s is left out: %s", spec.name, error)
                problem = str(error)
                continue
            self._engines[spec.name] = engine = Engine(pair)
            self._networks[spec.name] = networks(engine)
        self._specs = {name: self._specs[name] for name in self._engines}
        if not self._engines:
            self._status = Status(problem, failed=True)
            return
        first = next(iter(self._engines.values())).pair
        told = later(
            "{name} is ready ({dtype}): lanes run live on a GPU lent for one run at a time.",
            name=first.name,
            dtype=first.dtype,
        )
        self._status = Status(told, ready=True)

    def race(
        self, prompt: str, lanes: Sequence[Settings], labels: Sequence[str], pair: str = ""
    ) -> Iterator[Race | LaneEvent]:
        """See `Host.race`. All lanes run in one call: another one might get another GPU."""
        name, engine = self._named(pair)
        try:
            resolved = [engine.resolve(settings) for settings in lanes]
            ids = engine.encode(prompt, self._limits.prompt_tokens)
        except (SettingsError, ValueError) as error:
            raise RunRefusedError(str(error)) from error
        work = self._rates.race(name, self._networks[name], resolved, len(ids))
        tallies = [Tally() for _ in lanes]
        given = (prompt, tuple(lanes), tuple(labels), name)
        for item in self._borrowed("race", given, work):
            if isinstance(item, LaneEvent):
                tallies[item.lane].count(item)
            yield item
        for place, (tally, settings) in enumerate(zip(tallies, resolved, strict=True)):
            self._rates.learn(name, settings, tally.tokens, tally.seconds)
            if not tally.ended:
                told = later("The time asked of the lent GPU was over before the end.")
                yield LaneEvent(place, Finished("stopped", message=told))

    def sweep(
        self, prompts: Sequence[str], grid: Sequence[Cell], repeats: int = 1, pair: str = ""
    ) -> Iterator[Sweep]:
        """See `Host.sweep`. One call; what it has brought when its time is over is kept."""
        name, engine = self._named(pair)
        try:
            resolved = [engine.resolve(cell.settings) for cell in grid]
            lengths = [len(engine.encode(each, self._limits.prompt_tokens)) for each in prompts]
        except (SettingsError, ValueError) as error:
            raise RunRefusedError(str(error)) from error
        plan = [[resolved[place] for place in places] for places in groups(grid)]
        work = repeats * sum(
            self._rates.race(name, self._networks[name], [GREEDY, *lanes], length)
            for length in lengths
            for lanes in plan
        )
        yield from self._borrowed("sweep", (tuple(prompts), tuple(grid), repeats, name), work)

    def calibrate(self, plan: CalibrationPlan, pair: str = "") -> Iterator[CalibrationProgress]:
        """See `Host.calibrate`. One call; what it has brought when its time is over is kept."""
        name, engine = self._named(pair)
        try:
            settings = on_pair(engine, plan).settings
        except SettingsError as error:
            raise RunRefusedError(str(error)) from error
        prompt = min(self._limits.prompt_tokens, USUAL_CONTEXT)
        work = self._rates.race(name, self._networks[name], [settings, GREEDY], prompt)
        yield from self._borrowed("calibrate", (plan, name), plan.prompts * work)

    def _named(self, pair: str) -> tuple[str, Engine]:
        if not self._engines:
            raise RunRefusedError(self._status.message)
        name = pair or next(iter(self._engines))
        if name not in self._engines:
            raise RunRefusedError(say("That model pair is not one this machine runs."))
        return name, self._engines[name]

    def _borrowed(self, kind: str, given: tuple[Any, ...], work: float) -> Iterator[Any]:
        """The items of one call. Raises RunRefusedError where there is no GPU or no result."""
        placing = placing_seconds(self._networks.values())
        seconds = asked_seconds(placing, work, self._limits.seconds_per_run)
        working = max(SPARE, seconds - placing - SPARE)
        try:
            with closing(self._lent(Request(kind, given, current(), seconds, working))) as items:
                for item in items:
                    if isinstance(item, Refused):
                        raise RunRefusedError(item.sentence)
                    yield item
        except RunRefusedError:
            raise
        except Exception as error:
            logger.exception("a call on the lent GPU failed")
            raise RunRefusedError(_why(error)) from error

    def _work(self, request: Request) -> Iterator[Any]:
        """What runs in the forked process, and ends in time by itself, at a round boundary."""
        end = time.monotonic() + request.working
        runs = {"race": super().race, "sweep": super().sweep, "calibrate": super().calibrate}
        run = spoken(request.language, runs[request.kind])
        try:
            with closing(run(*request.arguments)) as items:
                seen = latest(items) if request.kind == "sweep" else items
                for item in seen:
                    yield item
                    if time.monotonic() > end:
                        return
        except RunRefusedError as error:
            yield Refused(str(error))
        except Exception as error:
            logger.exception("a run on the lent GPU failed")
            yield Refused(failure_sentence(error))


def latest(states: Iterator[Any]) -> Iterator[Any]:
    """The newest of states that each hold all before, a few a second, and the last: each is
    pickled whole.
    """
    told, waiting = 0.0, []
    for state in states:
        waiting = [state]
        if time.monotonic() - told >= BETWEEN_STATES:
            yield state
            told, waiting = time.monotonic(), []
    yield from waiting


@dataclass(slots=True)
class Tally:
    """What one lane took so far."""

    tokens: int = 0
    seconds: float = 0.0
    ended: bool = False

    def count(self, news: LaneEvent) -> None:
        event = news.event
        if isinstance(event, Round):
            self.tokens += len(event.committed)
            self.seconds += event.seconds
        self.ended = self.ended or isinstance(event, Finished)


def networks(engine: Engine) -> Networks:
    """The sizes of a loaded pair's networks."""
    pair = engine.pair
    target = Network(engine.layers, _bytes(pair.target))
    draft = dspark = None
    if pair.draft is not None:
        draft = Network(pair.draft.config.num_hidden_layers, _bytes(pair.draft))
    if pair.dspark is not None:
        dspark = Network(pair.dspark.config.layers, _bytes(pair.dspark))
    return Networks(target, draft, dspark)


def _bytes(model: nn.Module) -> int:
    return sum(weight.numel() * weight.element_size() for weight in model.parameters())


def _seconds(request: Request) -> int:
    return request.seconds


def _why(error: Exception) -> str:
    """A sentence for what the lender says, whose errors have a title and a message."""
    title, message = (str(getattr(error, name, "")) for name in ("title", "message"))
    if title == "ZeroGPU worker error" or not title.startswith("ZeroGPU"):
        return say("The GPU was taken back before the run ended; what was written is kept.")
    return say("No GPU is lent for this run: {reason}", reason=message[:300])
