"""Forks from counts over the running text and, where one is shipped, over text the target itself
wrote: no network, no extra memory on the device.

The longest context that was seen before decides first; what it leaves open is shared out by the
shorter ones (Witten-Bell: Witten and Bell 1991, method C).
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Sequence

from spork_demo.decoding.drafters.proposal import Proposal
from spork_demo.models.cached_model import Scores
from spork_demo.models.ngram_table import NgramTable

LIVE_WEIGHT = 3
"""What one occurrence in the running text counts for against one in the static table."""

LEAST_JOINT = 0.06
"""A tree leaves out nodes less probable than this: checking a row costs about as much of a round
as such a node brings back."""


class NgramCounts:
    """What followed each context of 1 to `order` - 1 tokens, here and in the static table."""

    def __init__(self, order: int, table: NgramTable | None = None) -> None:
        self.order = order
        self._table = table
        self._followers: defaultdict[tuple[int, ...], Counter[int]] = defaultdict(Counter)

    def add(self, tokens: Sequence[int], start: int) -> None:
        """Count `tokens[start:]` as followers of what stands before each of them."""
        for place in range(max(1, start), len(tokens)):
            for size in range(1, min(self.order - 1, place) + 1):
                self._followers[tuple(tokens[place - size : place])][tokens[place]] += 1

    def next(self, context: Sequence[int], width: int) -> list[tuple[int, float]]:
        """The `width` likeliest next tokens with their probabilities, likeliest first."""
        shares: defaultdict[int, float] = defaultdict(float)
        left = 1.0
        for size in range(min(self.order - 1, len(context)), 0, -1):
            counts, total, different = self._seen_after(tuple(context[-size:]))
            if not counts:
                continue
            for token, count in counts.items():
                shares[token] += left * count / (total + different)
            left *= different / (total + different)
        return sorted(shares.items(), key=lambda pair: (-pair[1], pair[0]))[:width]

    def _seen_after(self, context: tuple[int, ...]) -> tuple[dict[int, int], int, int]:
        """Weighted counts of the followers of a context, their total, and how many there are."""
        live = self._followers.get(context)
        if self._table is None:
            return dict(live or {}), live.total() if live else 0, len(live or ())
        kept, total, different = self._table.followers(context)
        counts = dict(kept)
        for token, count in (live or {}).items():
            different += token not in counts
            counts[token] = counts.get(token, 0) + LIVE_WEIGHT * count
            total += LIVE_WEIGHT * count
        return counts, total, different


class NgramForks:
    """Grows a tree best-first by joint probability: likely forks go deep, unlikely stay short, and
    very unlikely ones are not sent at all. Plain forks (`branch` false) keep their shape.

    width: children per node; only the first level forks when `branch` is false.
    depth: tokens per fork; budget: nodes per proposal. Nothing is drafted behind a stop token.
    """

    features: tuple[int, ...] = ()

    def __init__(
        self,
        order: int,
        width: int,
        depth: int,
        budget: int,
        *,
        branch: bool,
        stop_ids: frozenset[int] = frozenset(),
        table: NgramTable | None = None,
    ) -> None:
        self._counts = NgramCounts(order, table)
        self._width = width
        self._depth = depth
        self._budget = budget
        self._branch = branch
        self._stop_ids = stop_ids
        self._seen = 0

    def observe(self, tokens: Sequence[int], scores: Scores | None) -> None:
        self._counts.add(tokens, self._seen)
        self._seen = len(tokens)

    def propose(self, tokens: Sequence[int], limit: int) -> Proposal:
        depth = min(self._depth, limit)
        reach = self._counts.order - 1
        nodes: list[tuple[int, int, float]] = []
        waiting: list[tuple[float, int, int, int, float, tuple[int, ...]]] = []
        self._open(waiting, -1, 1.0, tuple(tokens[-reach:]), depth)
        least = LEAST_JOINT if self._branch else 0.0
        while waiting and len(nodes) < self._budget and -waiting[0][0] >= least:
            negative, _, parent, token, probability, context = heapq.heappop(waiting)
            nodes.append((token, parent, probability))
            level = len(context) - min(len(tokens), reach)
            if level < depth and token not in self._stop_ids:
                self._open(waiting, len(nodes) - 1, -negative, context, depth)
        return Proposal(
            tokens=tuple(token for token, _, _ in nodes),
            parents=tuple(parent for _, parent, _ in nodes),
            probabilities=tuple(probability for _, _, probability in nodes),
            sampled_from=(None,) * len(nodes),
            source="ngram",
        )

    def _open(
        self, waiting: list, parent: int, joint: float, context: tuple[int, ...], depth: int
    ) -> None:
        """Put the children of `parent` among the candidates; `context` ends with the parent."""
        if depth < 1:
            return
        width = self._width if self._branch or parent < 0 else 1
        for token, probability in self._counts.next(context, width):
            entry = (-joint * probability, parent, parent, token, probability, (*context, token))
            heapq.heappush(waiting, entry)
