"""The race tab: what stands where in it, and which handler answers which event."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from spork_demo.language import say
from spork_demo.trace import Race
from spork_demo.ui import words
from spork_demo.ui.controls import Controls, build_knobs, build_pair, build_prompt
from spork_demo.ui.events import LIGHT, RUNS
from spork_demo.ui.examples import EXAMPLES
from spork_demo.ui.guard import sent
from spork_demo.ui.handlers import NO_RECORDING, Desk, shown_title
from spork_demo.ui.inside import InsideParts
from spork_demo.ui.lane_picker import build_lanes, serving
from spork_demo.ui.notices import notice as said
from spork_demo.ui.race_view import race_view
from spork_demo.ui.results import ChartViews, build_charts, chart_values, race_bytes, race_file
from spork_demo.ui.token_view import race_lines
from spork_demo.ui.turns import in_notice, taking_turns


@dataclass(frozen=True, slots=True)
class RaceTab:
    """The widgets of the race tab that events read or write."""

    controls: Controls
    run: gr.Button
    stop: gr.Button
    notice: gr.HTML
    view: gr.HTML
    recordings: gr.Dropdown
    upload: gr.UploadButton
    download: gr.DownloadButton
    charts: ChartViews

    @property
    def frame(self) -> list[Any]:
        return [self.view, self.notice]


def build_race_tab(desk: Desk) -> RaceTab:
    """Lay the tab out, open on the first recorded race."""
    host, limits, presets, recorded = desk.host, desk.limits, desk.presets, desk.recorded
    first = recorded[0] if recorded else None
    with gr.Row(equal_height=False):
        with gr.Column(scale=5, min_width=280):
            prompt = build_prompt(limits, first.lanes[0].prompt if first else "")
        with gr.Column(scale=1, min_width=160, elem_id="run-stop"):
            run = gr.Button(say(words.RUN), variant="primary", elem_id="run")
            stop = gr.Button(say(words.STOP), variant="secondary", elem_id="stop")
    _examples(prompt)
    with gr.Row(equal_height=False, elem_id="setup"):
        with (
            gr.Column(min_width=320),
            gr.Accordion(say(words.LANES_TITLE), open=False, elem_id="lanes"),
        ):
            pair = build_pair([pair.name for pair in host.pairs()])
            count, lanes = build_lanes(
                limits, presets, lambda name: serving(host.pairs(), name), pair
            )
        with (
            gr.Column(min_width=320),
            gr.Accordion(say(words.KNOBS_TITLE), open=False, elem_id="knobs"),
        ):
            shared = build_knobs(limits)
    with gr.Row(equal_height=True, elem_id="now"):
        with gr.Column(scale=4, min_width=280):
            opening = said(say(words.OPENING) if first else say(words.NO_RACE))
            notice = gr.HTML(opening, label=say("Notice"), elem_id="notice")
        recordings = _recordings(recorded)
    view = race_view(race_lines(first) if first else "")
    charts = build_charts(first)
    with gr.Row(elem_id="race-files"):
        download = gr.DownloadButton(say(words.DOWNLOAD), size="md", elem_id="download")
        upload = gr.UploadButton(
            say(words.UPLOAD), file_types=[".json"], size="md", elem_id="upload"
        )
    with gr.Accordion(say(words.TIMING_TITLE), open=False):
        gr.Markdown(say(words.TIMING))
    controls = Controls(prompt, pair, count, lanes, shared)
    return RaceTab(controls, run, stop, notice, view, recordings, upload, download, charts)


def _recordings(recorded: Sequence[Race]) -> gr.Dropdown:
    names = [shown_title(race) for race in recorded]
    return gr.Dropdown(
        [(say(words.RECORDINGS), NO_RECORDING), *zip(names, range(len(names)), strict=True)],
        value=0 if recorded else None,
        label=say(words.RECORDINGS),
        show_label=False,
        container=False,
        visible=bool(recorded),
        min_width=240,
        elem_id="recordings",
    )


def _examples(prompt: gr.Textbox) -> None:
    examples = gr.Dataset(
        components=[prompt],
        samples=[[example.prompt] for example in EXAMPLES],
        sample_labels=[say(example.label) for example in EXAMPLES],
        label=say(words.EXAMPLES),
        type="index",
        elem_id="examples",
    )
    examples.click(_example_prompt, examples, prompt, api_name="example", **LIGHT)


def _example_prompt(place: Any) -> Any:
    """The prompt of a chosen example; what is no place of one changes nothing."""
    there = isinstance(place, int) and 0 <= place < len(EXAMPLES)
    return EXAMPLES[place].prompt if there else gr.skip()


def wire_race(
    page: gr.Blocks, desk: Desk, tab: RaceTab, race: gr.State, inside: InsideParts
) -> tuple[Callable[[Race | None], list[Any]], list[Any]]:
    """Run, Stop, opening a race, and all that follows from them.

    Returns what a race that has come is shown by beside its view: values, and where they go.
    """
    frame = [tab.view, race, tab.notice]
    _let_go(tab)  # Gradio sends the events of one click one after another: before the run
    run = gr.on(
        [tab.run.click, tab.controls.prompt.submit],
        taking_turns(desk.line, "races", desk.live, in_notice(len(frame) + 1, 2), desk.runs),
        outputs=[*frame, tab.charts.reliability],
        inputs_kwargs=tab.controls.inputs(),
        **RUNS,
        show_progress="minimal",
        show_progress_on=[tab.notice],
        api_name="race",
        api_visibility="private",
    )
    tab.stop.click(None, cancels=[run], api_name="stop", **LIGHT)
    # The browser fires this once a run has ended, also by Stop, and only after the cancel.
    ended = run.then(
        desk.settle,
        [race, tab.recordings, tab.upload, tab.notice],
        frame,
        api_name="settle",
        **LIGHT,
    )
    # A run would write over what is opened during it, so opening something ends the run.
    opened = tab.upload.upload(None, cancels=[run], api_name="open_file", **LIGHT)
    upload = opened.then(desk.upload, tab.upload, frame, api_name="upload", **LIGHT)
    chosen = tab.recordings.input(
        desk.recording, tab.recordings, frame, cancels=[run], api_name="recording", **LIGHT
    )

    def file(current: Race | None) -> Any:
        data = desk.once(current, race_bytes)
        return race_file(data, desk.shelf, tab.download.GRADIO_CACHE)

    def result(current: Race | None) -> list[Any]:
        drawn = [desk.once(current, make) for make in (chart_values, inside.refresh)]
        return [*drawn[0], file(current), *drawn[1]]

    results = [*tab.charts, tab.download, *inside.outputs]
    # After a refused run the menu stays let go: set late, it would be a choice during the next one.
    for name, event in (("recording", chosen), ("run", ended)):
        event.then(result, race, results, api_name=f"results_after_{name}", **LIGHT)

    def opened_result(current: Race | None) -> list[Any]:
        return [desk.place(current), *result(current)]

    shown = [tab.recordings, *results]
    upload.then(opened_result, race, shown, api_name="results_after_upload", **LIGHT)
    page.load(file, race, tab.download, api_name="file_on_load", **LIGHT)
    return result, results


def _let_go(tab: RaceTab) -> None:
    """When a run begins, menu and upload let go of what is no longer shown: it can be chosen again,
    and is not taken for what ended the run.
    """
    gr.on(
        [tab.run.click, tab.controls.prompt.submit],
        lambda: (NO_RECORDING, None),
        outputs=[tab.recordings, tab.upload],
        api_name="leave_recording",
        **LIGHT,
    )


def wire_open_round(tab: RaceTab, race: gr.State, tabs: gr.Tabs, inside: InsideParts) -> None:
    """A token's card leads to its round."""

    def open_round(current: Race | None, event: gr.EventData) -> list[Any]:
        lane, number = sent(event, "lane"), sent(event, "round")
        return [gr.Tabs(selected="inside"), *inside.show(current, lane, number)]

    tab.view.open_round(open_round, race, [tabs, *inside.outputs], api_name="open_round", **LIGHT)
