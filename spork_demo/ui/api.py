"""The typed endpoints of the server: `compare`, `decode`, `sweep` and `settings`.

They take and give plain JSON, check everything as the page does, and answer a wrong request with
the page's own sentence.
"""

import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any

import gradio as gr

from spork_demo.axes import SWEPT
from spork_demo.cells import Cell, possible_cells
from spork_demo.host import RunRefusedError
from spork_demo.language import later, say
from spork_demo.race import memory_sentence
from spork_demo.settings import CHOICES, KNOBS, Settings, SettingsError
from spork_demo.trace import LaneEvent, Race, StopReason, advance
from spork_demo.ui import words
from spork_demo.ui.answers import Answer, result, so_far, table
from spork_demo.ui.entry import (
    EntryError,
    checked_prompt,
    find_server,
    lane_label,
    most_lanes,
    no_giant,
    within_limits,
)
from spork_demo.ui.events import RUNS
from spork_demo.ui.handlers import Desk, halted, unfinished
from spork_demo.ui.pace import paced
from spork_demo.ui.planned import not_now
from spork_demo.ui.sweep_entry import GREEDY_SWEPT, REPEATS
from spork_demo.ui.turns import in_answers, succeeds, taking_turns

LOG = logging.getLogger(__name__)

LANES = later("A request has 1 to {limit} lanes here, in a list.")
SETTINGS_KIND = later("Settings are an object, such as method: spork, fork_width: 4.")
SWEEP_PROMPTS = later("A sweep has 1 to {limit} prompts here, in a list.")
SWEEP_REPEATS = later("A sweep is repeated 1 to {limit} times.")
SWEEP_AXES = later(
    "The axes of a sweep are an object of lists; with this method and rules it may sweep {names}."
)

UPDATE_SECONDS = 0.1
"""Shortest time between two answers of a stream."""


class Endpoints:
    """What the endpoints do, on the desk's host and within its limits."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._host, self._limits = desk.host, desk.limits

    def compare(
        self, prompt: str, lanes: list[dict[str, Any]], pair: str = ""
    ) -> Iterator[dict[str, Any]]:
        """Race lanes on one prompt; the first greedy lane is what speedups refer to.

        Streams the lanes so far, then, with done true, their texts, metrics and fidelity.

        Args:
            prompt: What the model is asked; the server's chat template is put around it.
            lanes: One object a lane: any settings by name, e.g. {"method": "spork"}.
            pair: Name of the model pair, the server's first one where empty.
        """
        yield from self._answered(lambda: self._compared(prompt, lanes, pair))

    def decode(
        self, prompt: str, settings: dict[str, Any], pair: str = ""
    ) -> Iterator[dict[str, Any]]:
        """Run one lane on a prompt and stream it; no greedy lane runs, so there is no speedup.

        Args:
            prompt: What the model is asked; the server's chat template is put around it.
            settings: Any settings by name, e.g. {"method": "dspark", "draft_length": 4}.
            pair: Name of the model pair, the server's first one where empty.
        """
        yield from self._answered(lambda: self._compared(prompt, [settings], pair))

    def sweep(
        self,
        prompts: list[str],
        settings: dict[str, Any],
        axes: dict[str, list[Any]],
        repeats: int = 1,
        pair: str = "",
    ) -> Iterator[dict[str, Any]]:
        """Race every combination of one or two settings' values beside greedy, on every prompt.

        Streams the table so far; at the end done is true and the best exact values are named.

        Args:
            prompts: What the model is asked, one race or more each.
            settings: What all cells share, by name.
            axes: One or two settings with the values to try, e.g. {"draft_length": [2, 4, 8]}.
            repeats: How often each race is run, 1 to 3.
            pair: Name of the model pair, the server's first one where empty.
        """
        yield from self._answered(lambda: self._swept(prompts, settings, axes, repeats, pair))

    def settings(self) -> dict[str, Any]:
        """Every setting with its range or choices and default, the model pairs, and the limits."""
        status = self._host.status()
        return {
            "knobs": [dataclasses.asdict(knob) for knob in KNOBS.values()],
            "choices": {name: list(values) for name, values in CHOICES.items()},
            "defaults": Settings().to_plain(),
            "presets": [dataclasses.asdict(preset) for preset in self._desk.presets],
            "pairs": [dataclasses.asdict(pair) for pair in self._host.pairs()],
            "limits": dataclasses.asdict(self._limits),
            "ready": status.ready,
            "message": say(status.message),
        }

    def _answered(self, work: Callable[[], Iterator[Answer]]) -> Iterator[Answer]:
        """`work`, its refusals as errors that reach the caller, anything else as one sentence."""
        try:
            yield from work()
        except (EntryError, SettingsError, RunRefusedError) as error:
            raise gr.Error(str(error), print_exception=False) from None
        except GeneratorExit:
            raise
        except Exception as error:
            raise gr.Error(_broken(error), print_exception=False) from None

    def plan_compare(
        self, prompt: Any, lanes: Any, pair: Any = ""
    ) -> tuple[str, list[Settings], list[str]]:
        """Prompt, settings and labels of a race, all checked."""
        text = checked_prompt(prompt, self._limits)
        if not isinstance(lanes, list) or not 1 <= len(lanes) <= most_lanes(self._limits):
            raise EntryError(say(LANES, limit=most_lanes(self._limits)))
        settings = [self._checked(lane) for lane in lanes]
        labels = [lane_label(place, lane, {}) for place, lane in enumerate(settings, 1)]
        self._ready(pair)
        return text, settings, labels

    def plan_decode(self, prompt: Any, settings: Any, pair: Any = "") -> Any:
        """The same for one lane."""
        return self.plan_compare(prompt, [settings], pair)

    def _compared(self, prompt: Any, lanes: Any, pair: Any) -> Iterator[Answer]:
        text, settings, labels = self.plan_compare(prompt, lanes, pair)
        race, told, reason, seconds = None, "", "stopped", self._limits.seconds_per_run
        again = ""
        with closing(self._host.race(text, settings, labels, pair)) as news:
            try:
                for item, due, over in paced(news, self._desk.clock, UPDATE_SECONDS, seconds):
                    if race is not None and isinstance(item, Race):
                        again = say(words.AGAIN)
                    race = _taken(race, item)
                    if over:
                        told = say(words.TIME_LIMIT, seconds=seconds)
                        break
                    if due:
                        yield {"done": False, "lanes": [so_far(lane) for lane in race.lanes]}
            except Exception as error:
                if race is None:
                    raise
                told, reason = _ending(error)
        if race is None:
            raise RunRefusedError(say(words.RUN_FAILED))
        if unfinished(race):
            race, _ = halted(race, reason)
        told = " ".join(filter(None, (again, told)))
        yield {"done": True, "message": told, "lanes": [result(race, lane) for lane in race.lanes]}

    def plan_sweep(
        self, prompts: Any, settings: Any, axes: Any, repeats: Any = 1, pair: Any = ""
    ) -> tuple[list[str], tuple[Cell, ...], tuple[str, ...]]:
        """Prompts and cells of a sweep, and why cells are left out, all checked."""
        if not isinstance(prompts, list) or not 1 <= len(prompts) <= self._limits.sweep_prompts:
            raise EntryError(say(SWEEP_PROMPTS, limit=self._limits.sweep_prompts))
        texts = [checked_prompt(prompt, self._limits) for prompt in prompts]
        grid, left_out = self._grid(settings, axes)
        if isinstance(repeats, bool) or repeats not in REPEATS:
            raise EntryError(say(SWEEP_REPEATS, limit=max(REPEATS)))
        self._ready(pair)
        return texts, grid, left_out

    def _swept(
        self, prompts: Any, settings: Any, axes: Any, repeats: Any, pair: Any
    ) -> Iterator[Answer]:
        texts, grid, left_out = self.plan_sweep(prompts, settings, axes, repeats, pair)
        state, told, seconds = None, "", self._limits.sweep_seconds
        with closing(self._host.sweep(texts, grid, int(repeats), pair)) as states:
            try:
                for state, due, over in paced(states, self._desk.clock, UPDATE_SECONDS, seconds):
                    if over:
                        told = say(words.TIME_LIMIT, seconds=seconds)
                        break
                    if due:
                        yield table(state, grid, done=False)
            except Exception as error:
                if state is None:
                    raise
                told, _ = _ending(error)
        yield table(state, grid, done=True) | {"message": told, "left_out": list(left_out)}

    def _grid(self, settings: Any, axes: Any) -> tuple[tuple[Cell, ...], tuple[str, ...]]:
        base = self._checked(settings)
        swept = SWEPT.get((base.method, base.rules), ())
        if not swept:
            raise EntryError(say(GREEDY_SWEPT))
        wrong = not isinstance(axes, Mapping) or not all(isinstance(v, list) for v in axes.values())
        if wrong or not set(axes) <= set(swept):
            raise EntryError(say(SWEEP_AXES, names=", ".join(swept)))
        plain = {name: [no_giant(value) for value in values] for name, values in axes.items()}
        grid, left_out = possible_cells(base, plain, self._limits.sweep_cells)
        if not grid:
            raise EntryError(left_out[0])
        for cell in grid:
            within_limits(cell.settings, self._limits)
        return grid, left_out

    def _checked(self, given: Any) -> Settings:
        if not isinstance(given, Mapping):
            raise EntryError(say(SETTINGS_KIND))
        plain = {str(name): no_giant(value) for name, value in given.items()}
        settings = Settings.from_plain(plain)
        if settings.server:
            find_server(self._desk.presets, {"preset": settings.server})
        within_limits(settings, self._limits)
        return settings

    def _ready(self, pair: Any) -> None:
        if refusal := not_now(self._host, pair):
            raise EntryError(refusal)


def build_api(desk: Desk) -> None:
    """Register the endpoints on the page that is being built."""
    endpoints = Endpoints(desk)
    for name, nothing in (("compare", "lanes"), ("decode", "lanes"), ("sweep", "cells")):
        runs, plan = getattr(endpoints, name), getattr(endpoints, f"plan_{name}")
        runs = taking_turns(desk.line, "calls", runs, in_answers(nothing), succeeds(plan))
        gr.api(runs, api_name=name, **RUNS)
    gr.api(endpoints.settings, api_name="settings", queue=False)


def _ending(error: Exception) -> tuple[str, StopReason]:
    """Why a run that has brought something ends there."""
    if isinstance(error, RunRefusedError):
        return str(error), "stopped"
    return _broken(error), "failed"


def _broken(error: Exception) -> str:
    """What the caller is told of a fault of ours: its kind, never its text."""
    LOG.exception("an endpoint failed")
    return say(memory_sentence(error) or words.RUN_FAILED)


def _taken(race: Race | None, item: Race | LaneEvent) -> Race:
    return item if isinstance(item, Race) or race is None else advance(race, item)
