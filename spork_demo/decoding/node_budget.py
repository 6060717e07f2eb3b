"""How many nodes of a tree are worth a row of the target's call.

For chosen nodes only: that none of them was drawn at random is what allows looking at all sizes
before deciding, since the decision depends on nothing a drafted token could tell.
"""

from collections.abc import Sequence
from typing import Protocol

from spork_demo.decoding.cost_table import CostTable


class NodeBudget(Protocol):
    """joints: joint probabilities of the nodes grown so far, highest first."""

    def nodes(self, joints: Sequence[float]) -> int:
        """How many of them, the first ones, are sent."""
        ...

    def hopeless(self, joints: Sequence[float], most: int) -> bool:
        """Whether growing on, to at most `most` nodes, cannot make more of them worth while."""
        ...


class Worthwhile:
    """As many nodes as make the most expected tokens a second on the measured cost curve."""

    def __init__(self, costs: CostTable, draft_seconds: float = 0.0) -> None:
        self._costs = costs
        self._draft_seconds = draft_seconds

    def nodes(self, joints: Sequence[float]) -> int:
        rates = self._rates(1.0, 0, joints)
        return rates.index(max(rates))

    def hopeless(self, joints: Sequence[float], most: int) -> bool:
        """No node to come is more probable than the last one, so that bounds what they bring."""
        if not joints:
            return False
        further = [joints[-1]] * (most - len(joints))
        reachable = self._rates(1.0 + sum(joints), len(joints), further)
        return max(reachable) <= max(self._rates(1.0, 0, joints))

    def _rates(self, expected: float, sent: int, joints: Sequence[float]) -> list[float]:
        """Tokens a second with 0, 1, 2, ... of `joints` on top of `sent` nodes."""
        rates = []
        for count in range(len(joints) + 1):
            expected += joints[count - 1] if count else 0.0
            rates.append(expected / (self._draft_seconds + self._costs.seconds(1 + sent + count)))
        return rates
