"""The widgets a run reads: prompt, model pair, lanes and knobs, each filling one setting."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import gradio as gr
from gradio.components import Component

from spork_demo.language import say
from spork_demo.settings import CHOICES, KNOBS, Settings
from spork_demo.spacefile import Limits
from spork_demo.ui import words
from spork_demo.ui.entry import LANE_PARTS
from spork_demo.ui.lane_picker import LaneWidgets, unchecked

ESSENTIAL = ("fork_width", "fork_depth", "draft_length", "max_new_tokens", "temperature")
JUDGING = (
    "accept_threshold",
    "threshold_rule",
    "wanted_acceptance",
    "min_threshold",
    "max_threshold",
    "verifier_layers",
)
SHAPE = ("node_budget", "fork_shape", "policy", "fork_sampling", "ngram_order")
SCHEDULING = ("schedule", "confidence_threshold")
SAMPLING = ("top_p", "top_k", "seed")
GROUPS = {"judging": JUDGING, "shape": SHAPE, "scheduling": SCHEDULING, "sampling": SAMPLING}
TYPED = ("seed",)
"""Knobs that are typed: their range is too wide for a slider."""


@dataclass(frozen=True, slots=True)
class Controls:
    """Every widget a run reads."""

    prompt: gr.Textbox
    pair: gr.Dropdown
    count: gr.Radio
    lanes: tuple[LaneWidgets, ...]
    shared: Mapping[str, Component]

    def inputs(self) -> dict[str, Component]:
        """Parameter name to widget, as the `race` endpoint names them."""
        named: dict[str, Component] = {
            "prompt": self.prompt,
            "pair": self.pair,
            "lanes": self.count,
        }
        for place, lane in enumerate(self.lanes, 1):
            named |= {f"lane{place}_{part}": getattr(lane, part) for part in LANE_PARTS}
        return named | dict(self.shared)


def build_prompt(limits: Limits, opening: str) -> gr.Textbox:
    return gr.Textbox(
        opening if len(opening) <= limits.prompt_characters else "",
        label=say("Prompt"),
        placeholder=say("Write a prompt, or take an example below"),
        lines=2,
        max_lines=8,
        max_length=limits.prompt_characters,
        elem_id="prompt",
    )


def build_pair(names: Sequence[str]) -> gr.Dropdown:
    """Hidden until there is a choice between model pairs."""
    return unchecked(
        gr.Dropdown(
            list(names),
            value=names[0] if names else None,
            label=say("Model pair"),
            visible=len(names) > 1,
            elem_id="pair",
        )
    )


def build_knobs(limits: Limits) -> dict[str, Component]:
    """Sliders for every lane at once, the ones people move first on top."""
    shared: dict[str, Component] = {}
    with gr.Row():
        shared |= {name: _knob(name, limits) for name in ESSENTIAL}
    for group, names in GROUPS.items():
        title = say(words.KNOB_GROUPS[group])
        with gr.Accordion(title, open=False, elem_id=f"knobs-{group}"), gr.Row():
            shared |= {
                name: _choice(name) if name in CHOICES else _knob(name, limits) for name in names
            }
    return shared


def _knob(name: str, limits: Limits) -> Component:
    knob = KNOBS[name]
    common = {
        "label": say(words.KNOB_LABELS[name]),
        "info": _info(name),
        "value": knob.default,
        "step": knob.step,
        "elem_id": f"knob-{name}",
        "min_width": 180,
    }
    if name in TYPED:
        return unchecked(gr.Number(**common))
    highest = {"max_new_tokens": limits.new_tokens, "node_budget": limits.fork_nodes}
    high = min(knob.high, highest.get(name, knob.high))
    common["value"] = min(knob.default, high)
    return unchecked(gr.Slider(knob.low, high, interactive=True, **common))


def _info(name: str) -> str:
    meaning = say(KNOBS[name].meaning)
    return say(words.KNOB_INFO[name], meaning=meaning) if name in words.KNOB_INFO else meaning


def _choice(name: str) -> Component:
    return unchecked(
        gr.Radio(
            [(say(text), value) for value, text in words.CHOICE_NAMES[name].items()],
            value=getattr(Settings(), name),
            label=say(words.CHOICE_LABELS[name]),
            info=say(words.CHOICE_INFO[name]) if name in words.CHOICE_INFO else None,
            elem_id=f"knob-{name}",
            min_width=180,
        )
    )
