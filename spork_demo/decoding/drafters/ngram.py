"""Forks grown best-first from counts."""

import heapq
from collections.abc import Sequence

from spork_demo.decoding.drafters.counts import NgramCounts, likeliest
from spork_demo.decoding.drafters.model_forks import ForkPlan
from spork_demo.decoding.drafters.proposal import Proposal
from spork_demo.decoding.node_budget import NodeBudget
from spork_demo.models.cached_model import Scores


class NgramForks:
    """Grows a tree best-first by joint probability: likely forks go deep, unlikely stay short,
    and `worth` says how many of its nodes are worth a row of the target's call. Plain forks keep
    their shape. Nothing is drafted behind a stop token.
    """

    features: tuple[int, ...] = ()

    def __init__(
        self,
        counts: NgramCounts,
        plan: ForkPlan,
        *,
        source: str = "ngram",
        worth: NodeBudget | None = None,
        stop_ids: frozenset[int] = frozenset(),
    ) -> None:
        self._counts = counts
        self._plan = plan
        self._source = source
        self._worth = worth
        self._stop_ids = stop_ids

    def observe(self, tokens: Sequence[int], scores: Scores | None) -> None:
        self._counts.observe(tokens, scores)

    def rollback(self) -> None:
        """Nothing to do: counts are of committed tokens."""

    def propose(self, tokens: Sequence[int], limit: int) -> Proposal:
        depth, reach = min(self._plan.depth, limit), self._counts.reach
        context = tuple(tokens[-reach:])
        weighs = self._worth is not None and self._plan.shape == "tree"
        nodes: list[tuple[int, int, float, str]] = []
        joints: list[float] = []
        waiting: list[tuple] = []
        paused: list[tuple] = []
        self._open(waiting, -1, 1.0, context, depth)
        while (waiting or paused) and len(nodes) < self._plan.nodes:
            if not waiting:  # the forks that are to go on, all at the same level
                for above, place, behind in heapq.nsmallest(self._plan.survivors, paused):
                    self._open(waiting, place, -above, behind, depth)
                paused = []
                continue
            negative, _, parent, token, probability, source, behind = heapq.heappop(waiting)
            nodes.append((token, parent, probability, source))
            joints.append(-negative)
            if weighs and self._worth.hopeless(joints, self._plan.nodes):
                break
            level = len(behind) - len(context)
            if level < depth and token not in self._stop_ids:
                if level == self._plan.pause:
                    paused.append((negative, len(nodes) - 1, behind))
                else:
                    self._open(waiting, len(nodes) - 1, -negative, behind, depth)
        if weighs:
            nodes = nodes[: self._worth.nodes(joints)]
        return Proposal(
            tokens=tuple(token for token, _, _, _ in nodes),
            parents=tuple(parent for _, parent, _, _ in nodes),
            probabilities=tuple(probability for _, _, probability, _ in nodes),
            sampled_from=(None,) * len(nodes),
            source=self._source,
            sources=tuple(source for _, _, _, source in nodes),
        )

    def _open(
        self, waiting: list, parent: int, joint: float, context: tuple[int, ...], depth: int
    ) -> None:
        """Put the children of `parent` among the candidates; `context` ends with the parent."""
        if depth < 1:
            return
        width = self._plan.width if self._plan.shape == "tree" or parent < 0 else 1
        forecast = self._counts.forecast(context[-self._counts.reach :])
        for token, probability, source in likeliest(forecast, width):
            behind = (*context, token)
            entry = (-joint * probability, parent, parent, token, probability, source, behind)
            heapq.heappush(waiting, entry)
