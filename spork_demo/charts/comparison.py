"""How fast each lane of a race is, and where its seconds go."""

import plotly.graph_objects as go

from spork_demo.charts.figure import (
    counted,
    empty_figure,
    lane_name,
    literal,
    milliseconds,
    new_figure,
    number,
)
from spork_demo.charts.palette import INK, MUTED, PHASES, lane_look
from spork_demo.metrics import FEW_ROUNDS, Metrics, measure, speedups
from spork_demo.trace import Race

NOTHING = "No lane has committed a token yet."
LANE_PIXELS = 44
DECODE_PHASES = ("draft", "judge", "commit", "other")


def speed_chart(race: Race) -> go.Figure:
    """Decode tokens per second of each lane, labelled with its speedup over the greedy lane.

    A dashed line stands at the greedy lane's speed, 1×; bars that end before it are slower.
    """
    measured = [measure(lane) for lane in race.lanes]
    speeds = [metrics.tokens_per_second or 0.0 for metrics in measured]
    if not any(speeds):
        return empty_figure(NOTHING)
    looks = [lane_look(index) for index in range(len(speeds))]
    figure = new_figure(_height(race), top=34)
    figure.add_bar(
        orientation="h",
        x=[round(speed, 3) for speed in speeds],
        y=list(range(len(speeds))),
        text=[_speed_label(m, s) for m, s in zip(measured, speedups(race), strict=True)],
        textposition="outside",
        cliponaxis=False,
        textfont={"color": INK.light, "size": 13},
        hoverinfo="text",
        hovertext=[_speed_hover(m) for m in measured],
        marker={
            "color": [look.hue.light for look in looks],
            "pattern": {"shape": [look.pattern for look in looks], "fillmode": "overlay",
                        "size": 7, "fgopacity": 0.45},
        },
        width=0.62,
        showlegend=False,
    )  # fmt: skip
    _lane_axis(figure, race)
    figure.update_xaxes(
        title_text="decode tokens per second", range=[0, max(speeds) * 1.34], nticks=6
    )
    baseline = measure(race.baseline).tokens_per_second if race.baseline else None
    if baseline:
        _baseline_line(figure, baseline)
    return figure


def speed_alt(race: Race) -> str:
    """The speed chart in words."""
    parts = []
    for lane, ratio in zip(race.lanes, speedups(race), strict=True):
        metrics = measure(lane)
        if metrics.tokens_per_second is None:
            continue
        text = f"{lane_name(lane)} {number(metrics.tokens_per_second, 1)} tokens/s"
        if ratio is not None and lane is not race.baseline:
            text += f", {ratio:.2f}× greedy" + (" (slower)" if ratio < 1 else "")
        parts.append(text + (f" ({_few(metrics)})" if metrics.few_rounds else ""))
    if not parts:
        return NOTHING
    return "Decode speed: " + "; ".join(parts) + "."


def phase_chart(race: Race) -> go.Figure:
    """What a committed token costs in each lane, in ms, split by phase. Prefill is left out."""
    measured = [measure(lane) for lane in race.lanes]
    costs = [_cost_per_token(metrics) for metrics in measured]
    if not any(cost for cost in costs):
        return empty_figure(NOTHING)
    figure = new_figure(_height(race) + 12, top=38)
    rows = list(range(len(costs)))
    totals = [sum(cost.values()) for cost in costs]
    for phase in DECODE_PHASES:
        look = PHASES[phase]
        values = [cost.get(phase, 0.0) * 1000 for cost in costs]
        figure.add_bar(
            orientation="h",
            name=phase,
            x=[round(value, 3) for value in values],
            y=rows,
            width=0.62,
            marker={"color": look.hue.light, "pattern": {"shape": look.pattern,
                    "fillmode": "overlay", "size": 7, "fgopacity": 0.45}},
            hoverinfo="text",
            hovertext=[f"{phase}: {value:.2f} ms per committed token" for value in values],
        )  # fmt: skip
    figure.add_scatter(
        x=[round(total * 1000, 3) for total in totals],
        y=rows,
        mode="text",
        text=[f" {milliseconds(total)}" if total else " –" for total in totals],
        textposition="middle right",
        textfont={"color": INK.light},
        cliponaxis=False,
        hoverinfo="skip",
        showlegend=False,
    )
    _lane_axis(figure, race)
    figure.update_layout(barmode="stack", legend_traceorder="normal")
    figure.update_xaxes(
        title_text="ms per committed token", range=[0, max(totals) * 1250], nticks=6
    )
    return figure


def phase_alt(race: Race) -> str:
    """The phase chart in words, prefill included."""
    parts = []
    for lane in race.lanes:
        metrics = measure(lane)
        cost = _cost_per_token(metrics)
        if not cost:
            continue
        split = ", ".join(
            f"{phase} {milliseconds(cost[phase])}"
            for phase in DECODE_PHASES
            if cost[phase] >= 0.00005
        )
        parts.append(f"{lane_name(lane)} {milliseconds(sum(cost.values()))} ({split})")
    if not parts:
        return NOTHING
    return "Time per committed token: " + "; ".join(parts) + ". " + prefill_sentence(race)


def prefill_sentence(race: Race) -> str:
    """The seconds before the first round, which the phase chart leaves out."""
    spans = [lane.prefill_seconds for lane in race.lanes if lane.rounds]
    if not spans:
        return ""
    low, high = milliseconds(min(spans)), milliseconds(max(spans))
    span = low if low == high else f"{low} to {high}"
    return f"Prefill comes before and is not counted here: {span}."


def _cost_per_token(metrics: Metrics) -> dict[str, float]:
    if not metrics.committed:
        return {}
    return {
        "draft": metrics.draft_seconds / metrics.committed,
        "judge": metrics.judge_seconds / metrics.committed,
        "commit": metrics.commit_seconds / metrics.committed,
        "other": metrics.other_seconds / metrics.committed,
    }


def _speed_label(metrics: Metrics, ratio: float | None) -> str:
    if metrics.tokens_per_second is None:
        return " –"
    label = f" {metrics.tokens_per_second:.1f}"
    return label if ratio is None else f"{label} · <b>{ratio:.2f}×</b>"


def _speed_hover(metrics: Metrics) -> str:
    lines = [
        f"{counted(metrics.committed, 'token')} in {metrics.decode_seconds:.2f} s",
        f"{number(metrics.accepted_length)} tokens per round",
        f"{number(metrics.target_calls_per_token)} target calls per token",
    ]
    return "<br>".join([*lines, _few(metrics)] if metrics.few_rounds else lines)


def _few(metrics: Metrics) -> str:
    return f"only {counted(metrics.rounds, 'round')}, fewer than {FEW_ROUNDS}"


def _lane_axis(figure: go.Figure, race: Race) -> None:
    names = [literal(lane_name(lane, 24)) for lane in race.lanes]
    figure.update_yaxes(
        tickmode="array",
        tickvals=list(range(len(names))),
        ticktext=names,
        range=[len(names) - 0.5, -0.5],
        showgrid=False,
        zeroline=False,
        ticklabelstandoff=6,
        tickfont={"color": INK.light, "size": 13},
    )


def _baseline_line(figure: go.Figure, speed: float) -> None:
    figure.add_vline(x=speed, line={"color": INK.light, "width": 1.6, "dash": "dash"})
    figure.add_annotation(
        x=speed,
        y=1,
        yref="paper",
        yanchor="bottom",
        text="greedy, 1×",
        showarrow=False,
        font={"color": MUTED.light, "size": 12},
    )


def _height(race: Race) -> int:
    return 92 + LANE_PIXELS * max(2, len(race.lanes))
