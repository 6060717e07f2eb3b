"""A sweep drawn: speedup over one knob, as a line or bars, or over two, as squares."""

import math
from collections.abc import Sequence

import plotly.graph_objects as go

from spork_demo.cells import Cell, best_exact
from spork_demo.charts.figure import empty_figure, literal, new_figure, patterned
from spork_demo.charts.palette import BLUE, INK, LANES, MUTED
from spork_demo.charts.sweep_marks import greedy_line, hover, marked, speed_axis
from spork_demo.charts.sweep_words import NOTHING, cell_name, short_name, times, value_text
from spork_demo.language import later, say
from spork_demo.metrics import FEW_ROUNDS
from spork_demo.settings import KNOBS

ROW_PIXELS = 52
COLUMN_PIXELS = 62
HEIGHT = 300
ON_FILL = "#101820"
"""Text on a filled square: the fills are the same on both pages, so it is too."""

SLOWER_TO_FASTER = (
    (0.0, "#E69B5F"),
    (0.35, "#F3CFA9"),
    (0.5, "#F1EFEA"),
    (0.65, "#B9D9EF"),
    (1.0, "#6FB1E0"),
)
LEAST_REACH = 0.3
"""Doublings that full colour stands for at least, so that noise around 1× stays pale."""

HOW_TO_READ_GRID = later(
    "Speedup over greedy: blue is faster, orange slower; ★ fastest exact, ~ fewer than {enough} "
    "rounds. Pick a cell to load its settings into the race."
)
HOW_TO_READ_LINE = later(
    "Speedup over greedy, with the range of the races; ★ fastest exact, ~ fewer than {enough} "
    "rounds. Pick a point to load its settings into the race."
)


def speed_chart(grid: Sequence[Cell]) -> go.Figure:
    """Speedup of every cell: squares for two swept settings, a line or bars for one."""
    if not any(cell.speedup for cell in grid):
        return empty_figure(say(NOTHING))
    names = list(grid[0].values)
    if len(names) == 2:
        return _squares(grid, *names)
    return _line(grid, names[0]) if names[0] in KNOBS else _bars(grid, names[0])


def speed_width(grid: Sequence[Cell]) -> int:
    """Pixels the chart needs; narrower, it scrolls."""
    names = list(grid[0].values)
    if len(names) == 1 and names[0] in KNOBS:
        return 0
    return 56 + COLUMN_PIXELS * len(_values(grid, names[0]))


def speed_caption(grid: Sequence[Cell]) -> str:
    told = HOW_TO_READ_GRID if len(grid[0].values) == 2 else HOW_TO_READ_LINE
    return say(told, enough=FEW_ROUNDS)


def speed_alt(grid: Sequence[Cell]) -> str:
    """The speed chart in words: its ends, and where they are."""
    known = [cell for cell in grid if cell.speedup is not None]
    if not known:
        return say(NOTHING)
    top = max(known, key=lambda cell: cell.speedup or 0)
    bottom = min(known, key=lambda cell: cell.speedup or 0)
    return say(
        "Speedup over greedy in {count} cells, from {low} at {worst} to {high} at {best}.",
        count=len(known),
        low=times(bottom.speedup),
        worst=cell_name(bottom),
        high=times(top.speedup),
        best=cell_name(top),
    )


def _squares(grid: Sequence[Cell], across: str, down: str) -> go.Figure:
    columns, rows = _values(grid, across), _values(grid, down)
    places = {(c.values[across], c.values[down]): place for place, c in enumerate(grid)}
    found = [[places.get((column, row)) for column in columns] for row in rows]
    cells = [[None if place is None else grid[place] for place in line] for line in found]
    logs = [[_doublings(cell) for cell in line] for line in cells]
    reach = max([LEAST_REACH, *(abs(x) for line in logs for x in line if x is not None)])
    figure = new_figure(96 + ROW_PIXELS * max(2, len(rows)), left=8, top=16, bottom=56)
    best = best_exact(grid)
    figure.add_heatmap(
        z=logs,
        zmin=-reach,
        zmax=reach,
        colorscale=[list(stop) for stop in SLOWER_TO_FASTER],
        showscale=False,
        xgap=3,
        ygap=3,
        customdata=found,
        text=[
            [marked(cell, best) if cell and cell.speedup else "" for cell in line] for line in cells
        ],
        texttemplate="%{text}",
        textfont={"color": ON_FILL, "size": 14},
        hovertext=[[hover(cell) if cell else "" for cell in line] for line in cells],
        hoverinfo="text",
        hoverongaps=False,
    )
    if best is not None:
        x, y = columns.index(best.values[across]), rows.index(best.values[down])
        figure.add_shape(
            type="rect", x0=x - 0.48, x1=x + 0.48, y0=y - 0.48, y1=y + 0.48,
            line={"color": INK.light, "width": 3},
        )  # fmt: skip
    _category_axis(figure.update_xaxes, columns, across)
    _category_axis(figure.update_yaxes, rows, down)
    return figure


def _line(grid: Sequence[Cell], name: str) -> go.Figure:
    known = [(place, cell) for place, cell in enumerate(grid) if cell.speedup is not None]
    known.sort(key=lambda found: found[1].values[name])
    figure, best = new_figure(HEIGHT, top=34, bottom=56, right=40), best_exact(grid)
    figure.add_scatter(
        x=[cell.values[name] for _, cell in known],
        y=[cell.speedup for _, cell in known],
        error_y=_ranges([cell for _, cell in known]),
        mode="lines+markers+text",
        text=[marked(cell, best) for _, cell in known],
        textposition="top right",
        textfont={"color": INK.light, "size": 13},
        line={"color": BLUE.light, "width": 2},
        marker={
            "size": 12,
            "color": BLUE.light,
            "symbol": ["circle-open" if cell.few_rounds else "circle" for _, cell in known],
            "line": {"width": 2, "color": BLUE.light},
        },
        customdata=[place for place, _ in known],
        hovertext=[hover(cell) for _, cell in known],
        hoverinfo="text",
        showlegend=False,
        cliponaxis=False,
    )
    values = [cell.values[name] for _, cell in known]
    figure.update_xaxes(
        title_text=short_name(name), tickvals=values, ticktext=list(map(value_text, values))
    )
    greedy_line(figure)
    speed_axis(figure, [cell for _, cell in known])
    return figure


def _bars(grid: Sequence[Cell], name: str) -> go.Figure:
    known = [(place, cell) for place, cell in enumerate(grid) if cell.speedup is not None]
    figure, best = new_figure(HEIGHT, top=34, bottom=56), best_exact(grid)
    looks = [LANES[1 + place % (len(LANES) - 1)] for place, _ in known]
    figure.add_bar(
        x=list(range(len(known))),
        y=[cell.speedup for _, cell in known],
        error_y=_ranges([cell for _, cell in known]),
        text=[marked(cell, best) for _, cell in known],
        textposition="outside",
        textfont={"color": INK.light, "size": 13},
        marker=patterned([look.hue.light for look in looks], [look.pattern for look in looks]),
        width=0.6,
        customdata=[place for place, _ in known],
        hovertext=[hover(cell) for _, cell in known],
        hoverinfo="text",
        showlegend=False,
        cliponaxis=False,
    )
    _category_axis(figure.update_xaxes, [cell.values[name] for _, cell in known], name)
    greedy_line(figure)
    speed_axis(figure, [cell for _, cell in known])
    return figure


def _ranges(cells: Sequence[Cell]) -> dict:
    """Error bars from the slowest race to the fastest."""
    spreads = [cell.spread or (cell.speedup, cell.speedup) for cell in cells]
    return {
        "type": "data",
        "symmetric": False,
        "array": [high - cell.speedup for cell, (_, high) in zip(cells, spreads, strict=True)],
        "arrayminus": [cell.speedup - low for cell, (low, _) in zip(cells, spreads, strict=True)],
        "color": MUTED.light,
        "thickness": 1.5,
        "width": 5,
        "visible": any(cell.spread for cell in cells),
    }


def _category_axis(update, values: Sequence, name: str) -> None:
    update(
        title_text=short_name(name),
        tickmode="array",
        tickvals=list(range(len(values))),
        ticktext=[literal(value_text(value)) for value in values],
        range=[-0.5, len(values) - 0.5],
        showgrid=False,
        zeroline=False,
    )


def _values(grid: Sequence[Cell], name: str) -> list:
    """The swept values, numbers upwards, names in the order they were given."""
    found = list(dict.fromkeys(cell.values[name] for cell in grid))
    return sorted(found) if name in KNOBS else found


def _doublings(cell: Cell | None) -> float | None:
    return math.log2(cell.speedup) if cell is not None and cell.speedup else None
