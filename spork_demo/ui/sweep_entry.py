"""From the widgets of the Explore tab to a sweep. Every refusal is one sentence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spork_demo.axes import SWEPT, axis_values, unread
from spork_demo.cells import Cell, possible_cells
from spork_demo.charts.sweep_words import short_name
from spork_demo.language import later, say
from spork_demo.settings import Settings, SettingsError
from spork_demo.spacefile import Limits, Preset
from spork_demo.ui import words
from spork_demo.ui.entry import (
    SHARED_FIELDS,
    EntryError,
    checked_prompt,
    lane_settings,
    no_giant,
    within_limits,
)

REPEATS = (1, 2, 3)
NO_KNOB = ""
"""The entry of the second menu that sweeps one setting only."""

GREEDY_SWEPT = later("Greedy is what a sweep compares with; choose another method.")
NO_SUCH_KNOB = later("Choose what to sweep from the menu: it lists what this method reads.")
SAME_KNOB = later("Choose two different settings, or only one.")
NO_PROMPTS = later("Write at least one prompt, one a line.")
TOO_MANY_PROMPTS = later(
    "There are {count} prompts; this page's limit for a sweep is {limit}. Leave some out."
)
WRONG_REPEATS = later("A sweep is run 1 to {limit} times.")
NOT_READ = later(
    "{name} changes nothing with this method, preset and these knobs, so a sweep of it would only "
    "show noise."
)
NO_DRAFTER = later("There is no preset with the drafter {name} for this method and these rules.")
NONE_POSSIBLE = later("None of these combinations can run: {reason}")


@dataclass(frozen=True, slots=True)
class SweepEntry:
    """A sweep as asked for. left_out: a sentence for every combination that contradicts itself."""

    prompts: tuple[str, ...]
    grid: tuple[Cell, ...]
    repeats: int = 1
    pair: str = ""
    preset: str = words.AUTOMATIC
    left_out: tuple[str, ...] = ()


def read_sweep(values: Mapping[str, Any], limits: Limits, presets: Sequence[Preset]) -> SweepEntry:
    """Check `values` (parameter name to widget value); EntryError or SettingsError if it cannot be.

    The knobs that are not swept are those of the race tab.
    """
    prompts = _prompts(values.get("prompts"), limits)
    knobs = {name: no_giant(values[name]) for name in SHARED_FIELDS if name in values}
    knobs["max_new_tokens"] = no_giant(values.get("new_tokens"))
    base = lane_settings(values, knobs, presets)
    axes = _axes(values, base, presets)
    grid, refusals = possible_cells(base, axes, limits.sweep_cells)
    if not grid:
        raise EntryError(say(NONE_POSSIBLE, reason=refusals[0]))
    for cell in grid:
        within_limits(cell.settings, limits)
    for name in axes:
        if all(unread(cell.settings, name) for cell in grid):
            raise EntryError(say(NOT_READ, name=short_name(name)))
    repeats = values.get("repeats")
    if repeats not in REPEATS or isinstance(repeats, bool):
        raise EntryError(say(WRONG_REPEATS, limit=max(REPEATS)))
    pair = values.get("pair") or ""
    if not isinstance(pair, str):
        raise EntryError(say(words.UNKNOWN_PAIR))
    preset = values.get("preset") or words.AUTOMATIC
    return SweepEntry(prompts, grid, int(repeats), pair, preset, refusals)


def drafter_presets(
    presets: Sequence[Preset], method: str, rules: str, judge: str = "auto"
) -> dict[str, str]:
    """Drafters a sweep may try, each with the preset that loads it into the race."""
    fitting = {
        preset.drafter: preset.name
        for preset in reversed(presets)
        if (preset.method, preset.rules) == (method, rules) and judge in ("auto", preset.judge)
    }
    return {"auto": words.AUTOMATIC, **fitting} if judge == "auto" else fitting


def _axes(
    values: Mapping[str, Any], base: Settings, presets: Sequence[Preset]
) -> dict[str, list[Any]]:
    names = [values.get("knob1"), values.get("knob2") or NO_KNOB]
    if names[0] == names[1]:
        raise EntryError(say(SAME_KNOB if names[0] else NO_SUCH_KNOB))
    axes: dict[str, list[Any]] = {}
    for place, name in enumerate(names, 1):
        if place == 2 and name == NO_KNOB:
            continue
        if name not in SWEPT.get((base.method, base.rules), ()):
            raise EntryError(say(GREEDY_SWEPT if base.method == "greedy" else NO_SUCH_KNOB))
        axes[name] = axis_values(name, values.get(f"values{place}"))
    known = drafter_presets(presets, base.method, base.rules, base.judge)
    for drafter in axes.get("drafter", ()):
        if drafter not in known:
            raise SettingsError(say(NO_DRAFTER, name=drafter))
    return axes


def _prompts(text: Any, limits: Limits) -> tuple[str, ...]:
    if not isinstance(text, str):
        raise EntryError(say(NO_PROMPTS))
    found = [line.strip() for line in text.splitlines() if line.strip()]
    if not found:
        raise EntryError(say(NO_PROMPTS))
    if len(found) > limits.sweep_prompts:
        raise EntryError(say(TOO_MANY_PROMPTS, count=len(found), limit=limits.sweep_prompts))
    return tuple(checked_prompt(line, limits) for line in found)
