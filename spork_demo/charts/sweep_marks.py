"""What the charts of a sweep share: marks on a cell, and what it says when pointed at."""

from collections.abc import Sequence

import plotly.graph_objects as go

from spork_demo.cells import Cell
from spork_demo.charts.figure import literal
from spork_demo.charts.palette import INK, MUTED
from spork_demo.charts.sweep_words import MEASURE_NAMES, cell_name, measure_text, times
from spork_demo.language import say
from spork_demo.metrics import FEW_ROUNDS

FEW_MARK = "~"
BEST_MARK = "★"


def greedy_line(figure: go.Figure, *, name_left: bool = False) -> None:
    """A line at 1×, named on the side where fewer points are."""
    figure.add_shape(
        type="line", xref="paper", x0=0, x1=1, y0=1, y1=1,
        line={"color": INK.light, "width": 2, "dash": "dot"},
    )  # fmt: skip
    figure.add_annotation(
        xref="paper",
        x=0 if name_left else 1,
        xanchor="left" if name_left else "right",
        y=1,
        yanchor="bottom",
        text=say("greedy, 1×"),
        showarrow=False,
        font={"color": MUTED.light, "size": 12},
    )


def speed_axis(figure: go.Figure, cells: Sequence[Cell]) -> None:
    """From 0 to a little above the fastest race, so that no mark is cut off."""
    fastest = [cell.spread[1] if cell.spread else cell.speedup for cell in cells]
    top = max([1.0, *(speed for speed in fastest if speed is not None)])
    figure.update_yaxes(title_text=say("speedup over greedy"), range=[0, top * 1.15], nticks=6)


def marked(cell: Cell, best: Cell | None) -> str:
    """A cell's speedup with its marks."""
    few = FEW_MARK if cell.few_rounds else ""
    return few + times(cell.speedup) + (f" {BEST_MARK}" if cell is best else "")


def hover(cell: Cell) -> str:
    lines = [
        f"<b>{literal(cell_name(cell))}</b>",
        say("{speedup} greedy", speedup=times(cell.speedup)),
        say("{tokens} tokens in {rounds} rounds", tokens=cell.tokens, rounds=cell.rounds),
    ]
    if cell.spread:
        low, high = map(times, cell.spread)
        lines.append(say("{low} to {high} over {races} races", low=low, high=high,
                         races=cell.races))  # fmt: skip
    for measure, name in MEASURE_NAMES.items():
        if cell.fidelity(measure) is not None:
            lines.append(f"{say(name)} {measure_text(measure, cell.fidelity(measure))}")
    if cell.few_rounds:
        lines.append(say("fewer than {enough} rounds", enough=FEW_ROUNDS))
    return "<br>".join(lines)
