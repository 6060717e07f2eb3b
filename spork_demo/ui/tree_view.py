"""The fork tree as the page shows it: figure, table of its tokens and the story of a picked one."""

from spork_demo.charts.figure import number, token_label
from spork_demo.charts.fork_tree import fork_tree, fork_tree_alt, reading_order, tree_width
from spork_demo.charts.palette import FATES, fate_name, source_name
from spork_demo.charts.tree_words import added
from spork_demo.language import later, say
from spork_demo.trace import Node, Round, Token, Trace
from spork_demo.ui.node_story import node_story
from spork_demo.ui.plotly_view import PickRow, PickTable, payload

TALLEST = 620
HOW_TO_READ = later(
    "q: the drafter's probability, p: the target's. Pick a token in the tree or in the table for "
    "its story."
)
COLUMNS = (
    later("token"),
    later("place"),
    later("fate"),
    later("comes from"),
    later("draft q"),
    later("target p"),
    later("confidence"),
    later("threshold"),
)


def tree_payload(trace: Trace, round_index: int, node_index: int | None = None) -> str:
    """The value of the tree's component for one round of a lane that has it."""
    round_ = trace.rounds[round_index]
    anchor = anchor_text(trace, round_index)
    told = say(HOW_TO_READ) if node_index is None else node_story(trace, round_index, node_index)
    return payload(
        fork_tree(round_, anchor, node_index),
        fork_tree_alt(round_, anchor),
        title=say("Fork tree of round {number}", number=round_index + 1),
        caption=told,
        table=tree_table(round_, node_index),
        min_width=tree_width(round_, anchor),
        max_height=TALLEST,
    )


def anchor_text(trace: Trace, round_index: int) -> str:
    """The text of the last token committed before a round; empty where that is the prompt's."""
    earlier = (round_.committed for round_ in reversed(trace.rounds[:round_index]))
    last = next((committed[-1] for committed in earlier if committed), None)
    return (last.text or f"#{last.token}") if last else ""


def tree_table(round_: Round, selected: int | None = None) -> PickTable:
    """Every drafted token and the target's own, without the columns that hold nothing."""
    count, own = len(round_.nodes), added(round_)
    lines = [
        (
            index,
            _drafted(round_, round_.nodes[index]) if index < count else _own(own[index - count]),
        )
        for index in reading_order(round_)
    ]
    used = [
        column
        for column in range(len(COLUMNS))
        if column < 3 or any(cells[column] for _, cells in lines)
    ]
    rows = tuple(
        PickRow(
            index,
            tuple(cells[column] or "–" for column in used),
            FATES[_fate_at(round_, index)].hue.light,
            index == selected,
        )
        for index, cells in lines
    )
    head = tuple(say(COLUMNS[column]) for column in used)
    return PickTable(say("The tokens of this round"), head, rows)


def _fate_at(round_: Round, index: int) -> str:
    count = len(round_.nodes)
    return round_.nodes[index].fate if index < count else added(round_)[index - count].fate


def _drafted(round_: Round, node: Node) -> tuple[str, ...]:
    parent = round_.nodes[node.parent] if 0 <= node.parent < len(round_.nodes) else None
    after = say("after the anchor")
    if parent:
        after = say("after {token}", token=token_label(parent.token, parent.text))
    return (
        token_label(node.token, node.text, 24),
        after,
        f"{FATES[node.fate].glyph} {fate_name(node.fate)}",
        source_name(node.source),
        _cell(node.draft_probability),
        _cell(node.target_probability),
        _cell(node.confidence),
        _cell(node.threshold),
    )


def _own(token: Token) -> tuple[str, ...]:
    fate = f"{FATES[token.fate].glyph} {fate_name(token.fate)}"
    probability = _cell(token.target_probability)
    label = token_label(token.token, token.text, 24)
    return label, say("the target's own"), fate, "", "", probability, "", ""


def _cell(value: float | None) -> str:
    if value is None:
        return ""
    return "<0.001" if 0 < value < 0.0005 else number(value, 3)
