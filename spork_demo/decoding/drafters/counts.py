"""What may come next, from counts: over the running text, over text the target itself wrote, and
over what the target thought likely after a token before. No network, no memory on the device.

The longest context that was seen before decides first; what it leaves open is shared out by the
shorter ones (Witten-Bell: Witten and Bell 1991, method C), and what all of them leave open by the
target's own earlier candidates (token recycling, arXiv 2408.08696).
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

from torch import Tensor

from spork_demo.models.cached_model import Scores
from spork_demo.models.ngram_table import NgramTable
from spork_demo.models.top import likeliest as likeliest_tokens

LIVE_WEIGHT = 3
"""What one occurrence in the running text counts for against one in the static table."""
CANDIDATES = 8
"""Of each of the target's distributions so many tokens are recycled."""

NEGLIGIBLE = 0.01
"""What longer contexts leave open below this is not shared out."""

SOURCES = ("table", "context", "recycled")
Forecast = dict[int, tuple[float, str]]
"""Token to its probability and the source that gave most of it."""


class NgramCounts:
    """What followed each context of 1 to `order` - 1 tokens, here and in the static table.

    order: 1 looks at no context. recycle: whether the target's earlier candidates are kept.
    """

    def __init__(self, order: int, table: NgramTable | None = None, *, recycle: bool = False):
        self.order = order
        self._table = table
        self._live_weight = 1 if table is None else LIVE_WEIGHT
        self._followers: defaultdict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
        self._recycle = recycle
        self._candidates: dict[int, list[tuple[int, float]]] = {}
        self._seen = 0

    @property
    def reach(self) -> int:
        """Tokens of context that matter."""
        return max(1, self.order - 1)

    def observe(self, tokens: Sequence[int], scores: Scores | None) -> None:
        """Count what was committed, and keep what the target's last call thought likely."""
        self.add(tokens, self._seen)
        self._seen = len(tokens)
        if self._recycle and scores is not None and scores.tokens:
            self.note(scores.tokens, scores.logits)

    def add(self, tokens: Sequence[int], start: int) -> None:
        """Count `tokens[start:]` as followers of what stands before each of them."""
        for place in range(max(1, start), len(tokens)):
            for size in range(1, min(self.order - 1, place) + 1):
                self._followers[tuple(tokens[place - size : place])][tokens[place]] += 1

    def note(self, tokens: Sequence[int], logits: Tensor) -> None:
        """Keep the likeliest tokens after each of `tokens`, rows of logits [tokens, vocabulary];
        drafted tokens that were refused teach as much as the kept ones.
        """
        ids, chances = likeliest_tokens(logits, CANDIDATES)
        for token, row, p in zip(tokens, ids.tolist(), chances.tolist(), strict=True):
            self._candidates[token] = list(zip(row, p, strict=True))

    def forecast(self, context: Sequence[int]) -> Forecast:
        """Everything that may follow `context`; the probabilities sum to at most 1."""
        parts: defaultdict[int, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
        left = 1.0
        for size in range(min(self.order - 1, len(context)), 0, -1):
            if left < NEGLIGIBLE:
                return self._named(parts)
            left = self._share(parts, tuple(context[-size:]), left)
        for token, probability in self._candidates.get(context[-1], ()) if context else ():
            parts[token][2] += left * probability
        return self._named(parts)

    @staticmethod
    def _named(parts: dict[int, list[float]]) -> Forecast:
        return {
            token: (sum(shares), SOURCES[shares.index(max(shares))])
            for token, shares in parts.items()
        }

    def _share(self, parts: dict[int, list[float]], context: tuple[int, ...], left: float) -> float:
        """Give the followers of one context their shares of `left`; returns what stays open."""
        kept, total, different = self._table.followers(context) if self._table else ([], 0, 0)
        live = self._followers.get(context)
        if not kept and not live:
            return left
        if live:
            known = {token for token, _ in kept}
            different += sum(token not in known for token in live)
            total += self._live_weight * live.total()
        share = left / (total + different)
        for token, count in kept:
            parts[token][0] += share * count
        for token, count in (live or {}).items():
            parts[token][1] += share * self._live_weight * count
        return share * different


def likeliest(forecast: Forecast, width: int) -> list[tuple[int, float, str]]:
    """The `width` likeliest tokens: (token, probability, source), likeliest first."""
    ordered = sorted(forecast.items(), key=lambda pair: (-pair[1][0], pair[0]))
    return [(token, probability, source) for token, (probability, source) in ordered[:width]]
