"""What stands under the lanes once a race is over: charts and the file to download."""

from pathlib import Path
from typing import Any, NamedTuple

import gradio as gr

from spork_demo import trace_file
from spork_demo.charts import acceptance, comparison
from spork_demo.language import say
from spork_demo.trace import Race
from spork_demo.ui import words
from spork_demo.ui.files import for_download
from spork_demo.ui.plotly_view import payload, plotly_view
from spork_demo.ui.reliability_view import race_reliability
from spork_demo.ui.shelf import Shelf

FILE_NAME = "spork_demo_race.json"


class ChartViews(NamedTuple):
    """The charts of the race tab."""

    speed: gr.HTML
    phases: gr.HTML
    acceptance: gr.HTML
    reliability: gr.HTML


def build_charts(race: Race | None) -> ChartViews:
    speed, phases, kept, reliability = chart_values(race)
    with gr.Row(elem_id="race-charts"):
        return ChartViews(
            _chart(speed, say(words.SPEED_TITLE), "speed-chart"),
            _chart(phases, say(words.PHASES_TITLE), "phase-chart"),
            _chart(kept, say(words.ACCEPTANCE_TITLE), "acceptance-chart"),
            _chart(reliability, say(words.RELIABILITY_TITLE), "reliability-chart"),
        )


def _chart(value: str | None, label: str, elem_id: str) -> gr.HTML:
    with gr.Column(min_width=320, elem_classes=["chart-column"]):
        return plotly_view(value, elem_id=elem_id, label=label)


def chart_values(race: Race | None) -> list[str | None]:
    """Values of the charts, in the order of ChartViews; None draws nothing."""
    if race is None:
        return [None] * len(ChartViews._fields)
    return [
        payload(
            comparison.speed_chart(race), comparison.speed_alt(race), title=say(words.SPEED_TITLE)
        ),
        payload(
            comparison.phase_chart(race),
            comparison.phase_alt(race),
            title=say(words.PHASES_TITLE),
            caption=comparison.prefill_sentence(race),
        ),
        payload(
            acceptance.acceptance_chart(race),
            acceptance.acceptance_alt(race),
            title=say(words.ACCEPTANCE_TITLE),
            caption=acceptance.acceptance_caption(race),
        ),
        race_reliability(race),
    ]


def race_bytes(race: Race | None) -> bytes | None:
    """The race as a file holds it."""
    return trace_file.dumps(race).encode("utf-8") if race else None


def race_file(data: bytes | None, shelf: Shelf, folder: str | Path) -> Any:
    """A file under `folder` that holds a race, for the button that downloads it."""
    return for_download(FILE_NAME, data, shelf, folder, say(words.DOWNLOAD)) if data else None
