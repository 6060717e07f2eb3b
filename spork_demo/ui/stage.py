"""The stage: a race for a projector, a screen at a time, drawn by assets/stage.js.

Everything a talk needs is computed here, in the language of the moment, so that the stage runs
with no model and no network. Numbers come from the same functions as the page's own.
"""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr

from spork_demo.charts.figure import lane_name, token_label
from spork_demo.charts.fork_tree import fork_tree_alt
from spork_demo.charts.palette import FATES, fate_name
from spork_demo.charts.tree_layout import lay_out
from spork_demo.charts.tree_words import added, small_numbers
from spork_demo.language import later, say
from spork_demo.metrics import measure, speedups
from spork_demo.trace import Race, Round, Trace
from spork_demo.ui import summary
from spork_demo.ui.ending import with_ends_named
from spork_demo.ui.events import LIGHT
from spork_demo.ui.explain import verdict
from spork_demo.ui.handlers import shown_title
from spork_demo.ui.round_text import committed_marks
from spork_demo.ui.sharing import Restored
from spork_demo.ui.token_view import race_lines
from spork_demo.ui.tree_view import anchor_text

ASSETS = Path(__file__).resolve().parents[2] / "assets"
STYLE = ASSETS / "stage.css"
LABEL_CELLS = 12

WORDS = {
    "recorded": later("recorded"),
    "live": later("live"),
    "prompt": later("Prompt"),
    "speed": later("Tokens a second"),
    "round": later("Round {number} of {count}"),
    "cost": later("What it cost in fidelity"),
    "rate": later("{rate} tokens/s"),
    "more": later("and {count} more forks"),
    "keys": later(
        "→ and ← go on and back, ↓ and ↑ to another lane, Space plays, Home and End, Esc leaves"
    ),
    "touch": later("Tap on the right to go on, on the left to go back, in the middle to play"),
    "start": later("Space plays it"),
    "tap": later("Tap in the middle to play it"),
    "race": later("The race, at its true relative speed"),
    "place": later("Screen {number} of {count}"),
    "stage": later("Stage"),
    "leave": later("Leave the stage"),
    "nothing": later("There is no race to show yet."),
}


@dataclass(frozen=True, slots=True)
class StageParts:
    """The button, and what carries a race to the stage; nothing of that shows on the page."""

    button: gr.Button
    data: gr.HTML


def build_stage() -> StageParts:
    button = gr.Button(say(WORDS["stage"]), size="sm", min_width=90, elem_id="stage-open")
    opens = "if (props.value) window.sporkStage.open(JSON.parse(props.value));"
    data = gr.HTML(
        html_template="<div></div>",
        js_on_load=f"const show = () => {{ {opens} }}; show(); watch('value', show);",
        elem_id="stage-data",
        padding=False,
    )
    return StageParts(button, data)


def wire_stage(parts: StageParts, race: gr.State, restored: Restored) -> None:
    """Open the stage by its button, and where a link asks for it."""

    def opened(current: Race | None) -> str:
        return stage_value(current, time.monotonic_ns())

    def asked(current: Race | None, at: dict[str, Any] | None) -> Any:
        return opened(current) if at and at.get("stage") else gr.skip()

    # the stage asks again as a race ends: also while the answer before is still on its way
    asking = {"api_name": "stage", "trigger_mode": "always_last", **LIGHT}
    parts.button.click(opened, race, parts.data, **asking)
    inputs = [race, restored.place]
    restored.settled.then(asked, inputs, parts.data, api_name="stage_on_load", **LIGHT)


def stage_head() -> str:
    """Script and style as inline tags. The style is not one of launch()'s: Gradio lets media rules
    of those hold only inside its own column, and the stage lies outside it.
    """
    script, style = (ASSETS / "stage.js").read_text("utf-8"), STYLE.read_text("utf-8")
    return f"<script>\n{script}\n</script>\n<style>\n{style}</style>"


def stage_value(race: Race | None, opened: int = 0) -> str:
    """The whole talk as JSON. opened: any number not used before, so that the same race is news."""
    value: dict[str, Any] = {"words": stage_words(), "fates": _fates(), "opened": opened}
    if race is not None and race.lanes:
        value |= _talk(with_ends_named(race)) | {"lines": race_lines(race)}
    return json.dumps(value, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")


def stage_words() -> dict[str, str]:
    return {name: say(text) for name, text in WORDS.items()}


def _fates() -> dict[str, dict[str, str]]:
    return {
        name: {"glyph": look.glyph, "dash": look.dash, "name": fate_name(name)}
        for name, look in FATES.items()
    }


def _talk(race: Race) -> dict[str, Any]:
    strips = summary.strips(race)
    ratios = speedups(race)
    rows = zip(race.lanes, strips, ratios, strict=True)
    return {
        "recorded": race.recorded,
        "title": shown_title(race) if race.title else "",
        "prompt": race.lanes[0].prompt,
        "origin": summary.origin(race),
        "lanes": [_lane(place, *row, race.baseline) for place, row in enumerate(rows, 1)],
    }


def _lane(
    place: int, lane: Trace, strip: dict[str, Any], ratio: float | None, baseline: Trace | None
) -> dict[str, Any]:
    rate = measure(lane).tokens_per_second
    head = summary.lane_head(place, lane)
    fidelity = [cell for cell in strip["cells"] if cell in summary.fidelity_cells(lane, baseline)]
    return {
        "name": head["name"],
        "label": lane_name(lane),
        "rules": head["rules"],
        "exact": head["exact"],
        "who": head["who"],
        "rate": rate or 0.0,
        "rate_text": say(WORDS["rate"], rate=f"{rate:.1f}") if rate else summary.DASH,
        "ratio": "" if ratio is None or lane is baseline else f"{ratio:.2f}×",
        "badge": strip["badge"],
        "verdict": strip["verdict"],
        "note": strip["note"],
        "fidelity": fidelity,
        "rounds": [_round(lane, index, baseline) for index in range(len(lane.rounds))],
    }


def _round(lane: Trace, index: int, baseline: Trace | None) -> dict[str, Any]:
    round_ = lane.rounds[index]
    return {
        "marks": committed_marks(round_.committed),
        "verdict": verdict(lane, index, baseline),
        "tree": stage_tree(round_, anchor_text(lane, index)),
    }


def stage_tree(round_: Round, anchor: str) -> dict[str, Any]:
    """A fork tree in words, and its places: x, line, half width, label, fate, parent's place,
    numbers below.
    """
    tree = lay_out(
        round_,
        token_label(0, anchor, LABEL_CELLS) if anchor else say("prompt"),
        [token_label(node.token, node.text, LABEL_CELLS) for node in round_.nodes],
        [token_label(token.token, token.text, LABEL_CELLS) for token in added(round_)],
    )
    at = {place.index: number for number, place in enumerate(tree.places)}
    places = [
        [
            round(place.x),
            place.y,
            round(place.half),
            place.label,
            place.fate,
            -1 if place.parent is None else at[place.parent],
            small_numbers(round_, place).replace("&lt;", "<"),
        ]
        for place in tree.places
    ]
    told = fork_tree_alt(round_, anchor)
    return {"width": round(tree.width), "rows": tree.rows, "places": places, "told": told}
