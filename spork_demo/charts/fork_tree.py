"""The proposal of one round as a tree: what was drafted, what was kept, what the target added."""

import plotly.graph_objects as go

from spork_demo.charts.figure import (
    clauses,
    counted,
    literal,
    new_figure,
    number,
    phrase,
    token_label,
)
from spork_demo.charts.palette import FATES, INK, MUTED, SOURCES, fate_name, source_name
from spork_demo.charts.tree_layout import ANCHOR, Place, Tree, edge_path, is_kept, lay_out
from spork_demo.charts.tree_words import added, hover_text, small_numbers, sources
from spork_demo.language import say
from spork_demo.metrics import kept_path
from spork_demo.trace import Round

LABEL_CELLS = 14
ROOMY_ROWS = 12
ROOMY_PIXELS = 58
DENSE_PIXELS = 28
ANCHOR_WORD = "anchor"
UNSEEN = "rgba(0,0,0,0)"
MARKER, FRAME, SELECTION = 14, 24, 34
"""Pixels of a node's marker, of the frame that tells its source, of the ring of a picked node."""


def fork_tree(round_: Round, anchor_text: str, selected_node: int | None = None) -> go.Figure:
    """The anchor at the left, drafted tokens by depth to the right, edges drawn by fate.

    Points carry their index as customdata: a drafted node's own, ANCHOR for the anchor, and
    len(nodes) onwards for the tokens the target added itself.
    """
    tree = _tree(round_, anchor_text)
    dense = tree.rows > ROOMY_ROWS
    figure = new_figure(_height(tree, len(sources(round_)) > 1), left=10, bottom=14, top=46)
    figure.update_layout(shapes=_edges(tree), hovermode="closest")
    if selected_node is not None and (place := tree.place(selected_node)):
        _add_selection(figure, place)
    if len(sources(round_)) > 1:
        _add_frames(figure, round_, tree, dense)
    for fate in (ANCHOR_WORD, *FATES):
        _add_places(figure, round_, tree, fate, dense)
    if not dense:
        _add_probabilities(figure, round_, tree)
    _add_scores(figure, round_, tree)
    side = 150 if round_.scores else 12
    figure.update_xaxes(visible=False, range=[-12, tree.width + side])
    figure.update_yaxes(visible=False, range=[tree.rows - 0.4, -1.1 if dense else -0.6])
    return figure


def tree_width(round_: Round, anchor_text: str) -> int:
    """Pixels the tree needs before its labels meet."""
    return round(_tree(round_, anchor_text).width) + (190 if round_.scores else 44)


def fork_tree_alt(round_: Round, anchor_text: str) -> str:
    """The tree in words: its size, the kept path and the token the target added."""
    anchor = token_label(0, anchor_text) if anchor_text else say("the anchor")
    own = added(round_)
    path = [round_.nodes[index] for index in kept_path(round_.nodes)]
    if not round_.nodes:
        parts = [say("No token was drafted after «{anchor}»", anchor=anchor)]
    else:
        leaves = len(round_.nodes) - len({n.parent for n in round_.nodes} - {ANCHOR})
        parts = [
            say(
                "{tokens} in {forks} after «{anchor}»",
                tokens=counted(len(round_.nodes), "drafted token"),
                forks=counted(leaves, "fork"),
                anchor=anchor,
            )
        ]
        kept = phrase("".join(node.text or f"#{node.token}" for node in path))
        parts.append(say("kept «{kept}»", kept=kept) if path else say("none was kept"))
    if own:
        last = token_label(own[-1].token, own[-1].text)
        fate = fate_name(own[-1].fate)
        parts.append(say("the target added «{token}» ({fate})", token=last, fate=fate))
    return say("{told}.", told=clauses(parts))


def reading_order(round_: Round) -> list[int]:
    """Indices of drafted nodes and the target's own tokens as the tree is read: line by line."""
    places = sorted(_tree(round_, "").places[1:], key=lambda place: (place.y, place.depth))
    return [place.index for place in places]


def _tree(round_: Round, anchor_text: str) -> Tree:
    return lay_out(
        round_,
        token_label(0, anchor_text, LABEL_CELLS) if anchor_text else say("prompt"),
        [token_label(node.token, node.text, LABEL_CELLS) for node in round_.nodes],
        [token_label(token.token, token.text, LABEL_CELLS) for token in added(round_)],
    )


def _height(tree: Tree, framed: bool) -> int:
    pixels = DENSE_PIXELS if tree.rows > ROOMY_ROWS else ROOMY_PIXELS + 8 * framed
    return 66 + round(pixels * tree.rows)


def _edges(tree: Tree) -> list[dict]:
    """Kept edges last, so that the verdict's path lies on top."""
    by_index = {place.index: place for place in tree.places}
    places = sorted(tree.places[1:], key=lambda place: is_kept(place.fate))
    return [
        {
            "type": "path",
            "layer": "below",
            "path": edge_path(by_index[place.parent], place),
            "line": {
                "color": FATES[place.fate].hue.light,
                "width": FATES[place.fate].width,
                "dash": FATES[place.fate].dash,
            },
        }
        for place in places
    ]


def _add_selection(figure: go.Figure, place: Place) -> None:
    figure.add_scatter(
        x=[place.x],
        y=[place.y],
        mode="markers",
        marker={
            "symbol": "circle-open",
            "size": SELECTION,
            "color": INK.light,
            "line": {"width": 2.5},
        },
        hoverinfo="skip",
        showlegend=False,
    )


def _add_frames(figure: go.Figure, round_: Round, tree: Tree, dense: bool) -> None:
    """A shape around each drafted token by where it came from, where they differ in that."""
    drafted = [place for place in tree.places if 0 <= place.index < len(round_.nodes)]
    for source in sources(round_):
        places = [place for place in drafted if round_.nodes[place.index].source == source]
        look = SOURCES.get(source)
        figure.add_scatter(
            name=say("from {source}", source=literal(source_name(source))),
            x=[round(place.x, 1) for place in places],
            y=[place.y for place in places],
            mode="markers",
            marker={
                "symbol": look.symbol if look else "octagon-open",
                "size": _frame(dense),
                "color": MUTED.light,
                "line": {"width": 1.5},
            },
            cliponaxis=False,
            hoverinfo="skip",
        )


def _add_places(figure: go.Figure, round_: Round, tree: Tree, fate: str, dense: bool) -> None:
    places = [place for place in tree.places if place.fate == fate]
    if not places:
        return
    look = FATES.get(fate)
    colour = look.hue.light if look else INK.light
    at = {"x": [round(place.x, 1) for place in places], "y": [place.y for place in places]}
    if len(sources(round_)) > 1:
        _add_labels(figure, places, at, _frame(dense), dense)
    figure.add_scatter(
        **at,
        mode="markers" if len(sources(round_)) > 1 else "markers+text",
        name=fate_name(fate),
        text=[_written(place) for place in places],
        textposition="top center",
        textfont=_label_font(fate, dense),
        marker={
            "symbol": look.symbol if look else "square-open",
            "size": 11 if dense else MARKER,
            "color": colour,
            "line": {"color": colour, "width": 2 if fate in ("cut", ANCHOR_WORD) else 0},
        },
        cliponaxis=False,
        customdata=[place.index for place in places],
        hoverinfo="text",
        hovertext=[hover_text(round_, place) for place in places],
    )


def _add_labels(figure: go.Figure, places: list[Place], at: dict, clear: int, dense: bool) -> None:
    """The words above nodes that stand in frames: an unseen marker keeps them clear of those."""
    figure.add_scatter(
        **at,
        mode="markers+text",
        marker={"size": clear, "color": UNSEEN},
        text=[_written(place) for place in places],
        textposition="top center",
        textfont=_label_font(places[0].fate, dense),
        cliponaxis=False,
        hoverinfo="skip",
        showlegend=False,
    )


def _label_font(fate: str, dense: bool) -> dict:
    hue = INK if fate == ANCHOR_WORD else MUTED if fate == "cut" else FATES[fate].hue
    return {"color": hue.light, "size": 12 if dense else 14}


def _frame(dense: bool) -> int:
    return FRAME - 8 if dense else FRAME


def _written(place: Place) -> str:
    text = literal(place.label)
    return f"<b>{text}</b>" if is_kept(place.fate) else text


def _add_probabilities(figure: go.Figure, round_: Round, tree: Tree) -> None:
    """q: the drafter's probability, p: the target's; small, below the marker."""
    labelled = [(place, small_numbers(round_, place)) for place in tree.places]
    labelled = [(place, text) for place, text in labelled if text]
    figure.add_scatter(
        x=[round(place.x, 1) for place, _ in labelled],
        y=[place.y for place, _ in labelled],
        mode="markers+text",  # the unseen marker keeps the text clear of the node's own
        marker={"size": FRAME if len(sources(round_)) > 1 else MARKER + 1, "color": UNSEEN},
        text=[text for _, text in labelled],
        textposition="bottom center",
        textfont={"color": MUTED.light, "size": 11},
        cliponaxis=False,
        hoverinfo="skip",
        showlegend=False,
    )


def _add_scores(figure: go.Figure, round_: Round, tree: Tree) -> None:
    """A score judge's number at the end of each fork, against τ."""
    scored = [(tree.place(score.leaf), score.score) for score in round_.scores]
    scored = [(place, score) for place, score in scored if place]
    if not scored:
        return
    limit = round_.accept_threshold
    figure.add_scatter(
        x=[round(place.x + place.half + 6, 1) for place, _ in scored],
        y=[place.y for place, _ in scored],
        mode="text",
        text=[
            say("score {score} {against}", score=number(score), against=_against(score, limit))
            for _, score in scored
        ],
        textposition="middle right",
        textfont={"color": INK.light, "size": 12},
        cliponaxis=False,
        hoverinfo="skip",
        showlegend=False,
    )


def _against(score: float, limit: float | None) -> str:
    if limit is None:
        return ""
    return f"≥ τ {number(limit)}" if score >= limit else f"&lt; τ {number(limit)}"
