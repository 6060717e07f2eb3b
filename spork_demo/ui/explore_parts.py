"""The widgets of the Explore tab, in their places."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from spork_demo.axes import SWEPT, USUAL
from spork_demo.cells import MEASURES
from spork_demo.charts.sweep_words import MEASURE_NAMES
from spork_demo.host import PairInfo
from spork_demo.language import later, say
from spork_demo.spacefile import Limits, Preset
from spork_demo.ui import words
from spork_demo.ui.entry import offered, presets_for
from spork_demo.ui.examples import EXAMPLES
from spork_demo.ui.explore_picks import NOTHING_ELSE, menu_of
from spork_demo.ui.lane_picker import lane_note, preset_choices, unchecked
from spork_demo.ui.plotly_view import plotly_view
from spork_demo.ui.sweep_entry import NO_KNOB, REPEATS
from spork_demo.ui.sweep_results import AS_CSV, AS_JSON, FRONT_TITLE, SPEED_TITLE
from spork_demo.ui.sweep_table import sweep_table

METHODS = tuple(dict.fromkeys(method for method, _ in SWEPT))
START_METHOD, START_RULES = "spork", "exact"
START_KNOBS = ("fork_width", "fork_depth")
START_PROMPTS = (1, 6)
"""Examples: one where drafting pays and one where it pays less."""

START_TOKENS = 48
ABOUT = later(
    "Which values pay on your prompts? Every cell races beside a greedy lane of its own, here and "
    "now. Knobs that are not swept are those of the race tab."
)
VALUES_INFO = later("a list, 2, 4, 8, or first:last:step, 1:8:2")
PROMPTS_INFO = later("one a line, at most {limit}; every cell runs on each")
REPEATS_INFO = later("more races, a narrower guess")


@dataclass(frozen=True, slots=True)
class ExploreParts:
    """The tab's widgets. explored: the gr.State with the visitor's sweep."""

    method: gr.Dropdown
    rules: gr.Radio
    preset: gr.Dropdown
    note: gr.Markdown
    knob1: gr.Dropdown
    values1: gr.Textbox
    knob2: gr.Dropdown
    values2: gr.Textbox
    prompts: gr.Textbox
    from_race: gr.Button
    from_examples: gr.Button
    new_tokens: gr.Slider
    repeats: gr.Radio
    run: gr.Button
    stop: gr.Button
    notice: gr.HTML
    progress: gr.HTML
    best: gr.HTML
    load: gr.Button
    speed: gr.HTML
    measure: gr.Radio
    front: gr.HTML
    table: gr.HTML
    csv: gr.DownloadButton
    json: gr.DownloadButton
    vllm: gr.Textbox
    transformers: gr.Textbox
    explored: gr.State
    timer: gr.Timer

    @property
    def inputs(self) -> dict[str, Any]:
        """Parameter name to widget, as `read_sweep` names them."""
        names = ("method", "rules", "preset", "knob1", "values1", "knob2", "values2", "prompts")
        names += ("new_tokens", "repeats", "measure")
        return {name: getattr(self, name) for name in names}

    @property
    def picks(self) -> list[Any]:
        """What `pick_values` reads."""
        return [self.method, self.rules, self.preset, self.knob1, self.knob2]

    @property
    def follow(self) -> list[Any]:
        """What `pick_values` fills."""
        menus = [self.knob1, self.values1, self.knob2, self.values2]
        return [self.rules, self.preset, self.note, *menus]

    @property
    def frame(self) -> list[Any]:
        """What a frame of a sweep fills."""
        results = [self.speed, self.front, self.table, self.best]
        return [self.progress, self.explored, *results, self.notice]

    @property
    def files(self) -> list[Any]:
        """What is there once a sweep has ended."""
        return [self.csv, self.json, self.vllm, self.transformers]


def build_parts(
    limits: Limits, presets: Sequence[Preset], pairs: Sequence[PairInfo]
) -> ExploreParts:
    """Everything of the tab; nothing has been swept yet."""
    explored = gr.State(None)
    timer = gr.Timer(2.0)
    gr.HTML(f"<p>{say(ABOUT)}</p>", elem_id="explore-about", padding=False)
    picks = _picks(presets, pairs)
    settings = _settings(limits)
    with gr.Row(elem_id="explore-run"):
        run = gr.Button(say("Sweep"), variant="primary", elem_id="sweep", min_width=120)
        stop = gr.Button(say("Stop"), elem_id="sweep-stop", min_width=120)
    notice = gr.HTML("", elem_id="sweep-notice", padding=False)
    progress = gr.HTML("", elem_id="sweep-progress", padding=False)
    return ExploreParts(
        **picks,
        **settings,
        run=run,
        stop=stop,
        notice=notice,
        progress=progress,
        **_results(),
        explored=explored,
        timer=timer,
    )


def prompts_text(prompts: Sequence[Any]) -> str:
    """One a line: breaks inside a prompt become spaces."""
    return "\n".join(" ".join(str(prompt or "").split()) for prompt in prompts)


def _picks(presets: Sequence[Preset], pairs: Sequence[PairInfo]) -> dict[str, Any]:
    names = SWEPT[START_METHOD, START_RULES]
    with gr.Row(elem_id="explore-picks"):
        method = gr.Dropdown(
            [(say(words.METHOD_NAMES[name]), name) for name in METHODS],
            value=START_METHOD, label=say("Method"), min_width=150, elem_id="explore-method",
        )  # fmt: skip
        rules = gr.Radio(
            [(say(text), name) for name, text in words.RULES_CHOICES.items()],
            value=START_RULES, label=say("Rules"), min_width=220, elem_id="explore-rules",
        )  # fmt: skip
        preset = gr.Dropdown(
            preset_choices(presets_for(offered(presets, pairs), START_METHOD, START_RULES)),
            value=words.AUTOMATIC, label=say("Preset"), min_width=200, elem_id="explore-preset",
        )  # fmt: skip
    note = gr.Markdown(
        lane_note(START_METHOD, START_RULES, START_RULES), elem_classes=["lane-note"]
    )
    menus: dict[str, Any] = {}
    with gr.Row(elem_id="explore-knobs"):
        for place, start in enumerate(START_KNOBS, 1):
            label = say("Sweep") if place == 1 else say("and")
            choices = menu_of(names)
            if place == 2:
                choices = [(say(NOTHING_ELSE), NO_KNOB), *choices]
            menus[f"knob{place}"] = gr.Dropdown(
                choices, value=start, label=label, min_width=210, elem_id=f"explore-knob{place}"
            )
            menus[f"values{place}"] = gr.Textbox(
                USUAL[start], label=say("Values"), info=say(VALUES_INFO), max_lines=1,
                min_width=170, elem_id=f"explore-values{place}",
            )  # fmt: skip
    for widget in (method, rules, preset, menus["knob1"], menus["knob2"]):
        unchecked(widget)
    return {"method": method, "rules": rules, "preset": preset, "note": note, **menus}


def _settings(limits: Limits) -> dict[str, Any]:
    start = [EXAMPLES[place].prompt for place in START_PROMPTS][: limits.sweep_prompts]
    with gr.Row(equal_height=False):
        with gr.Column(scale=3, min_width=300):
            prompts = gr.Textbox(
                prompts_text(start), label=say("Prompts"), lines=3, max_lines=8,
                info=say(PROMPTS_INFO, limit=limits.sweep_prompts), elem_id="explore-prompts",
            )  # fmt: skip
            with gr.Row():
                from_race = gr.Button(
                    say("The race's prompt"), size="sm", min_width=120, elem_id="explore-from-race"
                )
                from_examples = gr.Button(
                    say("Example prompts"), size="sm", min_width=120, elem_id="explore-examples"
                )
        with gr.Column(scale=1, min_width=220):
            new_tokens = gr.Slider(
                1, limits.new_tokens, min(START_TOKENS, limits.new_tokens), step=1,
                label=say("New tokens"), interactive=True, elem_id="explore-tokens",
            )  # fmt: skip
            repeats = gr.Radio(
                list(REPEATS), value=1, label=say("Repeats"), info=say(REPEATS_INFO),
                elem_id="explore-repeats",
            )  # fmt: skip
    for widget in (new_tokens, repeats):
        unchecked(widget)
    return {
        "prompts": prompts,
        "from_race": from_race,
        "from_examples": from_examples,
        "new_tokens": new_tokens,
        "repeats": repeats,
    }


def _results() -> dict[str, Any]:
    with gr.Row(elem_id="sweep-best-row"):
        best = gr.HTML("", elem_id="sweep-best", padding=False)
        load = gr.Button(
            say("Load the best exact setting"), size="sm", min_width=200, elem_id="sweep-load"
        )
    with gr.Row(elem_id="sweep-charts"):
        with gr.Column(min_width=320, elem_classes=["chart-column"]):
            speed = plotly_view(elem_id="sweep-speed", label=say(SPEED_TITLE))
        with gr.Column(min_width=320, elem_classes=["chart-column"]):
            front = plotly_view(elem_id="sweep-front", label=say(FRONT_TITLE))
            measure = gr.Radio(
                [(say(text), name) for name, text in MEASURE_NAMES.items()],
                value=MEASURES[0], label=say("Fidelity"), elem_id="sweep-measure",
            )  # fmt: skip
    table = sweep_table(elem_id="sweep-table", padding=False)
    with gr.Row(elem_id="sweep-files"):
        csv = gr.DownloadButton(say(AS_CSV), size="md", interactive=False, elem_id="sweep-csv")
        json = gr.DownloadButton(say(AS_JSON), size="md", interactive=False, elem_id="sweep-json")
    with gr.Row(elem_id="sweep-elsewhere"):
        vllm, transformers = (
            gr.Textbox(
                label=label, lines=2, max_lines=6, interactive=False, visible=False,
                buttons=["copy"], min_width=320, elem_id=f"sweep-{name}",
            )
            for name, label in (
                ("vllm", say("The best exact setting for vLLM")),
                ("transformers", say("The best exact setting for transformers")),
            )
        )  # fmt: skip
    return {
        "best": best,
        "load": load,
        "speed": speed,
        "measure": unchecked(measure),
        "front": front,
        "table": table,
        "csv": csv,
        "json": json,
        "vllm": vllm,
        "transformers": transformers,
    }
