"""The calibration tab: what stands where in it, and which handler answers which event."""

from dataclasses import dataclass
from typing import Any

import gradio as gr

from spork_demo.calibration import PROMPT_LIMIT, QUANTILE
from spork_demo.language import later, say
from spork_demo.settings import KNOBS
from spork_demo.spacefile import Limits
from spork_demo.ui.calibrate_handlers import APPLIED, OWN_TOKENS, SHARED, CalibrationDesk, Shown
from spork_demo.ui.calibration_view import DRAFTERS, JUDGES, VIEWS
from spork_demo.ui.events import LIGHT, RUNS
from spork_demo.ui.lane_picker import unchecked
from spork_demo.ui.notices import notice
from spork_demo.ui.plotly_view import plotly_view
from spork_demo.ui.site import Site
from spork_demo.ui.turns import in_notice, taking_turns

TITLE = later("Calibrate")
PROMPTS = 8
INTRO = later(
    "A score judge keeps a fork whole when its score reaches **τ**. Which τ? Greedy decoding "
    "answers prompts of our own that nothing was trained on; at every position forks are "
    "drafted and scored, and what greedy wrote tells which of them were right. τ is then set so "
    "that a chosen share of the right ones is given up, and the wrong ones that still pass are "
    "its price."
)
WARNING = later(
    "Early layers of an ordinary model were never trained to predict tokens: on the embedded model "
    "the most probable token after 10, 20 and 28 of 30 layers is the final one at 5 %, 13 % and "
    "48 % of positions. This judge is approximate, and here one sees by how much."
)
OPENING = later("Nothing is measured yet. A calibration needs the live model.")


@dataclass(frozen=True, slots=True)
class CalibrateParts:
    """The widgets of the tab that events read or write."""

    judge: gr.Radio
    drafter: gr.Dropdown
    layers: gr.Number
    prompts: gr.Slider
    tokens: gr.Slider
    quantile: gr.Slider
    run: gr.Button
    stop: gr.Button
    apply: gr.Button
    notice: gr.HTML
    views: tuple[gr.HTML, ...]

    def inputs(self) -> dict[str, Any]:
        """Parameter name to widget."""
        names = ("judge", "drafter", "layers", "prompts", "tokens", "quantile")
        return {name: getattr(self, name) for name in names}


def build_calibrate(site: Site) -> None:
    """Lay the tab out and wire it."""
    gr.Markdown(f"{say(INTRO)}\n\n{say(WARNING)}", elem_id="calibrate-intro")
    parts = _parts(site.desk.limits)
    _wire(site, parts)


def _parts(limits: Limits) -> CalibrateParts:
    with gr.Row(equal_height=False):
        with gr.Column(scale=5, min_width=280), gr.Row():
            fields = _fields(limits)
        with gr.Column(scale=1, min_width=160, elem_classes=["calibrate-buttons"]):
            run = gr.Button(say("Start calibration"), variant="primary", elem_id="calibrate-run")
            stop = gr.Button(say("Stop calibration"), elem_id="calibrate-stop")
    said = gr.HTML(notice(say(OPENING)), label="calibration notice", elem_id="calibrate-notice")
    with gr.Row(equal_height=False):
        judge = unchecked(
            gr.Radio(
                [(say(text), name) for name, text in JUDGES.items()],
                value="early_layers",
                label=say("Judge"),
                min_width=300,
                info=say("all of the pair's are measured at once; this one is shown and applied"),
                elem_id="calibrate-judge",
            )
        )
        quantile = unchecked(
            gr.Slider(
                0.0, 0.5, QUANTILE, step=0.01, interactive=True,
                label=say("Share of right forks given up"), min_width=300,
                info=say("the quantile of their scores at which τ stands"),
                elem_id="calibrate-quantile",
            )
        )  # fmt: skip
        with gr.Column(scale=0, min_width=200):
            apply = gr.Button(say("Apply τ to the race"), elem_id="calibrate-apply")
    views = _views()
    return CalibrateParts(judge, *fields, quantile, run, stop, apply, said, views)


def _fields(limits: Limits) -> tuple[Any, ...]:
    most = limits.new_tokens
    drafter = gr.Dropdown(
        [(say(text), name) for name, text in DRAFTERS.items()],
        value="target",
        label=say("Who drafts the forks"),
        info=say("as wide and deep as on the Race tab"),
        min_width=200,
        elem_id="calibrate-drafter",
    )
    layers = gr.Number(
        KNOBS["verifier_layers"].default,
        label=say("N · layers of the judge"),
        info=say("the first so many layers of the target"),
        min_width=140,
        elem_id="calibrate-layers",
    )
    prompts = gr.Slider(
        1, PROMPT_LIMIT, min(PROMPTS, PROMPT_LIMIT), step=1, interactive=True,
        label=say("Held-out prompts"), min_width=220, elem_id="calibrate-prompts",
    )  # fmt: skip
    tokens = gr.Slider(
        1, most, min(OWN_TOKENS, most), step=1, interactive=True,
        label=say("Tokens written to each"), min_width=220, elem_id="calibrate-tokens",
    )  # fmt: skip
    return tuple(unchecked(widget) for widget in (drafter, layers, prompts, tokens))


def _views() -> tuple[gr.HTML, ...]:
    """In the order of `calibration_view.views`."""
    scores = plotly_view(None, elem_id="calibrate-score-chart", label="scores")
    table = gr.HTML("", elem_id="calibrate-judges", label="judges")
    with gr.Row(elem_id="calibrate-more"):
        more = []
        for name in ("head", "survival", "reliability"):
            with gr.Column(min_width=320, elem_classes=["chart-column"]):
                more.append(plotly_view(None, elem_id=f"calibrate-{name}-chart", label=name))
    return scores, table, *more


def _wire(site: Site, parts: CalibrateParts) -> None:
    handlers = CalibrationDesk(site.desk)
    controls = site.race_tab.controls
    shown = gr.State(Shown())
    shared = {name: controls.shared[name] for name in SHARED}
    run = parts.run.click(
        taking_turns(
            site.desk.line, "calibrations", handlers.run, in_notice(2 + VIEWS, 0), handlers.runs
        ),
        inputs_kwargs=parts.inputs() | {"pair": controls.pair} | shared,
        outputs=[parts.notice, shown, *parts.views],
        **RUNS,
        show_progress="hidden",
        api_visibility="private",
        api_name="calibrate",
    )
    parts.stop.click(None, cancels=[run], api_name="stop_calibration", **LIGHT)
    run.then(
        handlers.settle,
        [shown, parts.notice],
        [parts.notice, shown],
        api_name="settle_calibration",
        **LIGHT,
    )
    gr.on(
        [parts.judge.input, parts.quantile.input],
        handlers.look,
        [shown, parts.judge, parts.quantile],
        list(parts.views[:2]),
        trigger_mode="always_last",
        api_name="look_at_calibration",
        **LIGHT,
    )
    lanes = [widget for lane in controls.lanes for widget in (lane.method, lane.rules, lane.preset)]
    parts.apply.click(
        handlers.apply,
        [shown, parts.judge, parts.quantile, *lanes],
        [
            parts.notice,
            *(controls.shared[name] for name in APPLIED),
            *(lane.preset for lane in controls.lanes),
        ],
        api_name="apply_calibration",
        **LIGHT,
    )
