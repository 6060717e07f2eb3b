"""What happens on the calibration tab: values in, values out, no widgets."""

import functools
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr

from spork_demo.calibration import (
    PROMPT_LIMIT,
    QUANTILE,
    Calibration,
    CalibrationPlan,
    CalibrationProgress,
    verdict,
)
from spork_demo.charts.figure import paragraph
from spork_demo.host import RunRefusedError
from spork_demo.language import known, say
from spork_demo.settings import KNOBS, Settings, SettingsError
from spork_demo.spacefile import Limits
from spork_demo.ui import words
from spork_demo.ui.calibration_view import (
    DRAFTERS,
    JUDGES,
    VIEWS,
    judge_name,
    judged,
    progress_view,
    views,
)
from spork_demo.ui.entry import EntryError
from spork_demo.ui.handlers import Desk
from spork_demo.ui.notices import notice
from spork_demo.ui.planned import planned
from spork_demo.ui.turns import left_line

LOG = logging.getLogger(__name__)

FRAME_SECONDS = 0.25
"""Shortest time between two updates of the page."""

SHARED = ("fork_width", "fork_depth", "fork_shape", "node_budget", "ngram_order")
"""Knobs of the race tab that shape the forks."""

APPLIED = ("accept_threshold", "verifier_layers", "threshold_rule", *SHARED)
"""Settings of the race tab that `apply` sets."""

OWN_TOKENS = 48
"""Tokens greedy writes to each prompt, where nobody chose another number."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What the tab shows. ended: the run is over and has been told so."""

    found: Calibration | None = None
    ended: bool = False
    prompts: int = 0


@dataclass(frozen=True, slots=True)
class CalibrationDesk:
    """The handlers of the calibration tab."""

    desk: Desk
    clock: Callable[[], float] = time.monotonic

    def run(self, **values: Any) -> Iterator[tuple[Any, ...]]:
        """Notice, what is shown, and the views, as they grow. Closing it stops the run."""
        plan, refusal = self._read(values)
        if plan is None:
            yield notice(refusal, "refused"), gr.skip(), *_skipped()
            return
        judge, quantile = values.get("judge"), read_quantile(values.get("quantile"))
        yield notice(say("Calibrating…")), Shown(), *views(None, "", quantile)
        yield from self._steps(plan, values.get("pair") or "", judge, quantile)

    def runs(self, **values: Any) -> bool:
        """Whether `run` of the same values would need the device."""
        return self._read(values)[0] is not None

    def _read(self, values: Mapping[str, Any]) -> tuple[CalibrationPlan | None, str]:
        """The calibration that is asked for, or why it cannot be."""
        read = functools.partial(read_plan, values, self.desk.limits)
        return planned(read, self.desk.host, values.get("pair"))

    def _steps(
        self, plan: CalibrationPlan, pair: str, judge: Any, quantile: float
    ) -> Iterator[tuple[Any, ...]]:
        shown, last, told = Shown(), None, -math.inf
        try:
            with closing(self.desk.host.calibrate(plan, pair)) as steps:
                for last in steps:
                    fresh = last.found is not None
                    if fresh:
                        shown = Shown(last.found, prompts=last.prompts_done)
                    if fresh or self.clock() - told > FRAME_SECONDS:
                        told = self.clock()
                        drawn = views(shown.found, judge, quantile) if fresh else _skipped()
                        yield progress_view(last), shown, *drawn
        except (RunRefusedError, SettingsError) as error:
            yield notice(known(str(error)), "refused"), replace(shown, ended=True), *_skipped()
            return
        except Exception:
            LOG.exception("a calibration failed")
            text = say("The calibration failed on the server; what it had found is kept.")
            yield notice(text, "refused"), replace(shown, ended=True), *_skipped()
            return
        yield self._ending(last), replace(shown, ended=True), *_skipped()

    def _ending(self, last: CalibrationProgress | None) -> str:
        if last is not None and last.share < 1:
            text = say(
                "The time for one run was over after {done} of {prompts} prompts; what was found "
                "is kept.",
                done=last.prompts_done,
                prompts=last.prompts,
            )
            return notice(text, "done")
        return notice(
            say("Calibrated. Move the quantile to see what another τ lets pass, then apply it."),
            "done",
        )

    def settle(self, shown: Shown | None, said: Any = None) -> tuple[Any, ...]:
        """After a run has ended in any way: where Stop cut it off, say what is kept.

        said: the notice on the page.
        """
        if left := left_line(said):
            return left, gr.skip()
        if shown is None or shown.ended:
            return gr.skip(), gr.skip()
        text = say("Stopped before anything was found.")
        if shown.found is not None:
            text = say(
                "Stopped after {prompts} whole prompts; what was found is kept.",
                prompts=shown.prompts,
            )
        return notice(text), replace(shown, ended=True)

    def look(self, shown: Shown | None, judge: Any, quantile: Any) -> tuple[Any, ...]:
        """Another judge or quantile, read off the stored scores: chart and table."""
        if shown is None or shown.found is None or judge not in shown.found.judges:
            return gr.skip(), gr.skip()
        return tuple(judged(shown.found, judge, read_quantile(quantile)))

    def apply(self, shown: Shown | None, judge: Any, quantile: Any, *lanes: Any) -> list[Any]:
        """Notice, the settings of `APPLIED`, and a preset for each lane of the race tab.

        lanes: method, rules and preset, lane after lane.
        """
        count = len(lanes) // 3
        if shown is None or shown.found is None or judge not in shown.found.judges:
            text = say("There is no threshold yet: calibrate first.")
            return [notice(text, "refused"), *[gr.skip()] * (len(APPLIED) + count)]
        told = verdict(shown.found, judge, read_quantile(quantile))
        if not told.agreeing:
            text = say("No fork agreed with greedy, so there is no threshold to apply.")
            return [notice(text, "refused"), *[gr.skip()] * (len(APPLIED) + count)]
        settings = shown.found.settings
        place = _article_lane(lanes)
        preset = self._preset(settings.drafter, judge)
        presets: list[Any] = [gr.skip()] * count
        if place is not None and preset:
            presets[place] = gr.update(value=preset)
        values = {name: getattr(settings, name) for name in APPLIED}
        values |= {"accept_threshold": told.threshold, "threshold_rule": "fixed"}
        text = _applied(told.threshold, judge, settings, place, preset)
        return [notice(text, "done"), *values.values(), *presets]

    def _preset(self, drafter: str, judge: str) -> str:
        wanted = ("spork", "article", drafter, judge)
        fitting = (
            preset.name
            for preset in self.desk.presets
            if (preset.method, preset.rules, preset.drafter, preset.judge) == wanted
        )
        return next(fitting, "")


def read_plan(values: Mapping[str, Any], limits: Limits) -> CalibrationPlan:
    """From the widgets to a plan. Raises EntryError or SettingsError with a sentence."""
    judge, drafter = values.get("judge"), values.get("drafter")
    if judge not in tuple(JUDGES) or drafter not in tuple(DRAFTERS):
        raise EntryError(say("Choose a judge and a drafter from the menus."))
    prompts = _whole(values.get("prompts"), say("prompts"), 1, PROMPT_LIMIT)
    tokens = _whole(values.get("tokens"), say("tokens of each prompt"), 1, limits.new_tokens)
    layers = KNOBS["verifier_layers"]
    shared = {name: _sane(values[name]) for name in SHARED if name in values}
    settings = Settings(
        "spork",
        "article",
        drafter=drafter,
        judge=judge,
        verifier_layers=_whole(values.get("layers"), "N", int(layers.low), int(layers.high)),
        max_new_tokens=tokens,
        **shared,
    )
    if tokens <= settings.fork_depth:
        raise EntryError(
            say(
                "Forks of {depth} tokens need at least as many tokens of each prompt.",
                depth=1 + settings.fork_depth,
            )
        )
    nodes = settings.node_budget if settings.fork_shape == "tree" else settings.plain_nodes
    if nodes > limits.fork_nodes:
        raise EntryError(say(words.TOO_MANY_NODES, asked=nodes, limit=limits.fork_nodes))
    return CalibrationPlan(settings, prompts)


def read_quantile(value: Any) -> float:
    """The share of agreeing forks given up; anything that is none gives the default."""
    usable = isinstance(value, int | float) and not isinstance(value, bool)
    return min(max(float(value), 0.0), 0.5) if usable and math.isfinite(value) else QUANTILE


def _whole(value: Any, name: str, low: int, high: int) -> int:
    usable = isinstance(value, int | float) and not isinstance(value, bool)
    if not usable or not low <= value <= high or value != int(value):
        raise EntryError(
            say(
                "{name} must be a whole number from {low} to {high}.", name=name, low=low, high=high
            )
        )
    return int(value)


def _sane(value: Any) -> Any:
    giant = isinstance(value, int) and abs(value) > 2**64
    return math.inf if giant else value


def _article_lane(lanes: tuple[Any, ...]) -> int | None:
    """The first lane of SPORK by article rules."""
    picks = [lanes[start : start + 2] for start in range(0, len(lanes), 3)]
    return next((n for n, pick in enumerate(picks) if tuple(pick) == ("spork", "article")), None)


def _applied(
    threshold: float, judge: str, settings: Settings, place: int | None, preset: str
) -> str:
    text = say(
        "Applied on the Race tab: τ {threshold} for {judge}, with the forks it was measured on.",
        threshold=f"{threshold:.2f}",
        judge=judge_name(judge, settings),
    )
    if place is None:
        more = say("No lane runs SPORK by article rules yet: choose them there for τ to decide.")
    elif not preset:
        more = say(
            "Lane {lane} runs SPORK by article rules; no preset has this drafter and this judge, "
            "so its own stay.",
            lane=place + 1,
        )
    else:
        more = say("Lane {lane} now drafts and judges as measured here.", lane=place + 1)
    return paragraph([text, more])


def _skipped() -> list[Any]:
    return [gr.skip()] * VIEWS
