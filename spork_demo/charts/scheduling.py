"""Why so many drafts of a block were sent: their chances, and what sending them would cost."""

import plotly.graph_objects as go

from spork_demo.charts.figure import (
    clauses,
    counted,
    listed,
    milliseconds,
    new_figure,
    number,
    patterned,
    shortened,
    token_label,
)
from spork_demo.charts.palette import BLUE, FATES, GREEN, INK, MUTED, PAGE, PHASES
from spork_demo.charts.rows import rows_figure
from spork_demo.language import later, say
from spork_demo.trace import Round

LABEL_CELLS = 10
SENT, CUT = later("sent"), later("cut")
LOOKS = {SENT: (BLUE, ""), CUT: (FATES["cut"].hue, FATES["cut"].pattern)}
CHOSEN, CONSIDERED, REFUSED = later("chosen"), later("considered"), later("refused")
POINTS = {
    CONSIDERED: (MUTED, "circle", 9),
    CHOSEN: (GREEN, "star", 18),
    REFUSED: (FATES["rejected"].hue, "x", 13),
}


def decides(round_: Round) -> list[float]:
    """What the rule looked at, a number a draft: its own confidence or its prefix survival."""
    if round_.scheduling.rule == "threshold":
        return [node.confidence or 0.0 for node in round_.nodes]
    return list(round_.scheduling.survivals)


def chances_chart(round_: Round) -> go.Figure:
    """A row a draft, sent and cut ones apart: prefix survival, or confidence against c."""
    why, values = round_.scheduling, decides(round_)
    by_threshold = why.rule == "threshold"
    figure = rows_figure(
        [_row_name(round_, place) for place in range(len(values))], values, _quantity(round_)
    )
    for state, (hue, pattern) in LOOKS.items():
        drafts = [k for k in range(len(values)) if (k < round_.scheduled) == (state == SENT)]
        if drafts:
            _add_bars(figure, state, drafts, round_, patterned(hue.light, pattern))
    other = why.survivals if by_threshold else [node.confidence for node in round_.nodes]
    figure.add_scatter(
        name=say("predicted survival") if by_threshold else say("confidence of the draft alone"),
        x=other,
        y=list(range(len(other))),
        mode="markers",
        marker={"symbol": "diamond", "size": 9, "color": PAGE.light,
                "line": {"color": INK.light, "width": 2}},
        cliponaxis=False,
        hoverinfo="x+name",
    )  # fmt: skip
    if by_threshold:
        figure.add_scatter(
            name=say("threshold c {limit}", limit=number(why.threshold)),
            x=[why.threshold] * 2,
            y=[-0.5, len(values) - 0.5],
            mode="lines",
            line={"color": INK.light, "width": 2, "dash": "dash"},
            hoverinfo="skip",
        )
    return figure


def _quantity(round_: Round) -> str:
    by_threshold = round_.scheduling.rule == "threshold"
    return say("confidence") if by_threshold else say("predicted survival")


def _add_bars(figure: go.Figure, state: str, drafts: list[int], round_: Round, fill: dict) -> None:
    values, name = decides(round_), _quantity(round_)
    figure.add_bar(
        name=say(state),
        orientation="h",
        x=[round(values[k], 4) for k in drafts],
        y=drafts,
        width=0.5,
        marker=fill | {"line": {"color": FATES["cut"].hue.light, "width": 1.5}},
        customdata=drafts,
        hoverinfo="text",
        hovertext=[
            say(
                "draft {number}, {state}: {quantity} {value}",
                number=k + 1,
                state=say(state),
                quantity=name,
                value=number(values[k], 3),
            )
            for k in drafts
        ],
    )


def _row_name(round_: Round, place: int) -> str:
    node = round_.nodes[place]
    label = shortened(token_label(node.token, node.text), LABEL_CELLS)
    return f"{place + 1} {label} {FATES[node.fate].glyph}"


def chances_alt(round_: Round) -> str:
    """The chances in words."""
    parts = clauses(
        say(
            "«{token}» {value}, {state}",
            token=token_label(node.token, node.text),
            value=number(value),
            state=say(SENT if place < round_.scheduled else CUT),
        )
        for place, (node, value) in enumerate(zip(round_.nodes, decides(round_), strict=True))
    )
    return say("Each draft's {quantity}: {drafts}.", quantity=_quantity(round_), drafts=parts)


def throughput_chart(round_: Round) -> go.Figure | None:
    """Above, expected tokens per second by drafts sent; below, the measured seconds behind it.

    None where the rule did not weigh costs.
    """
    why = round_.scheduling
    if not why.throughputs:
        return None
    figure = new_figure(360, top=64)
    _add_throughputs(figure, round_)
    lengths = list(range(min(len(why.call_seconds), len(round_.nodes) + 1)))
    for phase, name, values in (
        ("draft", say("drafting the block"), [why.draft_seconds] * len(lengths)),
        ("judge", say("target call"), [why.call_seconds[n] for n in lengths]),
    ):
        look = PHASES[phase]
        figure.add_bar(
            name=name,
            x=lengths,
            y=[round(1000 * value, 3) for value in values],
            yaxis="y2",
            marker=patterned(look.hue.light, look.pattern),
            hoverinfo="text",
            hovertext=[f"{name}: {milliseconds(value)}" for value in values],
        )
    low, high = min(why.throughputs), max(*why.throughputs, *why.hopes, 0.0)
    room = 0.22 * (high - low) or 1.0
    figure.update_layout(
        barmode="stack", bargap=0.3, legend_traceorder="normal",
        yaxis={"domain": [0.42, 1], "range": [low - room, high + 2 * room], "nticks": 4,
               "zeroline": False, "title": {"text": say("Θ, tokens/s")}},
        yaxis2={"domain": [0, 0.32], "anchor": "x", "fixedrange": True, "nticks": 3,
                "title": {"text": "ms", "font": {"color": MUTED.light, "size": 12}},
                "tickfont": {"color": MUTED.light, "size": 12}, "rangemode": "tozero"},
    )  # fmt: skip
    figure.update_xaxes(
        title_text=say("drafts sent"), tickmode="linear", tick0=0, dtick=1, anchor="y2",
        range=[-0.6, len(lengths) - 0.4], showgrid=False, zeroline=False,
    )  # fmt: skip
    return figure


def _add_throughputs(figure: go.Figure, round_: Round) -> None:
    values = round_.scheduling.throughputs
    figure.add_scatter(
        x=list(range(len(values))), y=[round(value, 3) for value in values], mode="lines",
        line={"color": MUTED.light, "width": 2}, hoverinfo="skip", showlegend=False,
    )  # fmt: skip
    for state, (hue, symbol, size) in POINTS.items():
        lengths = [n for n in range(len(values)) if _state(n, round_.scheduled) == state]
        if lengths:
            figure.add_scatter(
                name=say(state),
                x=lengths,
                y=[round(values[n], 3) for n in lengths],
                mode="markers+text",
                marker={"symbol": symbol, "size": size, "color": hue.light},
                text=[number(values[n], 1) for n in lengths],
                textposition="top center",
                textfont={"color": INK.light, "size": 12},
                cliponaxis=False,
                hoverinfo="text",
                hovertext=[
                    say(
                        "{drafts}, {state}: Θ {value}",
                        drafts=counted(n, "draft"),
                        state=say(state),
                        value=f"{values[n]:.2f}",
                    )
                    for n in lengths
                ],
            )


def _state(length: int, scheduled: int) -> str:
    if length == scheduled:
        return CHOSEN
    return CONSIDERED if length < scheduled else REFUSED


def throughput_alt(round_: Round) -> str:
    """The throughputs and the measured seconds in words."""
    why = round_.scheduling
    rates = clauses(
        say(
            "{drafts} {value} ({state})",
            drafts=counted(n, "draft"),
            value=number(value, 1),
            state=say(_state(n, round_.scheduled)),
        )
        for n, value in enumerate(why.throughputs)
    )
    return say(
        "Expected tokens per second by drafts sent: {rates}. Drafting takes {draft}; target calls "
        "on 1, 2, … rows {calls}.",
        rates=rates,
        draft=milliseconds(why.draft_seconds),
        calls=listed(milliseconds(s) for s in why.call_seconds[: len(round_.nodes) + 1]),
    )
