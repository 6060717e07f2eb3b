"""Where each node of a proposal tree stands: depth to the right, siblings below one another.

What was committed runs straight along the top line, so that it reads as text; what was not hangs
below, each fork on a line of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from spork_demo.charts.figure import columns
from spork_demo.charts.palette import FATES
from spork_demo.metrics import kept_path
from spork_demo.trace import Round

ANCHOR = -1
CELL_PIXELS = 8.2
LABEL_PIXELS = 34
GUTTER = 42


@dataclass(frozen=True, slots=True)
class Place:
    """A drawn node. index: a drafted node's own, ANCHOR, or from len(nodes) on the committed
    tokens that were not drafted. parent: index of the place the edge comes from; None at the root.
    """

    index: int
    parent: int | None
    fate: str
    label: str
    depth: int
    x: float
    y: int
    half: float


@dataclass(frozen=True, slots=True)
class Tree:
    """All places of a round, the anchor first. width in pixels, rows in lines."""

    places: tuple[Place, ...]
    width: float
    rows: int

    def place(self, index: int) -> Place | None:
        return next((place for place in self.places if place.index == index), None)


@dataclass(frozen=True, slots=True)
class _Branch:
    index: int
    parent: int | None
    fate: str
    label: str
    depth: int


def lay_out(round_: Round, anchor: str, labels: Sequence[str], own: Sequence[str]) -> Tree:
    """Places for the anchor, every drafted node and the tokens the target added itself.

    labels, own: what is written at drafted nodes and at the target's own tokens.
    """
    branches = _branches(round_, anchor, labels, own)
    children: dict[int, list[int]] = {branch.index: [] for branch in branches}
    for branch in sorted(branches[1:], key=lambda branch: not is_kept(branch.fate)):
        children[branch.parent].append(branch.index)
    rows = _rows(children)
    xs, halves, width = _columns(branches)
    places = tuple(
        Place(b.index, b.parent, b.fate, b.label, b.depth, xs[b.depth], rows[b.index],
              halves[b.depth])
        for b in branches
    )  # fmt: skip
    leaves = sum(not below for below in children.values())
    return Tree(places, width, leaves)


def _branches(
    round_: Round, anchor: str, labels: Sequence[str], own: Sequence[str]
) -> list[_Branch]:
    """Parents before children. The target's own tokens hang from the end of the kept path."""
    branches = [_Branch(ANCHOR, None, "anchor", anchor, 0)]
    depth = {ANCHOR: 0}
    count = len(round_.nodes)
    added = [token for token in round_.committed if token.fate != "accepted"]
    end = (kept_path(round_.nodes)[-1:] or (ANCHOR,))[0]
    nodes = [
        _Branch(
            index, node.parent if 0 <= node.parent < index else ANCHOR, node.fate, labels[index], 0
        )
        for index, node in enumerate(round_.nodes)
    ]
    for place, token in enumerate(added):
        nodes.append(_Branch(count + place, end, token.fate, own[place], 0))
        end = count + place
    for node in nodes:
        depth[node.index] = depth[node.parent] + 1
        branches.append(_Branch(node.index, node.parent, node.fate, node.label, depth[node.index]))
    return branches


def _rows(children: dict[int, list[int]]) -> dict[int, int]:
    """The line of every node: its first child's, so that only later children start new ones."""
    rows: dict[int, int] = {}
    line = 0
    stack = [(ANCHOR, 0)]
    while stack:
        index, nth = stack.pop()
        line += nth > 0
        rows[index] = line
        stack += [(child, nth) for nth, child in reversed(list(enumerate(children[index])))]
    return rows


def _columns(branches: list[_Branch]) -> tuple[list[float], list[float], float]:
    """Centre and half width of every depth, and the whole width, in pixels."""
    deepest = max(branch.depth for branch in branches)
    halves = [0.0] * (deepest + 1)
    for branch in branches:
        cells = columns(branch.label) * CELL_PIXELS
        halves[branch.depth] = max(halves[branch.depth], cells / 2, LABEL_PIXELS)
    centres: list[float] = []
    edge = 0.0
    for half in halves:
        centres.append(edge + half)
        edge += 2 * half + GUTTER
    return centres, halves, edge - GUTTER


def edge_path(start: Place, end: Place) -> str:
    """A curve that leaves and arrives level, and climbs only in the gutter between two labels."""
    left, right = start.x + start.half, end.x - end.half
    middle = (left + right) / 2
    return (
        f"M {start.x:.1f},{start.y:.2f} L {left:.1f},{start.y:.2f} "
        f"C {middle:.1f},{start.y:.2f} {middle:.1f},{end.y:.2f} {right:.1f},{end.y:.2f} "
        f"L {end.x:.1f},{end.y:.2f}"
    )


def is_kept(fate: str) -> bool:
    """Whether a token of this fate was committed."""
    return fate in FATES and fate not in ("rejected", "cut")
