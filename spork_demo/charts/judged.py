"""The numbers a round was judged by: scores against τ, or probabilities against thresholds."""

import plotly.graph_objects as go

from spork_demo.charts.figure import (
    clauses,
    number,
    patterned,
    phrase,
    shortened,
    token_label,
)
from spork_demo.charts.palette import FATES, INK, PAGE
from spork_demo.charts.rows import rows_figure
from spork_demo.language import say
from spork_demo.trace import Node, Round

FORK_CELLS = 22


def judge_chart(round_: Round) -> go.Figure | None:
    """What the round was judged by: fork scores against τ, or the target's probability of each
    drafted token against its own threshold. None where the target compared tokens directly.
    """
    if round_.scores:
        return _score_chart(round_)
    judged = [node for node in round_.nodes if node.threshold is not None]
    return _threshold_chart(judged) if judged else None


def judge_alt(round_: Round) -> str:
    """The judge chart in words; empty where there is no such chart."""
    if round_.scores:
        scores = clauses(
            say("«{fork}» {score}", fork=_fork_label(round_, score.leaf), score=number(score.score))
            for score in round_.scores[:8]
        )
        limit = number(round_.accept_threshold)
        return say("Fork scores against τ {limit}: {scores}.", limit=limit, scores=scores)
    judged = [node for node in round_.nodes if node.threshold is not None]
    if not judged:
        return ""
    parts = clauses(
        say(
            "«{token}» confidence {confidence}, threshold {threshold}, target {probability}",
            token=token_label(node.token, node.text),
            confidence=number(node.confidence),
            threshold=number(node.threshold),
            probability=number(node.target_probability),
        )
        for node in judged[:8]
    )
    return say("Each drafted token against its threshold: {tokens}.", tokens=parts)


def fork_text(round_: Round, leaf: int) -> str:
    """A fork's text from the anchor to `leaf`."""
    parts: list[str] = []
    while 0 <= leaf < len(round_.nodes) and len(parts) < len(round_.nodes):
        node = round_.nodes[leaf]
        parts.append(node.text or f"#{node.token}")
        leaf = node.parent
    return "".join(reversed(parts))


def _fork_label(round_: Round, leaf: int) -> str:
    return shortened(phrase(fork_text(round_, leaf)), FORK_CELLS)


def _score_chart(round_: Round) -> go.Figure:
    limit = round_.accept_threshold
    best = max(round_.scores, key=lambda score: score.score)
    kept = limit is not None and best.score >= limit
    fates = ["accepted" if s is best and kept else "rejected" for s in round_.scores]
    figure = rows_figure(
        [_fork_label(round_, score.leaf) for score in round_.scores],
        [score.score for score in round_.scores],
        say("score"),
    )
    figure.add_bar(
        x=[round(score.score, 4) for score in round_.scores],
        customdata=[score.leaf for score in round_.scores],
        showlegend=False,
        **_bars(fates),
    )
    if limit is not None:
        figure.add_vline(x=limit, line={"color": INK.light, "width": 2, "dash": "dash"})
        figure.add_annotation(
            x=limit, y=1, yref="paper", yanchor="bottom", text=f"τ {limit:g}", showarrow=False,
            font={"color": INK.light},
        )  # fmt: skip
    return figure


def _threshold_chart(nodes: list[Node]) -> go.Figure:
    labels = [token_label(node.token, node.text) for node in nodes]
    figure = rows_figure(labels, [node.target_probability for node in nodes], say("probability"))
    figure.add_bar(
        name=say("target p"),
        x=[node.target_probability for node in nodes],
        **_bars([node.fate for node in nodes]),
    )
    for name, symbol, size, values in (
        (say("threshold"), "line-ns", 20, [node.threshold for node in nodes]),
        (say("confidence"), "circle", 10, [node.confidence for node in nodes]),
    ):
        figure.add_scatter(
            name=name,
            x=values,
            y=list(range(len(nodes))),
            mode="markers",
            marker={
                "symbol": symbol,
                "size": size,
                "color": PAGE.light,
                "line": {"color": INK.light, "width": 2.5},
            },
            cliponaxis=False,
            hoverinfo="x+name",
        )
    return figure


def _bars(fates: list[str]) -> dict:
    return {
        "orientation": "h",
        "y": list(range(len(fates))),
        "width": 0.5,
        "hoverinfo": "x+name",
        "marker": patterned(
            [FATES[fate].hue.light for fate in fates], [FATES[fate].pattern for fate in fates]
        ),
    }
