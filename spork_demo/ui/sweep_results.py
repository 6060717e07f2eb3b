"""What a sweep shows: bar, charts, table, the best exact setting, files and flags elsewhere."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import gradio as gr

from spork_demo.cells import MEASURES, Cell, best_exact
from spork_demo.charts import sweep as sweep_charts
from spork_demo.charts import sweep_front
from spork_demo.charts.figure import paragraph
from spork_demo.charts.sweep_words import best_sentence, remarks
from spork_demo.equivalents import equivalents
from spork_demo.language import later, say
from spork_demo.sweep import Sweep
from spork_demo.sweep_file import as_csv, as_json
from spork_demo.ui.files import for_download
from spork_demo.ui.plotly_view import payload
from spork_demo.ui.shelf import Shelf
from spork_demo.ui.sweep_table import table_value

SPEED_TITLE = later("Speedup over greedy")
FRONT_TITLE = later("Speed against fidelity")
AS_CSV, AS_JSON = later("Download as CSV"), later("Download as JSON")
CSV_NAME, JSON_NAME = "spork_demo_sweep.csv", "spork_demo_sweep.json"
CERTAIN_SHARE, CERTAIN_SECONDS = 0.01, 1.0
"""Done before a guess at the time left is worth showing."""

FILES = 4
"""Values `file_values` returns."""


def measure_of(value: Any) -> str:
    """The chosen measure of fidelity, the first one for anything else."""
    return value if value in MEASURES else MEASURES[0]


def progress(state: Sweep | None = None, seconds: float = 0.0) -> str:
    """How far a sweep is and how long it may still take; empty when none runs."""
    if state is None:
        return ""
    share = min(1.0, state.share)
    race = min(state.races, state.races_done + 1)
    told = say("Race {race} of {races}", race=race, races=state.races)
    left = seconds_left(share, seconds)
    guess = say("estimating the time left…")
    if left is not None:
        guess = say("about {time} left, estimated from what is done", time=_span(left))
    bar = f'<progress max="1" value="{share:.3f}" aria-label="{escape(told)}"></progress>'
    return f'<div class="sweep-progress">{bar}<span>{escape(told)}, {escape(guess)}</span></div>'


def seconds_left(share: float, seconds: float) -> float | None:
    """Had everything cost what the part that is done did; None while too little is."""
    if share < CERTAIN_SHARE or seconds < CERTAIN_SECONDS:
        return None
    return seconds * (1 - share) / share


def result_values(grid: Sequence[Cell], measure: str) -> tuple[str | None, ...]:
    """Values of speed chart, front and table; None before anything is known."""
    if not any(cell.rounds for cell in grid):
        return None, None, None
    speed = payload(
        sweep_charts.speed_chart(grid),
        sweep_charts.speed_alt(grid),
        title=say(SPEED_TITLE),
        caption=sweep_charts.speed_caption(grid),
        min_width=sweep_charts.speed_width(grid),
    )
    return speed, front_value(grid, measure), table_value(grid, measure)


def front_value(grid: Sequence[Cell], measure: str) -> str:
    return payload(
        sweep_front.front_chart(grid, measure),
        sweep_front.front_alt(grid, measure),
        title=say(FRONT_TITLE),
        caption=paragraph([say(sweep_front.HOW_TO_READ_FRONT), remarks(grid)]),
    )


def best_html(grid: Sequence[Cell]) -> str:
    """The best exact setting in a sentence or a few."""
    if not any(cell.rounds for cell in grid):
        return ""
    found = "found" if best_exact(grid) is not None else "none"
    return f'<p class="sweep-best" data-best="{found}">{escape(best_sentence(grid))}</p>'


def file_values(
    state: Sweep, prompts: Sequence[str], shelf: Shelf, folder: str | Path
) -> list[Any]:
    """CSV, JSON, and the best exact setting for vLLM and for transformers."""
    grid = state.so_far()
    if not any(cell.rounds for cell in grid):
        return [gr.update(interactive=False)] * 2 + [gr.update(visible=False)] * 2
    best, found = best_exact(grid), {}
    if best is not None:
        programs = equivalents(best.resolved, state.provenance)
        found = {"values": dict(best.values), "elsewhere": [one.plain() for one in programs]}
        boxes = [
            gr.update(
                value=one.text or say("no counterpart"), info=paragraph(one.notes), visible=True
            )
            for one in programs
        ]
    else:
        boxes = [gr.update(visible=False)] * 2
    table = as_csv(grid).encode("utf-8")
    everything = as_json(grid, state.provenance, prompts, found or None).encode("utf-8")
    files = [
        for_download(CSV_NAME, table, shelf, folder, say(AS_CSV)),
        for_download(JSON_NAME, everything, shelf, folder, say(AS_JSON)),
    ]
    return [*files, *boxes]


def _span(seconds: float) -> str:
    if seconds < 90:
        return say("{seconds} s", seconds=max(1, round(seconds)))
    return say("{minutes} min", minutes=round(seconds / 60))
