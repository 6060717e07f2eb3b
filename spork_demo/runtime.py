"""The machine behind the page: loads pairs, keeps visitors apart, runs races on one device."""

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from spork_demo.calibration import CalibrationPlan, CalibrationProgress
from spork_demo.calibration_run import calibration_prompts, on_pair, readable, run_calibration
from spork_demo.cells import Cell
from spork_demo.decoding.measured_costs import ROWS
from spork_demo.decoding.rule_counts import rule_counts
from spork_demo.engine import Engine, device_name, empty_race, run_lanes, sweep_lanes
from spork_demo.host import MachineCosts, PairInfo, RuleCounts, RunRefusedError, Status
from spork_demo.language import later, say
from spork_demo.models.memory import trim_memory
from spork_demo.models.native import compiler, kernels
from spork_demo.models.pair import load_pair
from spork_demo.models.progress import ModelUnavailable, Progress
from spork_demo.race import failure_sentence
from spork_demo.settings import Settings, SettingsError
from spork_demo.spacefile import PairSpec, Spacefile
from spork_demo.sweep import Sweep
from spork_demo.trace import LaneEvent, Race

logger = logging.getLogger(__name__)

USUAL_CONTEXT = 100
"""Tokens of prompt and reply halfway through a run with the page's own knobs."""


class LocalHost:
    """Runs races in this process, one at a time.

    `start` loads the default pair, the first of the Spacefile that fits this machine, behind the
    page; another pair is loaded when a race first asks for it.
    """

    def __init__(self, spacefile: Spacefile) -> None:
        self._limits = spacefile.limits
        self._specs = {spec.name: spec for spec in spacefile.pairs if _runs_here(spec)}
        self._engines: dict[str, Engine] = {}
        self._costs: dict[str, MachineCosts] = {}
        self._status = Status(later("The model has not been asked for yet."))
        self._device = threading.Lock()

    def start(self) -> None:
        """Begin loading in the background and return at once."""
        threading.Thread(target=self._load_default, name="load-model", daemon=True).start()

    def status(self) -> Status:
        return self._status

    def pairs(self) -> tuple[PairInfo, ...]:
        if not self._engines:
            return ()
        return tuple(_info(spec, self._engines.get(name)) for name, spec in self._specs.items())

    def race(
        self, prompt: str, lanes: Sequence[Settings], labels: Sequence[str], pair: str = ""
    ) -> Iterator[Race | LaneEvent]:
        """See `Host.race`. The device is held from the first event to the last."""
        with self._held(pair) as engine:
            try:
                resolved = [engine.resolve(settings) for settings in lanes]
                ids = engine.encode(prompt, self._limits.prompt_tokens)
            except (SettingsError, ValueError) as error:
                raise RunRefusedError(str(error)) from error
            race = empty_race(engine, prompt, resolved, labels)
            yield race
            yield from run_lanes(engine, race, ids)

    def sweep(
        self, prompts: Sequence[str], grid: Sequence[Cell], repeats: int = 1, pair: str = ""
    ) -> Iterator[Sweep]:
        """See `Host.sweep`."""
        with self._held(pair) as engine:
            states = sweep_lanes(engine, prompts, grid, self._limits.prompt_tokens, repeats)
            try:
                yield next(states)
            except (SettingsError, ValueError) as error:
                raise RunRefusedError(str(error)) from error
            yield from states

    def calibrate(self, plan: CalibrationPlan, pair: str = "") -> Iterator[CalibrationProgress]:
        """See `Host.calibrate`."""
        with self._held(pair) as engine:
            try:
                plan = on_pair(engine, plan)
                prompts = readable(
                    engine, calibration_prompts(plan.prompts), self._limits.prompt_tokens
                )
            except (SettingsError, ValueError) as error:
                raise RunRefusedError(str(error)) from error
            yield from run_calibration(engine, plan, prompts, seconds=self._limits.seconds_per_run)

    @contextmanager
    def _held(self, pair: str) -> Iterator[Engine]:
        """The engine of a pair, the device being nobody else's meanwhile."""
        if not self._engines:
            raise RunRefusedError(self._status.message)
        spec = self._specs.get(pair or next(iter(self._engines)))
        if spec is None:
            raise RunRefusedError(say("That model pair is not one this machine runs."))
        longest = max(self._limits.seconds_per_run, self._limits.sweep_seconds)
        if not self._device.acquire(timeout=2 * longest):
            raise RunRefusedError(
                say("The device is busy with another run; try again in a moment.")
            )
        try:
            yield self._engine(spec)
        finally:
            trim_memory()  # before the next run, so that it slows none
            self._device.release()

    def costs(self, pair: str = "") -> MachineCosts | None:
        """See `Host.costs`."""
        name = pair or next(iter(self._engines), "")
        if name in self._engines and name not in self._costs:
            measured = _measured(self._engines[name])
            if measured is None:
                return None
            self._costs[name] = measured
        return self._costs.get(name)

    def rule_counts(
        self, p: Sequence[float], q: Sequence[float], draws: int, seed: int
    ) -> RuleCounts | None:
        """See `Host.rule_counts`. Beside a race it would slow the lane that is timed."""
        if not self._device.acquire(timeout=self._limits.seconds_per_run):
            return None
        try:
            return rule_counts(p, q, draws, seed)
        finally:
            self._device.release()

    def _engine(self, spec: PairSpec) -> Engine:
        if spec.name not in self._engines:
            try:
                self._engines[spec.name] = Engine(load_pair(spec))
            except ModelUnavailable as error:
                raise RunRefusedError(str(error)) from error
        return self._engines[spec.name]

    def _load_default(self) -> None:
        if not self._specs:
            self._status = Status(
                later("No model pair of the Spacefile fits this machine."), failed=True
            )
            return
        spec = next(iter(self._specs.values()))
        try:
            engine = Engine(load_pair(spec, report=self._report))
            self._report(Progress("load", 0, 0, later("Warming up.")))
            engine.warm_up()
            self._report(
                Progress("load", 0, 0, later("Measuring what a call costs on this machine."))
            )
            engine.costs.near(USUAL_CONTEXT)
        except ModelUnavailable as error:
            self._status = Status(str(error), failed=True)
            return
        except Exception as error:
            logger.exception("the default pair could not be loaded")
            self._status = Status(failure_sentence(error), failed=True)
            return
        self._engines[spec.name] = engine
        self.costs(spec.name)  # so that it bears the date of the measurement
        trim_memory()
        self._status = Status(_ready(engine), ready=True)

    def _report(self, progress: Progress) -> None:
        if progress.stage == "ready":  # the pair is, but lanes are not before the warm-up
            return
        self._status = Status(
            progress.message, done_bytes=progress.done_bytes, total_bytes=progress.total_bytes
        )


def _info(spec: PairSpec, engine: Engine | None) -> PairInfo:
    return PairInfo(
        spec.name,
        engine.layers if engine else 0,
        has_draft_model=spec.draft is not None,
        languages=spec.languages,
        has_dspark=spec.dspark is not None,
        about=spec.about,
    )


def _measured(engine: Engine) -> MachineCosts | None:
    table, dspark = engine.costs.known(USUAL_CONTEXT), engine.pair.dspark
    if table is None:
        return None
    return MachineCosts(
        place=engine.provenance(),
        context=table.context,
        rows=tuple(rows for rows in ROWS if rows <= len(table.call_seconds)),
        call_seconds=table.call_seconds,
        block_seconds=table.draft_seconds if dspark else None,
        block_size=dspark.config.block_size if dspark else 0,
        chain_seconds=table.chain_seconds if engine.pair.draft else None,
    )


def _ready(engine: Engine) -> str:
    """What is loaded, on what, and whether it could be faster."""
    pair = engine.pair
    ready = later(
        "{name} is ready ({device}, {dtype}): lanes run live.",
        name=pair.name,
        device=device_name(pair.device),
        dtype=pair.dtype,
    )
    if pair.kernels == "compiled":
        return ready
    if pair.device.startswith("cuda"):
        why = later("the calls of this model could not be recorded.")
    elif pair.device != "cpu":
        return ready
    elif compiler() is None:
        why = later("compiled kernels are not used, because there is no C++ compiler.")
    elif kernels() is None:
        why = later("compiled kernels are not used, because they could not be built or stored.")
    else:
        why = later("compiled kernels are not used, because they do not serve this model.")
    return later("{ready} Slower than it could be: {why}", ready=ready, why=why)


def _runs_here(spec: PairSpec) -> bool:
    return spec.needs == "cpu" or torch.cuda.is_available()
