"""The rounds of one lane side by side: what each cost and what it committed."""

import plotly.graph_objects as go

from spork_demo.charts.figure import (
    counted,
    empty_figure,
    listed,
    milliseconds,
    new_figure,
    paragraph,
    patterned,
)
from spork_demo.charts.palette import HIGHLIGHT, INK, MUTED, PAGE, PHASES, phase_name
from spork_demo.language import later, say
from spork_demo.metrics import percentile, ratio
from spork_demo.trace import Round, Trace

NOTHING = later("This lane has no rounds yet.")
WINDOW = 120
"""Rounds drawn at once; longer lanes show the stretch around the selected one."""
PHASE_NAMES = ("draft", "judge", "commit", "other")


def rounds_chart(trace: Trace, selected: int, baseline: Trace | None = None) -> go.Figure:
    """One bar a round: its ms by phase below, the tokens it committed above.

    A tick across the bar marks what the greedy lane pays for as many tokens; a bar that ends
    under it gained time. Points carry the round's place in the trace as customdata.
    """
    shown = _window(trace, selected)
    baseline = comparable(trace, baseline)
    if not shown:
        return empty_figure(say(NOTHING))
    figure = new_figure(300, top=44)
    rounds = [trace.rounds[place] for place in shown]
    _add_phases(figure, shown, rounds)
    price = greedy_seconds(baseline)
    _add_greedy_price(figure, shown, rounds, price)
    _add_tokens(figure, shown, rounds)
    ceiling = _ceiling(rounds, price)
    _add_cut_bars(figure, shown, rounds, ceiling)
    if selected in shown:
        figure.add_shape(
            type="rect", layer="below", xref="x", yref="paper", x0=selected + 0.5,
            x1=selected + 1.5, y0=0, y1=1, line={"color": INK.light, "width": 1.5},
            fillcolor=HIGHLIGHT.light,
        )  # fmt: skip
    figure.update_layout(
        barmode="stack", hovermode="x", hoverdistance=-1, bargap=0.18, legend_traceorder="normal",
        yaxis={"domain": [0, 0.6], "title": {"text": "ms"}, "nticks": 5, "range": [0, ceiling]},
        yaxis2={"domain": [0.68, 1], "range": [0, _most(rounds) * 1.45], "anchor": "x",
                "showgrid": False, "fixedrange": True, "showticklabels": False,
                "zerolinecolor": MUTED.light,
                "title": {"text": say("tokens"), "font": {"color": MUTED.light, "size": 12}}},
    )  # fmt: skip
    figure.update_xaxes(
        title_text=say("round"), range=[shown[0] + 0.4, max(shown[-1], shown[0] + 7) + 1.6],
        showgrid=False, zeroline=False, tickvals=_ticks(shown),
    )  # fmt: skip
    return figure


def rounds_alt(trace: Trace, selected: int, baseline: Trace | None = None) -> str:
    """The rounds chart in words, the selected round in figures."""
    baseline = comparable(trace, baseline)
    if not trace.rounds:
        return say(NOTHING)
    committed = sum(len(round_.committed) for round_ in trace.rounds)
    seconds = sum(round_.seconds for round_ in trace.rounds)
    text = say(
        "{rounds} committed {tokens} in {seconds} s.",
        rounds=counted(len(trace.rounds), "round"),
        tokens=counted(committed, "token"),
        seconds=f"{seconds:.2f}",
    )
    if not 0 <= selected < len(trace.rounds):
        return text
    round_ = trace.rounds[selected]
    told = {
        "number": selected + 1,
        "tokens": counted(len(round_.committed), "token"),
        "span": milliseconds(round_.seconds),
        "phases": listed(
            f"{phase_name(p)} {milliseconds(s)}" for p, s in phase_seconds(round_).items() if s > 0
        ),
    }
    price = greedy_seconds(baseline)
    if not price or baseline is trace:
        return paragraph([text, say("Round {number}: {tokens} in {span} ({phases}).", **told)])
    paid = say(
        "Round {number}: {tokens} in {span} ({phases}); greedy pays {price} for as many.",
        **told,
        price=milliseconds(price * len(round_.committed)),
    )
    return paragraph([text, paid])


def phase_seconds(round_: Round) -> dict[str, float]:
    """The seconds of a round by phase; `other` is what the three phases leave."""
    phases = (round_.draft_seconds, round_.judge_seconds, round_.commit_seconds)
    rest = max(0.0, round_.seconds - sum(phases))
    return dict(zip(PHASE_NAMES, (*phases, rest), strict=True))


def greedy_seconds(baseline: Trace | None) -> float | None:
    """The greedy lane's mean seconds per token, prefill apart."""
    if baseline is None:
        return None
    seconds = sum(round_.seconds for round_ in baseline.rounds)
    return ratio(seconds, sum(len(round_.committed) for round_ in baseline.rounds))


def comparable(trace: Trace, baseline: Trace | None) -> Trace | None:
    """The greedy lane, where its price says something of this lane: not of another machine's."""
    return baseline if trace.served is None or trace.served.comparable else None


def _window(trace: Trace, selected: int) -> range:
    count = len(trace.rounds)
    start = max(0, min(selected - WINDOW // 2, count - WINDOW))
    return range(start, min(count, start + WINDOW))


def _ticks(shown: range) -> list[int]:
    """Round numbers to print: all of a few, else every fifth, tenth or twentieth and the first."""
    gap = next((gap for gap in (1, 5, 10) if len(shown) <= 10 * gap), 20)
    numbers = [place + 1 for place in shown]
    return [n for n in numbers if n % gap == 0 or n == numbers[0]]


def _most(rounds: list[Round]) -> int:
    return max(1, *(len(round_.committed) for round_ in rounds))


def _add_phases(figure: go.Figure, shown: range, rounds: list[Round]) -> None:
    for phase in PHASE_NAMES:
        values = [phase_seconds(round_)[phase] * 1000 for round_ in rounds]
        look = PHASES[phase]
        figure.add_bar(
            name=phase_name(phase),
            x=[place + 1 for place in shown],
            y=[round(value, 3) for value in values],
            customdata=list(shown),
            marker=patterned(look.hue.light, look.pattern),
            hoverinfo="text",
            hovertext=[f"{phase_name(phase)} {value:.1f} ms" for value in values],
        )


def _ceiling(rounds: list[Round], price: float | None) -> float:
    """The most ms drawn. A few rounds that a busy machine held up must not flatten the rest."""
    spans = [round_.seconds for round_ in rounds]
    longest, usual = max(spans), percentile(spans, 0.9) or 0.0
    top = longest if longest <= 2.5 * usual else 1.6 * usual
    prices = [(price or 0.0) * len(round_.committed) for round_ in rounds]
    return 1080 * max(top, *prices) or 1.0


def _add_cut_bars(figure: go.Figure, shown: range, rounds: list[Round], ceiling: float) -> None:
    """A mark at the top edge for every bar that goes on beyond it."""
    cut = [(p, r) for p, r in zip(shown, rounds, strict=True) if r.seconds * 1000 > ceiling]
    if not cut:
        return
    figure.add_scatter(
        name=say("longer than drawn"),
        x=[place + 1 for place, _ in cut],
        y=[round(ceiling * 0.95, 3)] * len(cut),
        customdata=[place for place, _ in cut],
        mode="markers",
        marker={
            "symbol": "triangle-up",
            "size": 11,
            "color": PAGE.light,
            "line": {"color": INK.light, "width": 2},
        },
        hoverinfo="text",
        hovertext=[say("{span} in all", span=milliseconds(r.seconds)) for _, r in cut],
    )


def _add_greedy_price(
    figure: go.Figure, shown: range, rounds: list[Round], price: float | None
) -> None:
    """A tick across each bar, drawn twice: a wide one in the page's colour sets it off the bar."""
    if not price:
        return
    x = [edge for place in shown for edge in (place + 0.55, place + 1.45, None)]
    levels = [round(price * len(round_.committed) * 1000, 3) for round_ in rounds]
    y = [edge for level in levels for edge in (level, level, None)]
    for hue, width in ((PAGE, 6), (INK, 2.5)):
        figure.add_scatter(
            name=say("greedy's price"),
            x=x,
            y=y,
            mode="lines",
            line={"color": hue.light, "width": width},
            hoverinfo="skip",
            showlegend=hue is INK,
        )


def _add_tokens(figure: go.Figure, shown: range, rounds: list[Round]) -> None:
    counts = [len(round_.committed) for round_ in rounds]
    figure.add_bar(
        x=[place + 1 for place in shown],
        y=counts,
        yaxis="y2",
        customdata=list(shown),
        marker={"color": MUTED.light},
        width=0.34,
        text=[str(count) for count in counts] if len(counts) <= 60 else None,
        textposition="outside",
        textangle=0,
        constraintext="none",
        textfont={"color": INK.light, "size": 11},
        cliponaxis=False,
        hoverinfo="text",
        hovertext=[
            say(
                "round {number}: {tokens}, {accepted} accepted",
                number=place + 1,
                tokens=counted(count, "token"),
                accepted=round_.accepted,
            )
            for place, count, round_ in zip(shown, counts, rounds, strict=True)
        ],
        showlegend=False,
    )
