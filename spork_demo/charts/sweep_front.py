"""Speed against fidelity: every cell of a sweep, and those no other beats in both."""

from collections.abc import Sequence

import plotly.graph_objects as go

from spork_demo.cells import Cell, best_exact, pareto
from spork_demo.charts.figure import empty_figure, new_figure
from spork_demo.charts.palette import BLUE, GREY, INK, LANES
from spork_demo.charts.sweep_marks import greedy_line, hover, speed_axis
from spork_demo.charts.sweep_words import MEASURE_NAMES, cell_name, measure_text, times
from spork_demo.language import later, say

HEIGHT = 320
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
MOST_TICKS = 6
ORANGE = LANES[2].hue

HOW_TO_READ_FRONT = later(
    "Up is faster, right is closer to greedy's text; the line joins cells that no other beats in "
    "both. Pick a point to load its settings into the race."
)
AXIS_TITLES = {
    "equal_tokens": later("equal tokens: same place, same token as greedy"),
    "perplexity_ratio": later("perplexity ratio to greedy, under the target (right is better)"),
    "rouge_l": later("ROUGE-L against the greedy text"),
    "bleu": later("BLEU against the greedy text"),
}


def front_chart(grid: Sequence[Cell], measure: str) -> go.Figure:
    """Every cell by fidelity and speedup, and the line of those no other one beats in both."""
    shown = [
        (place, cell)
        for place, cell in enumerate(grid)
        if cell.speedup is not None and cell.fidelity(measure) is not None
    ]
    if not shown:
        return empty_figure(say("Texts are compared with greedy's as races end."))
    figure = new_figure(HEIGHT, top=34, bottom=56)
    front = pareto(grid, measure)
    figure.add_scatter(
        x=[cell.fidelity(measure) for cell in front],
        y=[cell.speedup for cell in front],
        mode="lines",
        line={"color": GREY.light, "width": 2, "dash": "dash", "shape": "linear"},
        hoverinfo="skip",
        showlegend=False,
    )
    for exact, name, symbol, hue in (
        (True, say("exact rules"), "circle", BLUE),
        (False, say("article rules"), "square", ORANGE),
    ):
        _points(figure, [(p, c) for p, c in shown if c.settings.exact is exact], measure, name,
                symbol, hue.light)  # fmt: skip
    greedy_line(figure, name_left=True)
    best = best_exact(grid)
    _points(figure, [(p, c) for p, c in shown if c is best], measure, say("fastest exact"),
            "star", INK.light, 17)  # fmt: skip
    _front_axes(figure, [cell.fidelity(measure) for _, cell in shown], measure)
    speed_axis(figure, [cell for _, cell in shown])
    return figure


def front_alt(grid: Sequence[Cell], measure: str) -> str:
    """The front in words, fastest first."""
    front = pareto(grid, measure)
    if not front:
        return say("Texts are compared with greedy's as races end.")
    parts = [
        f"{cell_name(cell)}: {times(cell.speedup)}, {measure_text(measure, cell.fidelity(measure))}"
        for cell in front
    ]
    return say(
        "Cells no other beats in both speedup and {measure}: {cells}.",
        measure=say(MEASURE_NAMES[measure]),
        cells="; ".join(parts),
    )


def _points(
    figure, shown, measure: str, name: str, symbol: str, colour: str, size: int = 12
) -> None:
    if not shown:
        return
    figure.add_scatter(
        x=[cell.fidelity(measure) for _, cell in shown],
        y=[cell.speedup for _, cell in shown],
        mode="markers",
        name=name,
        marker={
            "size": size,
            "color": colour,
            "symbol": [f"{symbol}-open" if cell.few_rounds else symbol for _, cell in shown],
            "line": {"width": 2, "color": colour},
        },
        customdata=[place for place, _ in shown],
        hovertext=[hover(cell) for _, cell in shown],
        hoverinfo="text",
        cliponaxis=False,
        showlegend=True,
    )


def _front_axes(figure: go.Figure, values: Sequence[float], measure: str) -> None:
    """Right is better: a ratio of perplexities runs backwards, a share ends at its best, 1."""
    low, high = min(values), max(values)
    room = max(0.03, (high - low) * 0.1)
    if measure == "perplexity_ratio":
        figure.update_xaxes(title_text=say(AXIS_TITLES[measure]), range=[high + room, low - room])
        return
    span = 1 - low + room
    figure.update_xaxes(
        title_text=say(AXIS_TITLES[measure]),
        range=[1 - span, 1 + span * 0.06],
        tick0=1,
        dtick=next(step for step in TICKS if span / step < MOST_TICKS),
        tickformat=".0%" if measure == "equal_tokens" else None,
    )
