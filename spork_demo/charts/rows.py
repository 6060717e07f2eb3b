"""Bars between 0 and 1, a row a token or fork: what judges and schedulers looked at."""

import plotly.graph_objects as go

from spork_demo.charts.figure import literal, new_figure, number
from spork_demo.charts.palette import INK


def rows_figure(names: list[str], values: list[float | None], title: str) -> go.Figure:
    """A row a fork or token: its name at the left, its number in the right margin."""
    figure = new_figure(110 + 30 * len(names), top=40, right=48)
    figure.update_xaxes(range=[0, 1], tickvals=[0, 0.25, 0.5, 0.75, 1], title_text=title)
    figure.update_yaxes(
        tickvals=list(range(len(names))),
        ticktext=[literal(name) for name in names],
        range=[len(names) - 0.5, -0.5],
        showgrid=False,
        zeroline=False,
        ticklabelstandoff=6,
        tickfont={"color": INK.light, "size": 13},
    )
    for row, value in enumerate(values):
        figure.add_annotation(
            x=1, xref="paper", xanchor="left", xshift=10, y=row, text=number(value),
            showarrow=False, font={"color": INK.light, "size": 13},
        )  # fmt: skip
    return figure
