"""The parts of the lesson one can turn: costs of this machine, break-even, rules, hindsight."""

from dataclasses import dataclass
from typing import Any

import gradio as gr

from spork_demo.language import later, say
from spork_demo.lesson.break_even import speedups
from spork_demo.lesson.costs import Curve
from spork_demo.line import Line
from spork_demo.ui.events import LIGHT, RUNS
from spork_demo.ui.learn_odds import bias_values, hindsight_values, run_rules
from spork_demo.ui.learn_values import (
    Numbers,
    bounded,
    cost_values,
    drafter_choices,
    gain_values,
    origin,
    told,
)
from spork_demo.ui.learn_words import DRAFTER_CHOICES, PRESETS
from spork_demo.ui.plotly_view import plotly_view
from spork_demo.ui.site import Site
from spork_demo.ui.turns import Told, busy_sentence, taking_turns, waiting_sentence

LAST: dict[str, Any] = {"trigger_mode": "always_last", **LIGHT}
"""A slider that is dragged: only its last place needs an answer."""

ACCEPTANCE, DRAFTS = 0.7, 4
LOOK_AGAIN_SECONDS = 2.0
IN_SENTENCE = Told(
    lambda ahead: (gr.skip(), told(waiting_sentence(ahead)), gr.skip()),
    lambda full: (gr.skip(), told(busy_sentence(full)), gr.skip()),
)
RUN_RULES = later("Run both rules 4000 times")


def sentence(value: str = "") -> gr.HTML:
    return gr.HTML(value, elem_classes=["learn-sentence"], apply_default_css=False)


def slider(label: str, value: float, step: float = 0.01, high: float = 1.0, low: float = 0.0,
           name: str = "") -> gr.Slider:  # fmt: skip
    return gr.Slider(
        low, high, value, step=step, label=label, interactive=True, elem_id=f"learn-{name}"
    )


@dataclass(frozen=True, slots=True)
class CostParts:
    """Step 1."""

    chart: gr.HTML
    origin: gr.HTML
    sentence: gr.HTML

    @property
    def outputs(self) -> list[gr.HTML]:
        return [self.chart, self.origin, self.sentence]


def cost_updates(curve: Curve | None) -> list[Any]:
    chart, text = cost_values(curve)
    return [chart, origin(curve), text]


def build_costs(numbers: Numbers, beside: gr.Column) -> CostParts:
    """The measured curve of this machine."""
    chart, where, text = cost_updates(numbers.curve())
    with beside:
        under = sentence(text)
    view = plotly_view(chart, elem_id="learn-costs")
    return CostParts(view, gr.HTML(where, elem_id="learn-costs-origin"), under)


@dataclass(frozen=True, slots=True)
class GainParts:
    """Step 5."""

    acceptance: gr.Slider
    drafts: gr.Slider
    drafter: gr.Radio
    chart: gr.HTML
    origin: gr.HTML
    sentence: gr.HTML

    @property
    def inputs(self) -> list[Any]:
        return [self.acceptance, self.drafts, self.drafter]

    @property
    def outputs(self) -> list[Any]:
        return [self.chart, self.sentence, self.drafts]


def build_gain(numbers: Numbers, beside: gr.Column) -> GainParts:
    """Sliders for acceptance and draft length over the measured costs."""
    curve = numbers.curve()
    choices = drafter_choices(curve)
    with beside:
        acceptance = slider(
            say("a · acceptance of a draft"), ACCEPTANCE, high=0.99, name="acceptance"
        )
        drafts = slider(
            say("γ · drafts a round"), DRAFTS, 1, max(1, _longest(curve, choices[0])), name="drafts"
        )
        drafter = gr.Radio(
            _named(choices), value=choices[0], label=say("Who drafts"), interactive=True,
            elem_id="learn-drafter",
        )  # fmt: skip
    chart, text = gain_values(curve, ACCEPTANCE, DRAFTS, choices[0])
    view, under = plotly_view(chart, elem_id="learn-gain"), sentence(text)
    where = gr.HTML(origin(curve), elem_id="learn-gain-origin")
    parts = GainParts(acceptance, drafts, drafter, view, where, under)

    def moved(a: Any, gamma: Any, who: Any) -> list[Any]:
        return list(gain_values(numbers.curve(), a, gamma, who))

    def chosen(a: Any, gamma: Any, who: Any) -> list[Any]:
        return gain_updates(numbers.curve(), a, gamma, who)

    for each in (acceptance, drafts):
        each.input(
            moved, parts.inputs, parts.outputs[:2], api_name=f"lesson_{each.elem_id}", **LAST
        )
    drafter.input(chosen, parts.inputs, parts.outputs, api_name="lesson_drafter", **LAST)
    return parts


def gain_updates(curve: Curve | None, a: Any, gamma: Any, who: Any) -> list[Any]:
    """Chart, sentence, and the slider with the longest draft this drafter's costs are known for."""
    longest = max(1, _longest(curve, who))
    gamma = int(bounded(gamma, 0, longest))
    return [*gain_values(curve, a, gamma, who), gr.update(maximum=longest, value=gamma)]


def _longest(curve: Curve | None, drafter: Any) -> int:
    known = drafter_choices(curve)
    who = drafter if drafter in known else known[0]
    return len(speedups(curve, who, 1.0)) - 1 if curve else DRAFTS


def _named(drafters: list[str]) -> list[tuple[str, str]]:
    return [(say(DRAFTER_CHOICES[name]), name) for name in drafters]


def keep_current(site: Site, numbers: Numbers, costs: CostParts, gain: GainParts) -> None:
    """Both cost charts change from recorded to measured when the model has been timed."""
    timer = gr.Timer(LOOK_AGAIN_SECONDS)
    outputs = [timer, *costs.outputs, gain.origin, gain.drafter, *gain.outputs]

    def look(a: Any, gamma: Any, who: Any) -> list[Any]:
        curve = numbers.curve()
        if curve is None or curve.recorded:
            status = numbers.host.status()
            waiting = not (status.failed or status.ready)
            return [gr.Timer(active=waiting), *[gr.skip()] * (len(outputs) - 1)]
        choices = drafter_choices(curve)
        who = who if who in choices else choices[0]
        return [
            gr.Timer(active=False),
            *cost_updates(curve),
            origin(curve),
            gr.update(choices=_named(choices), value=who),
            *gain_updates(curve, a, gamma, who),
        ]

    timer.tick(look, gain.inputs, outputs, api_name="lesson_costs", **LIGHT)
    site.page.load(look, gain.inputs, outputs, api_name="lesson_costs_on_load", **LIGHT)


def build_bias(numbers: Numbers, beside: gr.Column, line: Line) -> None:
    """Step 7: p and q by preset and likeness, both rules in closed form and run."""
    first = next(iter(PRESETS))
    with beside:
        preset = gr.Radio(
            [(say(name), key) for key, (name, _, _) in PRESETS.items()], value=first,
            label=say("A small vocabulary after «The sky is»"), interactive=True,
            elem_id="learn-preset",
        )  # fmt: skip
        likeness = slider(say("how far the drafter has learned p"), 0.0, name="likeness")
        run = gr.Button(say(RUN_RULES), elem_id="learn-run-rules")
    chart, text = bias_values(first, 0.0)
    outputs = [plotly_view(chart, elem_id="learn-bias"), sentence(text)]
    seed = gr.State(0)

    def turned(name: Any, share: Any) -> tuple[str, str]:
        return bias_values(name, share)

    def runs(name: Any, share: Any, begin: int) -> Any:
        for chart, text in run_rules(numbers.host, name, share, begin):
            yield chart, text, begin + 1000

    running = run.click(
        taking_turns(line, "lessons", runs, IN_SENTENCE), [preset, likeness, seed],
        [*outputs, seed], **RUNS,
        show_progress="hidden", api_visibility="private", api_name="lesson_rules",
    )  # fmt: skip
    for each in (preset, likeness):
        each.input(
            turned, [preset, likeness], outputs, cancels=[running],
            api_name=f"lesson_{each.elem_id}", **LAST,
        )  # fmt: skip


def build_hindsight(beside: gr.Column) -> None:
    """Step 8: the counterexample with all four of its numbers on sliders."""
    values = (0.7, 0.5, 0.9, 0.0)
    with beside:
        target = slider(say("p(A) of the target"), values[0], low=0.01, high=0.99, name="toy-p")
        draft = slider(say("q(A) of the drafter"), values[1], low=0.01, high=0.99, name="toy-q")
        behind_a = slider(say("confidence of draft 2 after A"), values[2], name="toy-a")
        behind_b = slider(say("confidence of draft 2 after B"), values[3], name="toy-b")
    sliders = [target, draft, behind_a, behind_b]
    chart, text = hindsight_values(*values)
    outputs = [plotly_view(chart, elem_id="learn-hindsight"), sentence(text)]

    def moved(p: Any, q: Any, a: Any, b: Any) -> tuple[str, str]:
        return hindsight_values(p, q, a, b)

    for each in sliders:
        each.input(moved, sliders, outputs, api_name=f"lesson_{each.elem_id}", **LAST)


def missing() -> gr.HTML:
    """Where a step has no recording to show."""
    return sentence(told(say("No recorded race on this page has such a round.")))
