"""Charts of a calibration: scores of right and wrong forks, what the head learned, survival."""

import plotly.graph_objects as go

from spork_demo.calibration import (
    BINS,
    Calibration,
    HeadFit,
    Verdict,
    histogram,
    split_scores,
    survival,
)
from spork_demo.charts.figure import clauses, empty_figure, new_figure, number, patterned
from spork_demo.charts.palette import BLUE, INK, LANES, MUTED
from spork_demo.language import later, say

RIGHT, WRONG = later("forks that agree with greedy"), later("forks that do not")
LOOKS = {RIGHT: (BLUE, ""), WRONG: (LANES[2].hue, "/")}
BEFORE, AFTER, SEEN = (
    later("predicted, before temperature scaling"),
    later("predicted, as used"),
    later("what happened"),
)
SLOT_LOOKS = {
    BEFORE: (LANES[2].hue, "diamond-open", "dash"),
    AFTER: (BLUE, "circle", "solid"),
    SEEN: (LANES[3].hue, "square", "dot"),
}
HEAD_ROWS = (later("fitted head"), later("untrained heads"), later("mean probability"))
HEIGHT = 340


def score_chart(found: Calibration, told: Verdict) -> go.Figure:
    """Share of either kind of fork in each bin of scores, with τ as an upright line."""
    if not found.forks:
        return empty_figure(say("No fork has been scored yet."), HEIGHT)
    figure = new_figure(HEIGHT, top=64)
    for name, scores in zip(LOOKS, split_scores(found, told.judge), strict=True):
        _add_scores(figure, name, scores)
    figure.update_layout(barmode="group", bargap=0.08, bargroupgap=0.02)
    figure.update_xaxes(
        title_text=say("score"), range=[-0.005, 1.005], tickvals=[0, 0.2, 0.4, 0.6, 0.8, 1]
    )
    figure.update_yaxes(title_text=say("share of its kind"), rangemode="tozero", tickformat=".0%")
    figure.add_vline(x=told.threshold, line={"color": INK.light, "width": 2, "dash": "dash"})
    right = told.threshold > 0.8
    figure.add_annotation(
        x=told.threshold, y=1, yref="paper", text=f"τ {told.threshold:.2f}", showarrow=False,
        xanchor="right" if right else "left", yanchor="top", xshift=-6 if right else 6,
        font={"color": INK.light, "size": 14},
    )  # fmt: skip
    return figure


def _add_scores(figure: go.Figure, name: str, scores: list[float]) -> None:
    hue, pattern = LOOKS[name]
    counts = histogram(scores)
    total = len(scores) or 1
    figure.add_bar(
        name=say(name),
        x=[(place + 0.5) / BINS for place in range(BINS)],
        y=[count / total for count in counts],
        marker=patterned(hue.light, pattern),
        hoverinfo="text",
        hovertext=[
            say(
                "{kind}: {count} of {total} score {low} to {high}",
                kind=say(name),
                count=count,
                total=len(scores),
                low=f"{place / BINS:.2f}",
                high=f"{(place + 1) / BINS:.2f}",
            )
            for place, count in enumerate(counts)
        ],
    )


def score_alt(found: Calibration, told: Verdict) -> str:
    """The histograms in words."""
    if not found.forks:
        return say("No fork has been scored yet.")
    middles = []
    for scores in split_scores(found, told.judge):
        ordered = sorted(scores)
        middles.append(number(ordered[len(ordered) // 2] if ordered else None))
    return say(
        "Two histograms of scores. The median of the {right} forks that agree with greedy is "
        "{right_middle}, that of the {wrong} others {wrong_middle}; τ stands at {threshold}.",
        right=told.agreeing,
        wrong=told.disagreeing,
        right_middle=middles[0],
        wrong_middle=middles[1],
        threshold=f"{told.threshold:.2f}",
    )


def head_chart(head: HeadFit) -> go.Figure:
    """AUC of the fitted head, of random heads and of the mean probability, a row each."""
    figure = new_figure(220, top=40, right=56)
    middle = head.untrained[len(head.untrained) // 2]
    rows = ((head.fitted,), head.untrained, (head.mean_probability,))
    looks = ((BLUE, "diamond"), (MUTED, "line-ns-open"), (LANES[3].hue, "circle"))
    for row, (values, (hue, symbol)) in enumerate(zip(rows, looks, strict=True)):
        figure.add_scatter(
            x=list(values), y=[row] * len(values), mode="markers", showlegend=False,
            marker={"color": hue.light, "symbol": symbol, "size": 14, "line": {"width": 2}},
            cliponaxis=False, hoverinfo="x",
        )  # fmt: skip
    figure.add_vline(x=0.5, line={"color": MUTED.light, "width": 1.5, "dash": "dot"})
    figure.add_annotation(
        x=0.5, y=1, yref="paper", yanchor="bottom", text=say("chance"), showarrow=False,
        font={"color": MUTED.light, "size": 12},
    )  # fmt: skip
    figure.update_xaxes(range=[0, 1], tickvals=[0, 0.25, 0.5, 0.75, 1], title_text="AUC")
    figure.update_yaxes(
        tickvals=[0, 1, 2], ticktext=[say(name) for name in HEAD_ROWS], range=[2.5, -0.5],
        showgrid=False, zeroline=False, ticklabelstandoff=8,
        tickfont={"color": INK.light, "size": 13},
    )  # fmt: skip
    for row, value in enumerate((head.fitted, middle, head.mean_probability)):
        figure.add_annotation(
            x=1, xref="paper", xanchor="left", xshift=12, y=row, text=number(value),
            showarrow=False, font={"color": INK.light, "size": 13},
        )  # fmt: skip
    return figure


def survival_chart(found: Calibration) -> go.Figure:
    """Share of drafts that survive up to each slot of a block: predicted, and as it happened."""
    slots = survival(found)
    if not slots:
        return empty_figure(say("No block has been judged yet."), HEIGHT)
    figure = new_figure(HEIGHT, top=64)
    scaled = all(before is not None for _, _, before, _ in slots)
    names = (BEFORE, AFTER, SEEN) if scaled else (AFTER, SEEN)
    for name in names:
        hue, symbol, dash = SLOT_LOOKS[name]
        values = [{BEFORE: each[2], AFTER: each[1], SEEN: each[3]}[name] for each in slots]
        figure.add_scatter(
            name=say(name),
            x=list(range(1, len(slots) + 1)),
            y=[round(value, 4) for value in values],
            mode="lines+markers",
            line={"color": hue.light, "width": 2, "dash": dash},
            marker={"symbol": symbol, "size": 10, "color": hue.light, "line": {"width": 2}},
            cliponaxis=False,
            hoverinfo="text",
            hovertext=[
                say(
                    "draft {slot}: {share} ({name}, {count} drafts)",
                    slot=slot,
                    share=f"{value:.0%}",
                    name=say(name),
                    count=each[0],
                )
                for slot, (value, each) in enumerate(zip(values, slots, strict=True), 1)
            ],
        )
    figure.update_xaxes(title_text=say("draft of the block"), dtick=1, zeroline=False)
    figure.update_yaxes(
        title_text=say("survived up to here"), range=[0, 1.04], tickformat=".0%", zeroline=False
    )
    return figure


def survival_alt(found: Calibration) -> str:
    """Survival in words, slot by slot."""
    slots = survival(found)
    if not slots:
        return say("No block has been judged yet.")
    told = [
        say(
            "draft {slot}: {after} predicted, {seen} happened",
            slot=slot,
            after=f"{after:.0%}",
            seen=f"{seen:.0%}",
        )
        for slot, (_, after, _, seen) in enumerate(slots, 1)
    ]
    return say("Survival by place in the block: {told}.", told=clauses(told))


def head_alt(head: HeadFit) -> str:
    """The rows of the head's chart in words."""
    return say(
        "AUC on forks that were not fitted on: fitted head {fitted}, untrained heads {low} to "
        "{high}, mean probability {mean}.",
        fitted=number(head.fitted),
        low=number(head.untrained[0]),
        high=number(head.untrained[-1]),
        mean=number(head.mean_probability),
    )
