"""The widgets of the race tab: prompt, lanes and knobs, each filling exactly one setting.

Server-side checks of sliders, menus and numbers are switched off: they answer null or text with a
bare "Error". `entry` checks every value again and answers with a sentence.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr
from gradio.components import Component

from spork_demo.host import PairInfo
from spork_demo.settings import CHOICES, KNOBS, METHODS, Settings
from spork_demo.spacefile import Limits, Preset
from spork_demo.ui import words
from spork_demo.ui.entry import FEWEST_LANES, LANE_PARTS, most_lanes, offered, presets_for

ESSENTIAL = ("fork_width", "fork_depth", "draft_length", "max_new_tokens", "temperature")
JUDGING = ("accept_threshold", "min_threshold", "max_threshold", "verifier_layers")
SHAPE = ("node_budget", "fork_shape", "fork_sampling", "ngram_order")
SAMPLING = ("top_p", "top_k", "seed")
TYPED = ("seed",)
"""Knobs that are typed: their range is too wide for a slider."""

DEFAULT_LANES = (
    ("greedy", "exact"),
    ("spork", "exact"),
    ("dspark", "article"),
    ("speculative", "exact"),
)
DEFAULT_COUNT = 3

Pairs = Callable[[], Sequence[PairInfo]]
"""Asks which pairs can run by now; empty until one is loaded."""


@dataclass(frozen=True, slots=True)
class LaneWidgets:
    """The pickers of one lane and the box that hides with them."""

    box: gr.Column
    method: gr.Dropdown
    rules: gr.Radio
    preset: gr.Dropdown
    own: gr.Textbox
    note: gr.Markdown


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
        label="Prompt",
        placeholder="Write a prompt, or take an example below",
        lines=2,
        max_lines=8,
        max_length=limits.prompt_characters,
        elem_id="prompt",
    )


def build_pair(names: Sequence[str]) -> gr.Dropdown:
    """Hidden until there is a choice between model pairs."""
    return _unchecked(
        gr.Dropdown(
            list(names),
            value=names[0] if names else None,
            label="Model pair",
            visible=len(names) > 1,
            elem_id="pair",
        )
    )


def build_lanes(
    limits: Limits, presets: Sequence[Preset], pairs: Pairs
) -> tuple[gr.Radio, tuple[LaneWidgets, ...]]:
    """The lane count and four columns of pickers, of which the first so many show."""
    most = most_lanes(limits)
    shown = min(DEFAULT_COUNT, most)
    count = _unchecked(
        gr.Radio(
            list(range(FEWEST_LANES, most + 1)),
            value=shown,
            label="Lanes",
            info="how many methods race",
            elem_id="lane-count",
        )
    )
    with gr.Row(elem_id="lane-pickers"):
        lanes = tuple(_lane(place, place <= shown, presets, pairs) for place in range(1, most + 1))
    count.change(
        lambda n: [gr.update(visible=place <= (n or 0)) for place in range(1, most + 1)],
        count,
        [lane.box for lane in lanes],
        queue=False,
        show_progress="hidden",
        api_name="show_lanes",
        api_visibility="private",
    )
    return count, lanes


def _lane(place: int, visible: bool, presets: Sequence[Preset], pairs: Pairs) -> LaneWidgets:
    method, rules = DEFAULT_LANES[place - 1]
    with gr.Column(visible=visible, min_width=220, elem_classes=["lane-picker"]) as box:
        method_menu = gr.Dropdown(
            [(words.METHOD_NAMES[name], name) for name in METHODS],
            value=method,
            label=f"Lane {place}: method",
            elem_id=f"lane{place}-method",
        )
        rules_radio = gr.Radio(
            [(text, name) for name, text in words.RULES_CHOICES.items()],
            value=rules,
            label="Rules",
            visible=method != "greedy",
            elem_id=f"lane{place}-rules",
        )
        preset_menu = gr.Dropdown(
            list(presets_for(offered(presets, pairs()), method, rules)),
            value=words.AUTOMATIC,
            label="Preset",
            info="who drafts and who judges",
            visible=method != "greedy",
            elem_id=f"lane{place}-preset",
        )
        opening = words.DSPARK_NOTE if method == "dspark" else lane_note(method, rules)
        note = gr.Markdown(opening, elem_classes=["lane-note"])
        with gr.Accordion("Own knobs for this lane", open=False):
            own = gr.Textbox(
                "",
                label="Own knobs",
                placeholder="fork_width=8 draft_length=2",
                info="overrides the knobs below, for this lane only",
                max_lines=1,
                elem_id=f"lane{place}-own",
            )
    for widget in (method_menu, rules_radio, preset_menu):
        _unchecked(widget)
    gr.on(
        [method_menu.input, rules_radio.input],
        lambda m, r, p: lane_choices(presets, pairs(), m, r, p),
        [method_menu, rules_radio, preset_menu],
        [rules_radio, preset_menu, note],
        queue=False,
        show_progress="hidden",
        api_name=f"lane{place}_choices",
        api_visibility="private",
    )
    return LaneWidgets(box, method_menu, rules_radio, preset_menu, own, note)


def lane_choices(
    presets: Sequence[Preset], pairs: Sequence[PairInfo], method: str, rules: str, preset: str
) -> list[Any]:
    """What a lane's rules, presets and note become once its method or rules changed."""
    no_drafter = not any(pair.has_dspark for pair in pairs)
    asked_exact_dspark = method == "dspark" and rules == "exact" and no_drafter
    if asked_exact_dspark:
        rules = "article"
    names = presets_for(offered(presets, pairs), method, rules)
    picking = method != "greedy"
    return [
        gr.update(value=rules, visible=picking),
        gr.update(
            choices=list(names),
            value=preset if preset in names else words.AUTOMATIC,
            visible=picking,
        ),
        words.DSPARK_NOTE if asked_exact_dspark else lane_note(method, rules),
    ]


def lane_note(method: str, rules: str) -> str:
    if method == "greedy":
        return words.GREEDY_NOTE
    return words.EXACT_NOTE if rules == "exact" else words.ARTICLE_NOTE


def build_knobs(limits: Limits) -> dict[str, Component]:
    """Sliders for every lane at once, the ones people move first on top."""
    shared: dict[str, Component] = {}
    with gr.Row():
        shared |= {name: _knob(name, limits) for name in ESSENTIAL}
    for title, names in (
        ("Judging: thresholds and layers", JUDGING),
        ("Shape of the forks", SHAPE),
        ("Sampling", SAMPLING),
    ):
        with gr.Accordion(title, open=False), gr.Row():
            shared |= {
                name: _choice(name) if name in CHOICES else _knob(name, limits) for name in names
            }
    return shared


def _knob(name: str, limits: Limits) -> Component:
    knob = KNOBS[name]
    common = {
        "label": words.KNOB_LABELS[name],
        "info": knob.meaning,
        "value": knob.default,
        "step": knob.step,
        "elem_id": f"knob-{name}",
        "min_width": 180,
    }
    if name in TYPED:
        return _unchecked(gr.Number(**common))
    highest = {"max_new_tokens": limits.new_tokens, "node_budget": limits.fork_nodes}
    high = min(knob.high, highest.get(name, knob.high))
    common["value"] = min(knob.default, high)
    return _unchecked(gr.Slider(knob.low, high, interactive=True, **common))


def _choice(name: str) -> Component:
    return _unchecked(
        gr.Radio(
            [(text, value) for value, text in words.CHOICE_NAMES[name].items()],
            value=getattr(Settings(), name),
            label=words.CHOICE_LABELS[name],
            elem_id=f"knob-{name}",
            min_width=180,
        )
    )


def _unchecked(widget: Any) -> Any:
    """Hand the handler whatever was sent, so that it can refuse with a sentence."""
    widget.preprocess = lambda payload: payload
    return widget
