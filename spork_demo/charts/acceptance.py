"""How far into a draft the judge goes along: prefix survival and conditional acceptance."""

import plotly.graph_objects as go

from spork_demo.charts.figure import (
    clauses,
    counted,
    empty_figure,
    lane_name,
    listed,
    literal,
    new_figure,
    number,
    patterned,
)
from spork_demo.charts.palette import INK, lane_look
from spork_demo.language import later, say
from spork_demo.metrics import Metrics, measure
from spork_demo.trace import Race, Trace

NOTHING = later("No lane has drafted tokens yet, so there is no acceptance to show.")
GROUP = 0.8


def acceptance_chart(race: Race) -> go.Figure:
    """Bars: share of all rounds that kept the first k drafted tokens. Diamonds: share kept at k
    among rounds that kept the k - 1 before it and sent a token there.
    """
    lanes = _drafting_lanes(race)
    if not lanes:
        return empty_figure(say(NOTHING))
    figure = new_figure(320, top=42)
    width = GROUP / len(lanes)
    for place, (index, lane, metrics) in enumerate(lanes):
        offset = (place - (len(lanes) - 1) / 2) * width
        _add_bars(figure, index, lane, metrics, offset, width)
        _add_markers(figure, index, metrics, offset)
    deepest = max(len(metrics.conditional_acceptance) for _, _, metrics in lanes)
    figure.add_scatter(
        x=[None], y=[None], mode="markers", name=say("conditional acceptance"),
        marker={"symbol": "diamond-open", "size": 9, "color": INK.light,
                "line": {"width": 2}},
    )  # fmt: skip
    figure.update_layout(barmode="overlay")
    figure.update_xaxes(
        title_text=say("drafted token k"), tickmode="linear", tick0=1, dtick=1,
        range=[0.5, max(deepest, 3) + 0.5], showgrid=False, zeroline=False,
    )  # fmt: skip
    figure.update_yaxes(
        title_text=say("share of rounds"),
        range=[0, 106],
        tickvals=[0, 25, 50, 75, 100],
        ticksuffix=" %",
    )
    return figure


def _add_bars(
    figure: go.Figure, index: int, lane: Trace, metrics: Metrics, offset: float, width: float
) -> None:
    look = lane_look(index)
    shares = metrics.prefix_survival
    figure.add_bar(
        name=literal(lane_name(lane, 24)),
        x=[k + 1 + offset for k in range(len(shares))] or [1 + offset],
        y=[round(100 * share, 2) for share in shares] or [0],
        width=width * 0.92,
        marker=patterned(look.hue.light, look.pattern),
        hoverinfo="text",
        hovertext=[
            f"{literal(lane_name(lane))}<br>"
            + say("first {k} kept in {share} of all rounds", k=k + 1, share=f"{share:.0%}")
            for k, share in enumerate(shares)
        ],
    )


def _add_markers(figure: go.Figure, index: int, metrics: Metrics, offset: float) -> None:
    points = [
        (k, share) for k, share in enumerate(metrics.conditional_acceptance) if share is not None
    ]
    figure.add_scatter(
        x=[k + 1 + offset for k, _ in points],
        y=[round(100 * share, 2) for _, share in points],
        mode="markers",
        marker={
            "symbol": "diamond",
            "size": 9,
            "color": lane_look(index).hue.light,
            "line": {"color": INK.light, "width": 1.5},
        },
        cliponaxis=False,
        hoverinfo="text",
        hovertext=[
            say("token {k}: kept in {share} of rounds that got here", k=k + 1, share=f"{share:.0%}")
            for k, share in points
        ],
        showlegend=False,
    )


def acceptance_alt(race: Race) -> str:
    """The acceptance chart in words."""
    parts = []
    for _, lane, metrics in _drafting_lanes(race):
        shares = listed(f"{share:.0%}" for share in metrics.prefix_survival[:8]) or "0 %"
        rounds = counted(metrics.rounds, "round")
        parts.append(
            say("{lane}: {shares} ({rounds})", lane=lane_name(lane), shares=shares, rounds=rounds)
        )
    if not parts:
        return say(NOTHING)
    return say(
        "Share of all rounds that kept the first 1, 2, … drafted tokens. {lanes}.",
        lanes=clauses(parts),
    )


def acceptance_caption(race: Race) -> str:
    """The identity behind the bars: they add up to the accepted length."""
    parts = [
        f"{lane_name(lane)} {_identity(metrics)}"
        for _, lane, metrics in _drafting_lanes(race)
        if lane.served is None  # a server counts drafts, not what it committed after each
    ]
    if not parts:
        return ""
    return say("Accepted length = 1 + the sum of the bars: {lanes}.", lanes=clauses(parts))


def _identity(metrics: Metrics) -> str:
    """`1 + (15 + 8) / 22 = 2.05`, in whole rounds so that it adds up to the last digit."""
    rounds, own = metrics.rounds, metrics.committed - metrics.accepted
    kept = [round(share * rounds) for share in metrics.prefix_survival]
    bars = " + ".join(map(str, kept)) if len(kept) <= 4 else str(sum(kept))
    total = f"/ {rounds} = {number(metrics.accepted_length)}"
    if own == rounds:
        return f"1 + ({bars or 0}) {total}"
    return say(
        "({own} + {bars}) {total}, as the target added a token in {own} of {rounds} rounds",
        own=own,
        bars=bars or 0,
        total=total,
        rounds=rounds,
    )


def _drafting_lanes(race: Race) -> list[tuple[int, Trace, Metrics]]:
    measured = [(index, lane, measure(lane)) for index, lane in enumerate(race.lanes)]
    return [item for item in measured if item[2].rounds and item[2].scheduled]
