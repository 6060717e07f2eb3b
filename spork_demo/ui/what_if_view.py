"""The sliders that ask what a round would have come to, and the answer beside them."""

import math
from dataclasses import dataclass
from typing import Any

import gradio as gr

from spork_demo.language import later, say
from spork_demo.settings import KNOBS
from spork_demo.trace import Race, Round, Token, Trace
from spork_demo.ui.ending import with_ends_named
from spork_demo.ui.judge_view import judge_payload
from spork_demo.ui.notices import headed
from spork_demo.ui.round_text import committed_marks, text_value, text_view
from spork_demo.ui.what_if_story import length_story, score_story, thresholds_story
from spork_demo.what_if import (
    Supposed,
    fallen,
    question,
    supposed_round,
    with_length,
    with_score_limit,
    with_thresholds,
)

TITLE = later("What if?")
CROSSED = later("The threshold of a certain draft must not be above that of an unsure one.")
ASK = later("Move a slider and see what this round would have come to, by its recorded numbers.")


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The panel's widgets, in the order of `outputs`."""

    panel: gr.Column
    limit: gr.Slider
    low: gr.Slider
    high: gr.Slider
    length: gr.Slider
    answer: gr.HTML

    @property
    def sliders(self) -> list[gr.Slider]:
        return [self.limit, self.low, self.high, self.length]

    @property
    def outputs(self) -> list[gr.blocks.Block]:
        return [self.panel, *self.sliders, self.answer]


def build_what_if() -> WhatIf:
    """The panel, hidden until a round asks a question."""
    with gr.Column(visible=False, min_width=320, elem_id="inside-what-if") as panel:
        gr.HTML(headed(say(TITLE), say(ASK)), padding=False)
        limit = _slider("accept_threshold", "inside-limit", say("τ · a fork needs"))
        low = _slider("min_threshold", "inside-low", say("min · a certain draft needs more than"))
        high = _slider("max_threshold", "inside-high", say("max · an unsure draft needs more than"))
        length = gr.Slider(
            0, 1, 0, step=1, label=say("drafts sent"), visible=False, interactive=True,
            elem_id="inside-length",
        )  # fmt: skip
        answer = text_view(elem_id="inside-answer", padding=False)
    return WhatIf(panel, limit, low, high, length, answer)


def _slider(knob: str, elem_id: str, label: str) -> gr.Slider:
    found = KNOBS[knob]
    return gr.Slider(
        found.low, found.high, found.default, step=found.step, label=label, visible=False,
        interactive=True, elem_id=elem_id,
    )  # fmt: skip


def asked(trace: Trace, place: int) -> tuple[Any, ...]:
    """Values of the panel's outputs for a round: its question at the recorded numbers."""
    kind, round_ = question(trace, place), trace.rounds[place]
    if kind is None:
        return hidden()
    settings = trace.settings
    updates = [gr.update(visible=False)] * 4
    if kind == "score":
        updates[0] = gr.update(visible=True, value=round_.accept_threshold)
    elif kind == "thresholds":
        updates[1] = gr.update(visible=True, value=settings.min_threshold)
        updates[2] = gr.update(visible=True, value=settings.max_threshold)
    else:
        most = len(round_.nodes)
        updates[3] = gr.update(visible=True, maximum=most, value=round_.scheduled)
    return gr.update(visible=True), *updates, None


def hidden() -> tuple[Any, ...]:
    """Values of the panel's outputs where there is nothing to ask."""
    return gr.update(visible=False), *[gr.update(visible=False)] * 4, None


def answered(
    race: Race | None, at: tuple[int, int], limit: Any, low: Any, high: Any, length: Any
) -> tuple[Any, Any]:
    """The answer, and the judge's chart as it would have been, for the sliders as they stand."""
    trace, place = _found(race, at)
    kind = question(trace, place) if trace else None
    if kind is None:
        return None, None
    round_ = trace.rounds[place]
    if kind == "length":
        sent = _whole(length, round_.scheduled, len(round_.nodes))
        told = with_length(trace, place, sent)
        title = say("With {count} of {most} drafts sent", count=sent, most=len(round_.nodes))
        return _answer(title, length_story(trace, place, sent), round_, told), None
    if kind == "score":
        tau = _share(limit, round_.accept_threshold)
        told = with_score_limit(trace, place, tau)
        title = say("With τ {limit}", limit=f"{tau:.2f}")
        drawn = supposed_round(round_, told, accept_threshold=tau)
        return _answer(title, score_story(trace, place, tau), round_, told), _chart(trace, drawn)
    least = _share(low, trace.settings.min_threshold)
    most = _share(high, trace.settings.max_threshold)
    title = say("With min {low} and max {high}", low=f"{least:.2f}", high=f"{most:.2f}")
    if least > most:
        return text_value(title, say(CROSSED)), gr.skip()
    told = with_thresholds(trace, place, least, most)
    limits = tuple(fallen(node.confidence or 0.0, least, most) for node in round_.nodes)
    drawn = supposed_round(round_, told, thresholds=limits)
    return (
        _answer(title, thresholds_story(trace, place, least, most), round_, told),
        _chart(trace, drawn),
    )


def _found(race: Race | None, at: tuple[int, int]) -> tuple[Trace | None, int]:
    if race is None or not race.lanes:
        return None, 0
    trace = with_ends_named(race).lanes[min(max(0, at[0]), len(race.lanes) - 1)]
    if not trace.rounds:
        return None, 0
    return trace, min(max(0, at[1]), len(trace.rounds) - 1)


def _answer(title: str, story: str, round_: Round, told: Supposed) -> str:
    kept = tuple(
        Token(node.token, node.text, "accepted") for node in (round_.nodes[n] for n in told.kept)
    )
    own = () if told.own is None else (told.own,)
    return text_value(title, story, committed_marks((*kept, *own)))


def _chart(trace: Trace, round_: Round) -> str | None:
    return judge_payload(trace, round_)


def _share(value: Any, otherwise: float | None) -> float:
    """A number between 0 and 1; an emptied or absurd box counts as `otherwise`."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        value = otherwise
    return min(1.0, max(0.0, value or 0.0))


def _whole(value: Any, otherwise: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        value = otherwise
    return int(min(most, max(0, value)))
