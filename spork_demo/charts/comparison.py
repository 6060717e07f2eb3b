"""How fast each lane of a race is, and where its seconds go."""

import plotly.graph_objects as go

from spork_demo.charts.figure import (
    clauses,
    counted,
    empty_figure,
    lane_name,
    listed,
    literal,
    milliseconds,
    new_figure,
    number,
    paragraph,
    patterned,
)
from spork_demo.charts.palette import INK, MUTED, PHASES, lane_look, phase_name
from spork_demo.language import later, say
from spork_demo.metrics import FEW_ROUNDS, Metrics, measure, speedups
from spork_demo.trace import Race

NOTHING = later("No lane has committed a token yet.")
LANE_PIXELS = 52
BAR = 0.5
LABEL_PIXELS = 118
DECODE_PHASES = ("draft", "judge", "commit", "other")


def speed_chart(race: Race) -> go.Figure:
    """Decode tokens per second of each lane, labelled with its speedup over the greedy lane.

    A dashed line stands at the greedy lane's speed, 1×; bars that end before it are slower.
    """
    measured = [measure(lane) for lane in race.lanes]
    speeds = [metrics.tokens_per_second or 0.0 for metrics in measured]
    if not any(speeds):
        return empty_figure(say(NOTHING))
    looks = [lane_look(index) for index in range(len(speeds))]
    figure = new_figure(_height(race), top=30, right=LABEL_PIXELS)
    figure.add_bar(
        orientation="h",
        x=[round(speed, 3) for speed in speeds],
        y=list(range(len(speeds))),
        hoverinfo="text",
        hovertext=[_speed_hover(m) for m in measured],
        marker=patterned([look.hue.light for look in looks], [look.pattern for look in looks]),
        width=BAR,
        showlegend=False,
    )
    _lane_axis(figure, race)
    figure.update_xaxes(
        title_text=say("decode tokens per second"), range=[0, max(speeds)], nticks=6, showgrid=False
    )
    labels = map(_speed_label, measured, speedups(race))
    for row, (lane, label) in enumerate(zip(race.lanes, labels, strict=True)):
        _write_lane(figure, row, lane_name(lane), label)
    baseline = measure(race.baseline).tokens_per_second if race.baseline else None
    if baseline:
        _baseline_line(figure, baseline, len(race.lanes))
    return figure


def speed_alt(race: Race) -> str:
    """The speed chart in words."""
    parts = []
    for lane, ratio in zip(race.lanes, speedups(race), strict=True):
        metrics = measure(lane)
        if metrics.tokens_per_second is None:
            continue
        told = {"lane": lane_name(lane), "rate": number(metrics.tokens_per_second, 1)}
        if ratio is None or lane is race.baseline:
            text = say("{lane} {rate} tokens/s", **told)
        elif ratio < 1:
            text = say(
                "{lane} {rate} tokens/s, {ratio}× greedy (slower)", **told, ratio=f"{ratio:.2f}"
            )
        else:
            text = say("{lane} {rate} tokens/s, {ratio}× greedy", **told, ratio=f"{ratio:.2f}")
        if metrics.few_rounds:
            text = say("{told} ({aside})", told=text, aside=_few(metrics))
        parts.append(text)
    if not parts:
        return say(NOTHING)
    return say("Decode speed: {lanes}.", lanes=clauses(parts))


def phase_chart(race: Race) -> go.Figure:
    """What a committed token costs in each lane, in ms, split by phase. Prefill is left out."""
    measured = [measure(lane) for lane in race.lanes]
    costs = [_cost_per_token(metrics) for metrics in measured]
    if not any(cost for cost in costs):
        return empty_figure(say(NOTHING))
    figure = new_figure(_height(race) + 12, top=38, right=70)
    totals = [sum(cost.values()) for cost in costs]
    for phase in DECODE_PHASES:
        look = PHASES[phase]
        values = [cost.get(phase, 0.0) * 1000 for cost in costs]
        figure.add_bar(
            orientation="h",
            name=phase_name(phase),
            x=[round(value, 3) for value in values],
            y=list(range(len(costs))),
            width=BAR,
            marker=patterned(look.hue.light, look.pattern),
            hoverinfo="text",
            hovertext=[
                say(
                    "{phase}: {value} ms per committed token",
                    phase=phase_name(phase),
                    value=f"{value:.2f}",
                )
                for value in values
            ],
        )
    for row, (lane, total) in enumerate(zip(race.lanes, totals, strict=True)):
        _write_lane(figure, row, lane_name(lane), milliseconds(total or None))
    _lane_axis(figure, race)
    figure.update_layout(barmode="stack", legend_traceorder="normal")
    figure.update_xaxes(
        title_text=say("ms per committed token"),
        range=[0, max(totals) * 1000],
        nticks=6,
        showgrid=False,
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
        split = listed(
            f"{phase_name(phase)} {milliseconds(cost[phase])}"
            for phase in DECODE_PHASES
            if cost[phase] >= 0.00005
        )
        parts.append(
            say(
                "{lane} {span} ({split})",
                lane=lane_name(lane),
                span=milliseconds(sum(cost.values())),
                split=split,
            )
        )
    if not parts:
        return say(NOTHING)
    told = say("Time per committed token: {lanes}.", lanes=clauses(parts))
    return paragraph([told, prefill_sentence(race)])


def prefill_sentence(race: Race) -> str:
    """The seconds before the first round, which the phase chart leaves out."""
    spans = [lane.prefill_seconds for lane in race.lanes if lane.rounds]
    if not spans:
        return ""
    low, high = milliseconds(min(spans)), milliseconds(max(spans))
    if low == high:
        return say("Prefill comes before and is not counted here: {span}.", span=low)
    return say("Prefill comes before and is not counted here: {low} to {high}.", low=low, high=high)


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
    speed = number(metrics.tokens_per_second, 1)
    return speed if ratio is None else f"{speed} · <b>{ratio:.2f}×</b>"


def _write_lane(figure: go.Figure, row: int, name: str, result: str) -> None:
    """A lane's name above its bar and its result in the right margin, where nothing crosses it."""
    places = (
        {
            "x": 0,
            "xanchor": "left",
            "y": row - BAR / 2 - 0.02,
            "yanchor": "bottom",
            "text": literal(name),
        },
        {"x": 1, "xanchor": "left", "y": row, "yanchor": "middle", "text": result, "xshift": 8},
    )
    for place in places:
        figure.add_annotation(
            xref="paper", showarrow=False, font={"color": INK.light, "size": 14}, **place
        )


def _speed_hover(metrics: Metrics) -> str:
    lines = [
        say(
            "{tokens} in {seconds} s",
            tokens=counted(metrics.committed, "token"),
            seconds=f"{metrics.decode_seconds:.2f}",
        ),
        say("{count} tokens per round", count=number(metrics.accepted_length)),
        say("{count} target calls per token", count=number(metrics.target_calls_per_token)),
    ]
    return "<br>".join([*lines, _few(metrics)] if metrics.few_rounds else lines)


def _few(metrics: Metrics) -> str:
    rounds = counted(metrics.rounds, "round")
    return say("only {rounds}, fewer than {enough}", rounds=rounds, enough=FEW_ROUNDS)


def _lane_axis(figure: go.Figure, race: Race) -> None:
    figure.update_yaxes(
        range=[len(race.lanes) - 0.55, -0.85],
        showgrid=False,
        zeroline=False,
        showticklabels=False,
    )


def _baseline_line(figure: go.Figure, speed: float, lanes: int) -> None:
    """A dash across every bar, left out where the lanes' names stand."""
    half = BAR / 2 + 0.07
    figure.add_scatter(
        x=[speed, speed, None] * lanes,
        y=[edge for row in range(lanes) for edge in (row - half, row + half, None)],
        mode="lines",
        line={"color": INK.light, "width": 2, "dash": "dot"},
        hoverinfo="skip",
        showlegend=False,
    )
    figure.add_annotation(
        x=speed,
        y=1,
        yref="paper",
        yanchor="bottom",
        text=say("greedy, 1×"),
        showarrow=False,
        font={"color": MUTED.light, "size": 12},
    )


def _height(race: Race) -> int:
    return 96 + LANE_PIXELS * max(2, len(race.lanes))
