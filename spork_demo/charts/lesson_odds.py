"""The lesson's charts of probabilities: what a rule or a scheduler does to a distribution."""

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from spork_demo.charts.figure import clauses, listed, number, patterned
from spork_demo.charts.lesson import TEXT, large_figure
from spork_demo.charts.palette import INK, PAGE, lane_look
from spork_demo.language import say

TARGET, RIGHT, WRONG = 0, 3, 2
"""Looks: what should come out, a method that keeps it, one that does not."""


@dataclass(frozen=True, slots=True)
class Odds:
    """One distribution over the chart's tokens. simulated: frequencies that came out of a run."""

    name: str
    look: int
    values: tuple[float, ...]
    simulated: tuple[float, ...] | None = None


def odds_chart(tokens: Sequence[str], all_odds: Sequence[Odds]) -> go.Figure:
    """A group of bars for each token; where a rule was run, what came out as a diamond on its bar.

    Bars stand at numbers and not at names, so that the diamonds can stand in the middle of each.
    """
    figure = large_figure(top=84)
    width = 0.8 / len(all_odds)
    named = False
    for place, odds in enumerate(all_odds):
        at = [token - 0.4 + width * (place + 0.5) for token in range(len(tokens))]
        look = lane_look(odds.look)
        figure.add_bar(
            name=odds.name,
            x=at,
            y=[round(value, 4) for value in odds.values],
            width=width * 0.92,
            marker=patterned(look.hue.light, look.pattern),
            text=[number(value) for value in odds.values],
            textposition="outside",
            textfont={"color": INK.light, "size": TEXT - 2},
            cliponaxis=False,
            hoverinfo="text",
            hovertext=[
                f"{odds.name}, {token}: {number(value, 3)}"
                for token, value in zip(tokens, odds.values, strict=True)
            ],
        )
        if odds.simulated:
            _add_simulated(figure, at, odds, shown=not named)
            named = True
    figure.update_layout(barmode="overlay")
    figure.update_xaxes(tickmode="array", tickvals=list(range(len(tokens))),
                        ticktext=list(tokens), showgrid=False, zeroline=False)  # fmt: skip
    highest = max(max(odds.values) for odds in all_odds)
    figure.update_yaxes(title_text=say("probability"), range=[0, min(1.12, 1.15 * highest + 0.02)])
    return figure


def _add_simulated(figure: go.Figure, at: list[float], odds: Odds, *, shown: bool) -> None:
    figure.add_scatter(
        name=say("came out when run"),
        x=at,
        y=[round(value, 4) for value in odds.simulated or ()],
        mode="markers",
        marker={"symbol": "diamond", "size": 13, "color": PAGE.light,
                "line": {"color": INK.light, "width": 2.5}},
        cliponaxis=False,
        showlegend=shown,
        hoverinfo="text",
        hovertext=[f"{odds.name}: {number(value, 3)}" for value in odds.simulated or ()],
    )  # fmt: skip


def odds_alt(tokens: Sequence[str], all_odds: Sequence[Odds]) -> str:
    """Every distribution in words."""
    parts = []
    for odds in all_odds:
        pairs = zip(tokens, odds.values, strict=True)
        parts.append(f"{odds.name}: {listed(f'{t} {number(v)}' for t, v in pairs)}")
    return say("{told}.", told=clauses(parts))
