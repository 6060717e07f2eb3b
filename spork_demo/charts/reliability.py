"""The reliability diagram: how often predicted survivals came true, and how many there were."""

import plotly.graph_objects as go

from spork_demo.charts.figure import (
    clauses,
    counted,
    empty_figure,
    new_figure,
    number,
    paragraph,
    patterned,
)
from spork_demo.charts.palette import BLUE, INK, LANES, MUTED
from spork_demo.language import later, say
from spork_demo.reliability import (
    CHART_BINS,
    FEW_IN_BIN,
    Bin,
    Prediction,
    binned,
    outcomes,
    predictions,
)
from spork_demo.trace import Trace

NOTHING = later("No drafted token with a confidence has been judged yet.")
BEFORE, AFTER = later("before scaling"), later("after scaling")
ONLY = later("the drafter's confidences")
LOOKS = {
    BEFORE: (LANES[2].hue, "diamond-open", "dash", "\\"),
    AFTER: (BLUE, "circle", "solid", ""),
    ONLY: (BLUE, "circle", "solid", ""),
}

Series = dict[str, tuple[Bin, ...]]


def series(found: tuple[Prediction, ...]) -> Series:
    """Bins before and after temperature scaling, or only once where there was none."""
    before = outcomes(found, scaled=False)
    after = binned(outcomes(found, scaled=True))
    return {BEFORE: binned(before), AFTER: after} if before else {ONLY: after}


def reliability_chart(found: tuple[Prediction, ...]) -> go.Figure:
    """Share that survived against the mean prediction, a point a bin; below, drafts a bin.

    A small point rests on few drafts.
    """
    if not found:
        return empty_figure(say(NOTHING), 360)
    figure = new_figure(360, top=64)
    figure.add_scatter(
        x=[0, 1], y=[0, 1], mode="lines", name=say("comes true"),
        line={"color": MUTED.light, "width": 1.5, "dash": "dot"}, hoverinfo="skip",
    )  # fmt: skip
    shown = series(found)
    for name, bins in shown.items():
        _add_points(figure, name, [each for each in bins if each.count])
        _add_counts(figure, name, bins)
    figure.update_layout(barmode="group", bargap=0.12, bargroupgap=0.05)
    figure.update_xaxes(
        title_text=say("predicted survival"), range=[-0.02, 1.02], zeroline=False, anchor="y2",
        tickvals=[0, 0.2, 0.4, 0.6, 0.8, 1],
    )  # fmt: skip
    most = max(each.count for bins in shown.values() for each in bins)
    figure.update_layout(
        yaxis={"domain": [0.34, 1], "range": [-0.05, 1.08], "tickvals": [0, 0.5, 1],
               "title": {"text": say("survived")}, "zeroline": False},
        yaxis2={"domain": [0, 0.22], "range": [0, most * 1.6], "anchor": "x", "showgrid": False,
                "showticklabels": False, "fixedrange": True, "zerolinecolor": MUTED.light,
                "title": {"text": say("drafts"), "font": {"color": MUTED.light, "size": 12}}},
    )  # fmt: skip
    return figure


def _add_points(figure: go.Figure, name: str, bins: list[Bin]) -> None:
    hue, symbol, dash, _ = LOOKS[name]
    figure.add_scatter(
        name=say(name),
        x=[round(each.predicted, 4) for each in bins],
        y=[round(each.happened, 4) for each in bins],
        mode="lines+markers",
        line={"color": hue.light, "width": 2, "dash": dash},
        marker={
            "symbol": symbol,
            "size": [12 if each.count >= FEW_IN_BIN else 7 for each in bins],
            "color": hue.light,
            "line": {"color": hue.light, "width": 2},
        },
        cliponaxis=False,
        hoverinfo="text",
        hovertext=[
            say(
                "{series}: predicted {predicted}, survived {share} of {drafts}",
                series=say(name),
                predicted=f"{each.predicted:.0%}",
                share=f"{each.happened:.0%}",
                drafts=counted(each.count, "draft"),
            )
            for each in bins
        ],
    )


def _add_counts(figure: go.Figure, name: str, bins: tuple[Bin, ...]) -> None:
    hue, _, _, pattern = LOOKS[name]
    figure.add_bar(
        name=say(name),
        x=[(place + 0.5) / len(bins) for place in range(len(bins))],
        y=[each.count for each in bins],
        yaxis="y2",
        marker=patterned(hue.light, pattern),
        text=[str(each.count) for each in bins],
        textposition="outside",
        textangle=0,
        constraintext="none",
        textfont={"color": INK.light, "size": 11},
        cliponaxis=False,
        hoverinfo="skip",
        showlegend=False,
    )


def reliability_alt(found: tuple[Prediction, ...]) -> str:
    """The diagram in words: each bin's prediction, outcome and count."""
    if not found:
        return say(NOTHING)
    parts = []
    for name, bins in series(found).items():
        told = clauses(
            say(
                "{predicted} predicted, {share} survived ({drafts})",
                predicted=number(each.predicted),
                share=number(each.happened),
                drafts=counted(each.count, "draft"),
            )
            for each in bins
            if each.count
        )
        shown = say(name)
        parts.append(say("{series}: {bins}.", series=shown[0].upper() + shown[1:], bins=told))
    what = say("Predicted survival against outcome in {bins} bins.", bins=CHART_BINS)
    return paragraph([what, *parts])


def reliable_lane(lanes: tuple[Trace, ...]) -> Trace | None:
    """The lane whose confidences are worth a diagram: exact DSpark's before any other's."""
    own = [lane for lane in lanes if lane.settings.method == "dspark" and lane.settings.exact]
    judged = (lane for lane in lanes if predictions(lane.rounds))
    return own[0] if own else next(judged, None)
