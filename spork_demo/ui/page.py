"""Puts the page together: what stands where, and which handler answers which event."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from spork_demo.charts import palette
from spork_demo.host import Host
from spork_demo.spacefile import Limits, Preset
from spork_demo.trace import Race
from spork_demo.ui import plotly_view, words
from spork_demo.ui.controls import Controls, build_knobs, build_pair, build_prompt
from spork_demo.ui.examples import EXAMPLES
from spork_demo.ui.handlers import NO_RECORDING, Desk
from spork_demo.ui.inside import InsideParts, build_inside
from spork_demo.ui.lane_picker import build_lanes, serving
from spork_demo.ui.notices import notice as said
from spork_demo.ui.race_view import STYLE, race_view, script_tag
from spork_demo.ui.results import ChartViews, build_charts, chart_values, race_file
from spork_demo.ui.token_view import race_lines
from spork_demo.ui.waiting import host_news, lane_outputs, lane_picks, opening_strip, pair_news

DEVICE = "device"
"""One concurrency id for whatever runs a model, so that runs take turns."""

LIGHT: dict[str, Any] = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
"""Events that never wait for the device."""

CACHE_SWEEP_SECONDS = 3600
CACHE_AGE_SECONDS = 6 * 3600


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


def build_page(
    host: Host, limits: Limits, presets: Sequence[Preset], recorded: Sequence[Race]
) -> gr.Blocks:
    """The whole page. It opens on `recorded[0]`, complete, and runs live once `host` is ready."""
    desk = Desk(host, limits, presets, recorded)
    first = recorded[0] if recorded else None
    with gr.Blocks(
        title=words.TITLE,
        fill_width=True,
        analytics_enabled=False,
        delete_cache=(CACHE_SWEEP_SECONDS, CACHE_AGE_SECONDS),
    ) as page:
        race = gr.State(first)
        with gr.Row(elem_id="top"):
            gr.Markdown(f"# {words.HEADING}\n\n{words.INTRO}", elem_id="heading")
            strip = gr.HTML(opening_strip(host), elem_id="host-status")
        timer = gr.Timer(1.0)
        with gr.Tabs(selected="race") as tabs:
            with gr.Tab(words.TAB_RACE, id="race"):
                tab = _race_tab(host, limits, presets, recorded)
            with gr.Tab(words.TAB_INSIDE, id="inside"):
                inside = build_inside(race)
        _wire_waiting(page, desk, tab.controls, strip, timer)
        _wire_race(page, desk, tab, race, inside)
        _wire_inside(tab, race, tabs, inside)
    return page


def launch_options(limits: Limits) -> dict[str, Any]:
    """Keyword arguments of launch() this page needs."""
    return {
        "theme": _theme(),
        "css": palette.css_variables(),
        "css_paths": [STYLE],
        "head": plotly_view.head() + script_tag(),
        "footer_links": ["api", "settings"],
        "ssr_mode": False,
        "run_history": False,
        "enable_monitoring": False,
        "show_error": False,
        "max_file_size": f"{limits.upload_mb}mb",
        "state_session_capacity": limits.visitors,
    }


def queue_options(limits: Limits) -> dict[str, Any]:
    """Keyword arguments of queue()."""
    return {"max_size": limits.queue, "default_concurrency_limit": 1}


def _theme() -> gr.themes.Base:
    fonts = (
        "system-ui",
        "-apple-system",
        "Segoe UI",
        "Noto Sans",
        "Noto Sans CJK SC",
        "sans-serif",
    )
    mono = ("ui-monospace", "Cascadia Mono", "DejaVu Sans Mono", "monospace")
    theme = gr.themes.Default(
        primary_hue=gr.themes.colors.blue, neutral_hue=gr.themes.colors.slate, font=fonts,
        font_mono=mono,
    )  # fmt: skip
    return theme.set(
        block_info_text_color=palette.MUTED.light,
        block_info_text_color_dark=palette.MUTED.dark,
        body_text_color_subdued=palette.MUTED.light,
        body_text_color_subdued_dark=palette.MUTED.dark,
        button_primary_background_fill=palette.BLUE.light,
        button_primary_background_fill_dark=palette.BLUE.light,
        button_primary_text_color="white",
    )


def _race_tab(
    host: Host, limits: Limits, presets: Sequence[Preset], recorded: Sequence[Race]
) -> RaceTab:
    first = recorded[0] if recorded else None
    with gr.Row(equal_height=False):
        with gr.Column(scale=5, min_width=280):
            prompt = build_prompt(limits, first.lanes[0].prompt if first else "")
        with gr.Column(scale=1, min_width=160, elem_id="run-stop"):
            run = gr.Button(words.RUN, variant="primary", elem_id="run")
            stop = gr.Button(words.STOP, variant="secondary", elem_id="stop")
    _examples(prompt)
    with gr.Row(equal_height=False, elem_id="setup"):
        with gr.Column(min_width=320), gr.Accordion(words.LANES_TITLE, open=False, elem_id="lanes"):
            pair = build_pair([pair.name for pair in host.pairs()])
            count, lanes = build_lanes(
                limits, presets, lambda name: serving(host.pairs(), name), pair
            )
        with gr.Column(min_width=320), gr.Accordion(words.KNOBS_TITLE, open=False, elem_id="knobs"):
            shared = build_knobs(limits)
    with gr.Row(equal_height=True, elem_id="now"):
        with gr.Column(scale=4, min_width=280):
            opening = said(words.OPENING if first else words.NO_RACE)
            notice = gr.HTML(opening, label="notice", elem_id="notice")
        recordings = _recordings(recorded)
    view = race_view(race_lines(first) if first else "")
    charts = build_charts(first)
    with gr.Row(elem_id="race-files"):
        download = gr.DownloadButton(words.DOWNLOAD, size="md", elem_id="download")
        upload = gr.UploadButton(words.UPLOAD, file_types=[".json"], size="md", elem_id="upload")
    with gr.Accordion(words.TIMING_TITLE, open=False):
        gr.Markdown(words.TIMING)
    controls = Controls(prompt, pair, count, lanes, shared)
    return RaceTab(controls, run, stop, notice, view, recordings, upload, download, charts)


def _recordings(recorded: Sequence[Race]) -> gr.Dropdown:
    names = [race.title or race.lanes[0].prompt[:60] for race in recorded]
    return gr.Dropdown(
        [(words.RECORDINGS, NO_RECORDING), *zip(names, range(len(names)), strict=True)],
        value=0 if recorded else None,
        label=words.RECORDINGS,
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
        sample_labels=[example.label for example in EXAMPLES],
        label=words.EXAMPLES,
        type="index",
        elem_id="examples",
    )
    examples.click(
        lambda place: EXAMPLES[place].prompt, examples, prompt, api_name="example", **LIGHT
    )


def _wire_waiting(
    page: gr.Blocks, desk: Desk, controls: Controls, strip: gr.HTML, timer: gr.Timer
) -> None:
    layers = controls.shared["verifier_layers"]
    picks, choices = lane_picks(controls.lanes), lane_outputs(controls.lanes)

    def news(*picked: Any) -> list[Any]:
        return host_news(desk.host, desk.presets, *picked)

    outputs = [strip, timer, controls.pair, layers, *choices]
    timer.tick(news, picks, outputs, api_name="status", **LIGHT)
    page.load(news, picks, outputs, api_name="status_on_load", **LIGHT)
    controls.pair.input(
        lambda name, *picked: pair_news(desk.host, desk.presets, name, *picked),
        [controls.pair, *picks],
        [strip, layers, *choices],
        api_name="pair_news",
        **LIGHT,
    )


def _wire_race(
    page: gr.Blocks, desk: Desk, tab: RaceTab, race: gr.State, inside: InsideParts
) -> None:
    frame = [tab.view, race, tab.notice]
    # The menu lets go of a recording no longer shown, so that it can be chosen again. Gradio sends
    # the events of one click one after another, so this must stand before the run.
    gr.on(
        [tab.run.click, tab.controls.prompt.submit],
        lambda: NO_RECORDING,
        outputs=tab.recordings,
        api_name="leave_recording",
        **LIGHT,
    )
    run = gr.on(
        [tab.run.click, tab.controls.prompt.submit],
        desk.live,
        outputs=[*frame, tab.charts.reliability],
        inputs_kwargs=tab.controls.inputs(),
        concurrency_id=DEVICE,
        concurrency_limit=1,
        show_progress="minimal",
        show_progress_on=[tab.notice],
        api_name="race",
    )
    tab.stop.click(None, cancels=[run], api_name="stop", **LIGHT)
    # The browser fires this once a run has ended, also by Stop, and only after the cancel.
    ended = run.then(desk.settle, [race, tab.recordings], frame, api_name="settle", **LIGHT)
    # A run would write over what is opened during it, so opening something ends the run.
    opened = tab.upload.upload(None, cancels=[run], api_name="open_file", **LIGHT)
    upload = opened.then(desk.upload, tab.upload, frame, api_name="upload", **LIGHT)
    chosen = tab.recordings.input(
        desk.recording, tab.recordings, frame, cancels=[run], api_name="recording", **LIGHT
    )
    details = [tab.download, *inside.outputs]

    def detail(current: Race | None) -> list[Any]:
        return [race_file(current, tab.download.GRADIO_CACHE), *inside.refresh(current)]

    def result(current: Race | None) -> list[Any]:
        return [*chart_values(current), *detail(current)]

    results = [*tab.charts, *details]
    chosen.then(result, race, results, api_name="results_after_recording", **LIGHT)
    for name, event in (("run", ended), ("upload", upload)):
        event.then(
            lambda current: [desk.place(current), *result(current)],
            race,
            [tab.recordings, *results],
            api_name=f"results_after_{name}",
            **LIGHT,
        )
    page.load(detail, race, details, api_name="details_on_load", **LIGHT)


def _wire_inside(tab: RaceTab, race: gr.State, tabs: gr.Tabs, inside: InsideParts) -> None:
    def open_round(current: Race | None, event: gr.EventData) -> list[Any]:
        lane, number = (_whole(getattr(event, name, 0)) for name in ("lane", "round"))
        return [gr.Tabs(selected="inside"), *inside.show(current, lane, number)]

    tab.view.open_round(open_round, race, [tabs, *inside.outputs], api_name="open_round", **LIGHT)


def _whole(value: Any) -> int:
    """A number the browser sent, or 0 where it sent something else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
