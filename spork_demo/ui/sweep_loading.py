"""A picked cell becomes the second lane of the race, with the knobs it was measured with."""

from collections.abc import Mapping, Sequence
from typing import Any

import gradio as gr

from spork_demo.cells import Cell
from spork_demo.charts.sweep_words import cell_name
from spork_demo.host import PairInfo
from spork_demo.language import later, say
from spork_demo.spacefile import Preset
from spork_demo.ui import words
from spork_demo.ui.entry import SHARED_FIELDS
from spork_demo.ui.lane_picker import lane_choices
from spork_demo.ui.sweep_entry import SweepEntry, drafter_presets

LOADED = later(
    "Loaded into lane 2: {method} {rules}, {cell}. The other knobs are those of the sweep. Press "
    "Run to race it against greedy."
)
EVERYBODYS = ("temperature", "top_p", "top_k", "seed")
"""Sampling settings: a lane that had its own could not be compared with greedy."""

KEPT = ("max_new_tokens",)
"""What a sweep shortens to be quick is left as the race has it."""


def own_text(cell: Cell) -> str:
    """The swept knobs as the lane's own, so that another lane may hold another cell."""
    own = [
        f"{name}={_typed(value)}"
        for name, value in cell.values.items()
        if name in SHARED_FIELDS and name not in EVERYBODYS
    ]
    return " ".join(own)


def _typed(value: Any) -> str:
    """As a lane's own knobs are typed: no exponents."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.10f}".rstrip("0").rstrip(".")


def shared_values(cell: Cell) -> list[Any]:
    """For every knob of the race page what the sweep ran with, or nothing."""
    own = set(cell.values) - set(EVERYBODYS)
    return [
        gr.skip() if name in own or name in KEPT else getattr(cell.settings, name)
        for name in SHARED_FIELDS
    ]


def lane_values(
    entry: SweepEntry, cell: Cell, presets: Sequence[Preset], pairs: Sequence[PairInfo]
) -> list[Any]:
    """Method, asked rules, own knobs, then what `lane_choices` fills: rules, preset, note."""
    settings = cell.settings
    preset = entry.preset
    if "drafter" in cell.values:
        known = drafter_presets(presets, settings.method, settings.rules, settings.judge)
        preset = known[settings.drafter]
    choices = lane_choices(presets, pairs, settings.method, settings.rules, preset)
    return [settings.method, settings.rules, own_text(cell), *choices]


def prompt_value(entry: SweepEntry) -> Any:
    """The prompt of a sweep over one; of several, the race keeps its own."""
    return entry.prompts[0] if len(entry.prompts) == 1 else gr.skip()


def loaded_sentence(cell: Cell) -> str:
    names: Mapping[str, str] = words.METHOD_NAMES
    return say(
        LOADED,
        method=say(names[cell.settings.method]),
        rules=say(words.RULES_SHORT[cell.settings.rules]),
        cell=cell_name(cell),
    )
