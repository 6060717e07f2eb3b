"""The pickers of each lane: method, rules, preset and knobs of its own.

What a lane may choose depends on the model pair, and no pair is known while it loads. So the rules
a lane asks for are kept apart from those its picker shows, and the picker catches up later.

Server-side checks of sliders, menus and numbers are switched off: they answer null or text with a
bare "Error". `entry` checks every value again and answers with a sentence.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from spork_demo.host import PairInfo
from spork_demo.language import known, say
from spork_demo.settings import METHODS, RULES, SERVED
from spork_demo.spacefile import Limits, Preset
from spork_demo.ui import words
from spork_demo.ui.entry import FEWEST_LANES, most_lanes, offered, presets_for

DEFAULT_LANES = (
    ("greedy", "exact"),
    ("spork", "exact"),
    ("dspark", "exact"),
    ("speculative", "exact"),
)
DEFAULT_COUNT = 3
QUICK: dict[str, Any] = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}


@dataclass(frozen=True, slots=True)
class LaneWidgets:
    """The pickers of one lane and the box that hides with them.

    asked: the rules the visitor wants, which `rules` shows where the pair can serve them.
    """

    box: gr.Column
    method: gr.Dropdown
    rules: gr.Radio
    preset: gr.Dropdown
    own: gr.Textbox
    note: gr.Markdown
    asked: gr.State

    @property
    def picks(self) -> list[Any]:
        """What `lane_choices` reads."""
        return [self.method, self.asked, self.preset]

    @property
    def choices(self) -> list[Any]:
        """What `lane_choices` fills."""
        return [self.rules, self.preset, self.note]


Serving = Callable[[Any], Sequence[PairInfo]]
"""From the name in the pair menu to the pair that will run; empty until one is loaded."""


def serving(pairs: Sequence[PairInfo], name: Any = None) -> tuple[PairInfo, ...]:
    """The pair called `name` on its own, the first one where there is none of that name."""
    return tuple(pair for pair in pairs if pair.name == name) or tuple(pairs[:1])


def build_lanes(
    limits: Limits, presets: Sequence[Preset], serves: Serving, pair: gr.Dropdown
) -> tuple[gr.Radio, tuple[LaneWidgets, ...]]:
    """The lane count and four columns of pickers, of which the first so many show."""
    most = most_lanes(limits)
    shown = min(DEFAULT_COUNT, most)
    count = unchecked(
        gr.Radio(
            list(range(FEWEST_LANES, most + 1)),
            value=shown,
            label=say("Lanes"),
            info=say("how many methods race"),
            elem_id="lane-count",
        )
    )
    with gr.Row(elem_id="lane-pickers"):
        lanes = tuple(
            _lane(place, place <= shown, presets, serves(None)) for place in range(1, most + 1)
        )
    for place, lane in enumerate(lanes, 1):
        _wire_lane(place, lane, presets, serves, pair)
    count.change(
        lambda n: [gr.update(visible=place <= shown_lanes(n)) for place in range(1, most + 1)],
        count,
        [lane.box for lane in lanes],
        api_name="show_lanes",
        **QUICK,
    )
    return count, lanes


def shown_lanes(count: Any) -> int:
    """How many lanes show their pickers for what the count's widget sent."""
    return count if isinstance(count, int) else 0


def _lane(
    place: int, visible: bool, presets: Sequence[Preset], pairs: Sequence[PairInfo]
) -> LaneWidgets:
    method, asked = DEFAULT_LANES[place - 1]
    methods = (*METHODS, *([SERVED] if presets_for(presets, SERVED, "exact") else []))
    rules = possible_rules(pairs, method, asked)
    with gr.Column(visible=visible, min_width=220, elem_classes=["lane-picker"]) as box:
        method_menu = gr.Dropdown(
            [(say(words.METHOD_NAMES[name]), name) for name in methods],
            value=method,
            label=say("Lane {place}: method", place=place),
            elem_id=f"lane{place}-method",
        )
        rules_radio = gr.Radio(
            [(say(text), name) for name, text in words.RULES_CHOICES.items()],
            value=rules,
            label=say("Rules"),
            visible=method != "greedy",
            elem_id=f"lane{place}-rules",
        )
        preset_menu = gr.Dropdown(
            preset_choices(presets_for(offered(presets, pairs), method, rules)),
            value=words.AUTOMATIC,
            label=say("Preset"),
            info=say(words.PRESET_INFO),
            visible=method != "greedy",
            elem_id=f"lane{place}-preset",
        )
        note = gr.Markdown(lane_note(method, rules, asked), elem_classes=["lane-note"])
        with gr.Accordion(say("Own knobs for this lane"), open=False):
            own = gr.Textbox(
                "",
                label=say("Own knobs"),
                placeholder="fork_width=8 draft_length=2",
                info=say("overrides the knobs below, for this lane only"),
                max_lines=1,
                elem_id=f"lane{place}-own",
            )
    for widget in (method_menu, rules_radio, preset_menu):
        unchecked(widget)
    return LaneWidgets(box, method_menu, rules_radio, preset_menu, own, note, gr.State(asked))


def _wire_lane(
    place: int, lane: LaneWidgets, presets: Sequence[Preset], serves: Serving, pair: gr.Dropdown
) -> None:
    def choices(method: Any, asked: Any, preset: Any, name: Any) -> list[Any]:
        return lane_choices(presets, serves(name), method, asked, preset)

    lane.method.input(
        choices, [*lane.picks, pair], lane.choices, api_name=f"lane{place}_method", **QUICK
    )
    lane.rules.input(
        lambda method, rules, preset, name: [
            known_rules(rules),
            *choices(method, rules, preset, name),
        ],
        [lane.method, lane.rules, lane.preset, pair],
        [lane.asked, *lane.choices],
        api_name=f"lane{place}_rules",
        **QUICK,
    )
    # A preset belongs to the rules it was chosen under, so choosing one is asking for them.
    lane.preset.input(known_rules, lane.rules, lane.asked, api_name=f"lane{place}_preset", **QUICK)


def lane_choices(
    presets: Sequence[Preset], pairs: Sequence[PairInfo], method: str, asked: str, preset: str
) -> list[Any]:
    """Rules, presets and note of a lane that asks for a method and rules on one of `pairs`; a
    fresh lane's where it asks for what there is not.
    """
    method = method if method in (*METHODS, SERVED) else METHODS[0]
    asked = known_rules(asked)
    rules = possible_rules(pairs, method, asked)
    names = presets_for(offered(presets, pairs), method, rules)
    picking = method != "greedy"
    return [
        gr.update(value=rules, visible=picking and method != SERVED),
        gr.update(
            choices=preset_choices(names),
            value=preset if preset in names else next(iter(names), None),
            visible=picking,
            label=say("Server") if method == SERVED else say("Preset"),
            info=say(words.SERVER_INFO) if method == SERVED else say(words.PRESET_INFO),
        ),
        lane_note(method, rules, asked),
    ]


def preset_choices(names: Sequence[str]) -> list[tuple[str, str]]:
    """Preset names as a menu shows them, with what it sends; the deployment's own stay as "
    "written."""
    return [(known(name), name) for name in names]


def known_rules(asked: Any) -> str:
    """The rules asked for, the first ones where they are none."""
    return asked if asked in RULES else RULES[0]


def possible_rules(pairs: Sequence[PairInfo], method: str, asked: str) -> str:
    """The rules asked for, or the article's where exact DSpark has no drafter."""
    lacking = method == "dspark" and not any(pair.has_dspark for pair in pairs)
    return "article" if lacking and asked == "exact" else asked


def lane_note(method: str, rules: str, asked: str) -> str:
    """One or two sentences on what the lane's output is worth."""
    if method == "greedy":
        return say(words.GREEDY_NOTE)
    if method == SERVED:
        return say(words.SERVED_NOTE)
    if rules != asked:
        return say(words.DSPARK_NOTE)
    return say(words.EXACT_NOTE) if rules == "exact" else say(words.ARTICLE_NOTE)


def unchecked(widget: Any) -> Any:
    """Hand the handler whatever was sent, so that it can refuse with a sentence."""
    widget.preprocess = lambda payload: payload
    return widget
