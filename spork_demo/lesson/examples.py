"""Which recorded rounds the lesson shows: real ones, chosen for how much they tell."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from spork_demo.metrics import kept_path
from spork_demo.trace import Race, Round, Trace

MOST_NODES = 12
"""A tree with more drafted tokens than this is hard to read from the back of a room."""


@dataclass(frozen=True, slots=True)
class Place:
    """A round of a recorded race, by their numbers."""

    race: int
    lane: int
    round: int

    def trace(self, races: Sequence[Race]) -> Trace:
        return races[self.race].lanes[self.lane]

    def found(self, races: Sequence[Race]) -> Round:
        return self.trace(races).rounds[self.round]


def refused_in_part(races: Sequence[Race]) -> Place | None:
    """A chain of which some drafts were kept and the next refused."""

    def telling(trace: Trace, round_: Round) -> float:
        if not _exact_chain(trace, round_) or not 2 <= round_.accepted < round_.scheduled:
            return 0
        return round_.accepted + _readable(round_)

    return _best(races, telling)


def kept_whole(races: Sequence[Race]) -> Place | None:
    """A chain of which every draft was kept, so that the target added its bonus."""

    def telling(trace: Trace, round_: Round) -> float:
        whole = round_.accepted == len(round_.nodes) >= 2
        if not _exact_chain(trace, round_) or not whole:
            return 0
        return (len(round_.committed) > round_.accepted) * (round_.accepted + _readable(round_))

    return _best(races, telling)


def forked(races: Sequence[Race]) -> Place | None:
    """A tree whose kept branch took another than the first choice, and whose forks share tokens."""

    def telling(trace: Trace, round_: Round) -> float:
        if trace.settings.method != "spork" or not trace.settings.exact:
            return 0
        if not 4 <= len(round_.nodes) <= MOST_NODES or round_.accepted < 2:
            return 0
        shared = fed_separately(round_) > len(round_.nodes)
        told = 4 * bool(siblings_kept(round_)) + 3 * shared
        return told + min(round_.accepted, 3) + 2 * _readable(round_)

    return _best(races, telling)


def scheduled(races: Sequence[Race]) -> Place | None:
    """A DSpark block of which the scheduler sent a part, and what it sent was worth it."""

    def telling(_: Trace, round_: Round) -> float:
        why = round_.scheduling
        if why is None or why.rule != "hardware" or not 0 < round_.scheduled < len(round_.nodes):
            return 0
        return 1 + round_.accepted + _readable(round_)

    return _best(races, telling)


def article_spork(races: Sequence[Race]) -> tuple[int, int] | None:
    """Race and lane of SPORK by the article whose target proposes its own forks."""
    for number, race in enumerate(races):
        for place, lane in enumerate(race.lanes):
            settings = lane.settings
            article = settings.method == "spork" and settings.rules == "article"
            if article and settings.drafter == "target" and lane.rounds:
                return number, place
    return None


def siblings_kept(round_: Round) -> int:
    """Kept drafts that were not the drafter's first choice among their siblings."""
    return sum(_first_choice(round_, index) != index for index in kept_path(round_.nodes))


def _first_choice(round_: Round, index: int) -> int:
    """The sibling of a node, or the node itself, that its drafter found most probable."""
    nodes = round_.nodes
    siblings = [n for n in range(len(nodes)) if nodes[n].parent == nodes[index].parent]
    return max(siblings, key=lambda n: (nodes[n].draft_probability or 0.0, -n))


def fed_separately(round_: Round) -> int:
    """Tokens the forks would take if each were fed on its own, nothing shared."""
    depths: list[int] = []
    for node in round_.nodes:
        depths.append(1 + (depths[node.parent] if node.parent >= 0 else 0))
    inner = {node.parent for node in round_.nodes}
    return sum(depth for index, depth in enumerate(depths) if index not in inner)


def _best(races: Sequence[Race], telling: Callable[[Trace, Round], float]) -> Place | None:
    rated = [(telling(trace, round_), place) for place, trace, round_ in _rounds(races)]
    score, place = max(rated, key=lambda pair: pair[0], default=(0, None))
    return place if score else None


def _rounds(races: Sequence[Race]) -> Iterator[tuple[Place, Trace, Round]]:
    for number, race in enumerate(races):
        for lane, trace in enumerate(race.lanes):
            for round_ in trace.rounds:
                yield Place(number, lane, round_.index), trace, round_


def _exact_chain(trace: Trace, round_: Round) -> bool:
    chain = all(node.parent == place - 1 for place, node in enumerate(round_.nodes))
    return trace.settings.exact and trace.settings.method in ("speculative", "dspark") and chain


def _readable(round_: Round) -> float:
    """Share of the round's tokens that are whole words."""
    tokens = [*round_.nodes, *round_.committed]
    return 2 * sum(token.text.strip().isalpha() for token in tokens) / len(tokens)
