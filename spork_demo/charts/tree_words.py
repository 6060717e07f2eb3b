"""What stands behind each place of a fork tree, and how it is told in a few words."""

from collections.abc import Iterable

from spork_demo.charts.figure import literal, number, visible
from spork_demo.charts.palette import fate_name, source_name
from spork_demo.charts.tree_layout import Place
from spork_demo.language import say
from spork_demo.trace import Node, Round, Token


def added(round_: Round) -> list[Token]:
    """Committed tokens that were not drafted: the target's own."""
    return [token for token in round_.committed if token.fate != "accepted"]


def sources(round_: Round) -> list[str]:
    """Where the round's drafted tokens came from, each once, in the order of their first."""
    return list(dict.fromkeys(node.source for node in round_.nodes if node.source))


def item_at(round_: Round, index: int) -> Node | Token | None:
    """The drafted node or the target's own token that a place stands for; None for the anchor."""
    count = len(round_.nodes)
    if 0 <= index < count:
        return round_.nodes[index]
    own = added(round_)
    return own[index - count] if count <= index < count + len(own) else None


def small_numbers(round_: Round, place: Place) -> str:
    """q and p of a place, as short as they can be told."""
    item = item_at(round_, place.index)
    if item is None:
        return ""
    parts = [
        f"{letter} {_share(value)}"
        for letter, value in (("q", item.draft_probability), ("p", item.target_probability))
        if value is not None
    ]
    return " · ".join(parts)


def _share(probability: float) -> str:
    if 0 < probability < 0.005:
        return "&lt;.01"
    return f"{probability:.2f}".removeprefix("0")


def hover_text(round_: Round, place: Place) -> str:
    """Everything recorded of a place, a number a line."""
    item = item_at(round_, place.index)
    if item is None:
        return say("the anchor: the last committed token")
    lines = [f"<b>{literal(visible(item.text)[:60] or place.label)}</b>  {fate_name(place.fate)}"]
    numbers: Iterable[tuple[str, float | None]] = (
        (say("draft probability q"), item.draft_probability),
        (say("target probability p"), item.target_probability),
        (say("confidence"), item.confidence),
        (say("threshold"), getattr(item, "threshold", None)),
    )
    lines += [f"{name} {number(value, 3)}" for name, value in numbers if value is not None]
    if source := getattr(item, "source", ""):
        lines.append(say("from {source}", source=literal(source_name(source))))
    return "<br>".join([*lines, say("token id {token}", token=item.token)])
