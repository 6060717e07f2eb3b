"""What a drafter returns, and the two calls a drafter answers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from torch import Tensor

from spork_demo.models.cached_model import Scores
from spork_demo.trace import Scheduling


@dataclass(frozen=True, slots=True)
class Proposal:
    """A tree of drafted tokens; a chain is a tree with one branch.

    tokens, parents: one entry a node, parents first; parent -1 hangs from the anchor.
    probabilities: the drafter's probability of each token given its parent, where it has one.
    sampled_from: for a node drawn at random, the exact distribution [vocabulary] it was drawn
        from; None for a node that was chosen, which counts as a point mass.
    rows: for forks the target itself grew, the pending cache row of each node (None where a tip
        was never fed) - the anchor is row 0; empty for every other drafter.
    anchor_logits: with `rows`, the target's logits [vocabulary] after the anchor.
    sources: where each node came from, where that is not `source` for all of them.
    confidences: the drafter's own estimate that each node is accepted, given those above it.
    raw_confidences: the same before temperature scaling.
    scheduled: how many nodes, the first ones, are sent to be judged; None sends them all.
    scheduling: why so many.
    """

    tokens: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    probabilities: tuple[float | None, ...] = ()
    sampled_from: tuple[Tensor | None, ...] = ()
    source: str = ""
    sources: tuple[str, ...] = ()
    rows: tuple[int | None, ...] = ()
    anchor_logits: Tensor | None = None
    confidences: tuple[float | None, ...] = ()
    raw_confidences: tuple[float, ...] = ()
    scheduled: int | None = None
    scheduling: Scheduling | None = None

    def sent(self) -> "Proposal":
        """The part that is to be judged. Nodes come after their parents, so it is a tree too."""
        if self.scheduled is None:
            return self
        end = self.scheduled
        return replace(
            self,
            tokens=self.tokens[:end],
            parents=self.parents[:end],
            probabilities=self.probabilities[:end],
            sampled_from=self.sampled_from[:end],
            sources=self.sources[:end],
            confidences=self.confidences[:end],
            raw_confidences=self.raw_confidences[:end],
            scheduled=None,
        )

    def children(self, node: int) -> tuple[int, ...]:
        """Nodes that hang from `node`; -1 asks for the anchor's."""
        return tuple(n for n, parent in enumerate(self.parents) if parent == node)

    @property
    def reach(self) -> int:
        """Tokens of the longest fork."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(1 + (depths[parent] if parent >= 0 else 0))
        return max(depths, default=0)

    def leaves(self) -> tuple[int, ...]:
        """The last node of every fork."""
        inner = set(self.parents)
        return tuple(n for n in range(len(self.tokens)) if n not in inner)

    def path(self, node: int) -> tuple[int, ...]:
        """Nodes from the anchor's child to `node`."""
        nodes: list[int] = []
        while node >= 0:
            nodes.append(node)
            node = self.parents[node]
        return tuple(reversed(nodes))


class Drafter(Protocol):
    """Anything that proposes tokens.

    features: target layers whose outputs it wants to observe.
    """

    features: tuple[int, ...]

    def propose(self, tokens: Sequence[int], limit: int) -> Proposal:
        """Draft what may follow `tokens`, at most `limit` deep. An empty proposal is fine."""
        ...

    def observe(self, tokens: Sequence[int], scores: Scores | None) -> None:
        """`tokens` are now committed; `scores` was the target's last call, where there was one.

        Its features are those of the rows that were committed in that call: together with the
        rows of the calls before, every token but the anchor. Called once after the prefill and
        once after every round.
        """
        ...

    def rollback(self) -> None:
        """Forget the last proposal, also one that was never finished."""
        ...
