"""The lesson's charts of cost and gain. Large type: they are read from the back of a room."""

from collections.abc import Sequence

import plotly.graph_objects as go

from spork_demo.charts.figure import listed, milliseconds, new_figure, number
from spork_demo.charts.palette import BLUE, FATES, GREEN, INK, MUTED, Hue
from spork_demo.language import say
from spork_demo.lesson.break_even import calls_per_token
from spork_demo.lesson.costs import Curve

HEIGHT = 380
TEXT = 15
STEPS = 50
"""Points a smooth curve is drawn with."""


def large_figure(height: int = HEIGHT, **margins: int) -> go.Figure:
    """The bare figure with the lesson's type sizes."""
    figure = new_figure(height, **{"top": 70, "bottom": 56, **margins})
    figure.update_layout(font_size=TEXT, legend_font_size=TEXT, hoverlabel_font_size=TEXT)
    for update in (figure.update_xaxes, figure.update_yaxes):
        update(tickfont_size=TEXT - 1, title_font_size=TEXT)
    return figure


def cost_chart(curve: Curve) -> go.Figure:
    """Milliseconds of one call on n rows, and of n calls on one row each."""
    figure = large_figure()
    one, most = curve.call(1), curve.most_rows
    plain = say("n calls on one row each")
    figure.add_scatter(
        name=plain,
        x=[1, most],
        y=[1000 * one, 1000 * one * most],
        mode="lines",
        line={"color": MUTED.light, "width": 2, "dash": "dash"},
        hoverinfo="skip",
    )
    figure.add_scatter(
        name=say("one call on n rows"),
        x=list(curve.rows),
        y=[round(1000 * seconds, 3) for seconds in curve.seconds],
        mode="lines+markers",
        line={"color": BLUE.light, "width": 3},
        marker={"size": 9, "color": BLUE.light},
        cliponaxis=False,
        hoverinfo="text",
        hovertext=[
            say("{rows} rows: {time}", rows=rows, time=milliseconds(seconds))
            for rows, seconds in zip(curve.rows, curve.seconds, strict=True)
        ],
    )
    figure.update_xaxes(title_text=say("rows n"), range=[0, most + 0.5], zeroline=False)
    top = 2.2 * 1000 * curve.seconds[-1]
    figure.update_yaxes(title_text=say("milliseconds"), range=[0, min(top, 1000 * one * most)])
    return figure


def cost_alt(curve: Curve) -> str:
    """The measured seconds in words."""
    points = listed(
        say("{rows} rows: {time}", rows=rows, time=milliseconds(seconds))
        for rows, seconds in zip(curve.rows, curve.seconds, strict=True)
    )
    return say("Time of one target call by its rows. {points}.", points=points)


def gain_chart(ratios: Sequence[float], drafts: int, best: int) -> go.Figure:
    """Speedup by draft length, the break-even line, the best length and the chosen one."""
    figure = large_figure()
    lengths = list(range(len(ratios)))
    figure.add_scatter(
        name=say("as fast as plain decoding"),
        x=[0, max(1, len(ratios) - 1)],
        y=[1, 1],
        mode="lines",
        line={"color": MUTED.light, "width": 2, "dash": "dash"},
        hoverinfo="skip",
    )
    figure.add_scatter(
        name=say("speedup"),
        x=lengths,
        y=[round(ratio, 4) for ratio in ratios],
        mode="lines+markers",
        line={"color": BLUE.light, "width": 3},
        marker={"size": 6, "color": BLUE.light},
        hoverinfo="text",
        hovertext=[f"γ {n}: {ratio:.2f}×" for n, ratio in enumerate(ratios)],
    )
    if drafts < len(ratios):
        _mark(figure, say("γ chosen"), drafts, ratios[drafts], INK, "circle-open", 20)
    _mark(figure, say("best γ"), best, ratios[best], GREEN, "star", 20)
    low, high = min(0.8, *ratios), max(1.2, *ratios)
    figure.update_xaxes(title_text=say("γ, tokens drafted a round"), zeroline=False)
    figure.update_yaxes(title_text=say("speedup"), ticksuffix="×",
                        range=[low - 0.05, high + 0.16 * (high - low)])  # fmt: skip
    return figure


def _mark(
    figure: go.Figure, name: str, x: float, y: float, hue: Hue, symbol: str, size: int
) -> None:
    figure.add_scatter(
        name=name,
        x=[x],
        y=[round(y, 4)],
        mode="markers+text",
        marker={"symbol": symbol, "size": size, "color": hue.light, "line": {"width": 3}},
        text=[f"{y:.2f}×" if symbol == "star" else ""],
        textposition="top center",
        textfont={"color": INK.light, "size": TEXT},
        cliponaxis=False,
        hoverinfo="skip",
    )


def gain_alt(ratios: Sequence[float], drafts: int, best: int) -> str:
    """The curve's ends, the chosen and the best length in words."""
    chosen = f"{ratios[drafts]:.2f}×" if drafts < len(ratios) else "–"
    return say(
        "Speedup by draft length: {chosen} with the γ chosen, {drafts}; at best {highest} with γ "
        "{best}.",
        chosen=chosen, drafts=drafts, highest=f"{ratios[best]:.2f}×", best=best,
    )  # fmt: skip


def calls_chart(depth: int, kept_share: float, measured: float) -> go.Figure:
    """Target calls a token by the share of rounds that keep a fork, and the recorded lane."""
    figure = large_figure()
    shares = [place / STEPS for place in range(STEPS + 1)]
    figure.add_scatter(
        name=say("plain decoding: 1 call a token"),
        x=[0, 100],
        y=[1, 1],
        mode="lines",
        line={"color": MUTED.light, "width": 2, "dash": "dash"},
        hoverinfo="skip",
    )
    figure.add_scatter(
        name=say("forks of 1 + {depth} tokens by the target", depth=depth),
        x=[100 * share for share in shares],
        y=[round(calls_per_token(share, depth), 4) for share in shares],
        mode="lines",
        line={"color": FATES["correction"].hue.light, "width": 3},
        hoverinfo="text",
        hovertext=[
            f"{100 * share:.0f} %: {number(calls_per_token(share, depth))}" for share in shares
        ],
    )
    figure.add_scatter(
        name=say("the recorded lane"),
        x=[round(100 * kept_share, 2)],
        y=[round(measured, 4)],
        mode="markers+text",
        marker={"symbol": "diamond", "size": 16, "color": INK.light},
        text=[number(measured)],
        textposition="middle right",
        textfont={"color": INK.light, "size": TEXT},
        cliponaxis=False,
        hoverinfo="skip",
    )
    figure.update_xaxes(title_text=say("rounds that keep a fork"), ticksuffix=" %",
                        range=[-3, 103], zeroline=False)  # fmt: skip
    figure.update_yaxes(title_text=say("target calls a token"), range=[0, 1.12 * (1 + depth)],
                        zeroline=False)  # fmt: skip
    return figure


def calls_alt(depth: int, kept_share: float, measured: float) -> str:
    """Both ends of the curve and the recorded lane in words."""
    return say(
        "Target calls a token fall from {none} when no round keeps a fork to 1 when every round "
        "does, never below; the recorded lane kept one in {share} of its rounds and took "
        "{measured}.",
        none=1 + depth, share=f"{100 * kept_share:.0f} %", measured=number(measured),
    )  # fmt: skip
