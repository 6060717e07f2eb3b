"""What the menus of the Explore tab offer for a method, its rules and the model pair."""

from collections.abc import Sequence
from typing import Any

import gradio as gr

from spork_demo.axes import SWEPT, USUAL
from spork_demo.charts.sweep_words import CHOICE_NAMES
from spork_demo.host import PairInfo
from spork_demo.language import later, say
from spork_demo.settings import KNOBS, METHODS, RULES
from spork_demo.spacefile import Preset
from spork_demo.ui import words
from spork_demo.ui.entry import offered
from spork_demo.ui.lane_picker import lane_choices, possible_rules
from spork_demo.ui.sweep_entry import NO_KNOB, drafter_presets

NOTHING_ELSE = later("nothing else")


def pick_values(
    presets: Sequence[Preset],
    pairs: Sequence[PairInfo],
    method: Any,
    rules: Any,
    preset: Any,
    knob1: Any,
    knob2: Any,
) -> list[Any]:
    """Rules, preset and note, then both menus of settings and their values.

    What is still on offer stays as it is.
    """
    if method not in METHODS or rules not in RULES:
        return [gr.skip()] * 7
    choices = lane_choices(presets, pairs, method, rules, preset)
    rules = possible_rules(pairs, method, rules)
    names = SWEPT.get((method, rules), ())
    if not names:
        return [gr.skip()] * 7
    second = knob2 if knob2 in (NO_KNOB, *names) else NO_KNOB
    first = knob1 if knob1 in names else next(name for name in names if name != second)
    updates = []
    for name, before, menu in (
        (first, knob1, menu_of(names)),
        (second, knob2, [(say(NOTHING_ELSE), NO_KNOB), *menu_of(names)]),
    ):
        same = name == before
        updates.append(gr.update(choices=menu, value=name))
        updates.append(
            gr.skip() if same else usual_values(offered(presets, pairs), method, rules, name)
        )
    return [*choices, *updates]


def menu_of(names: Sequence[str]) -> list[tuple[str, str]]:
    """Labels and names of settings, as a menu takes them."""
    return [(setting_label(name), name) for name in names]


def setting_label(name: str) -> str:
    return say(words.KNOB_LABELS[name] if name in KNOBS else CHOICE_NAMES[name])


def usual_values(presets: Sequence[Preset], method: Any, rules: Any, name: Any) -> Any:
    """Values of a setting to start from, in its box, which hides where nothing is swept."""
    if name == NO_KNOB or not isinstance(name, str):
        return gr.update(value="", visible=False)
    text = USUAL.get(name, "")
    if name == "drafter":
        text = ", ".join(drafter for drafter in drafter_presets(presets, method, rules)
                         if drafter != "auto")  # fmt: skip
    return gr.update(value=text, visible=True)
