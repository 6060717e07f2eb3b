"""A static table of what followed what in text the target itself wrote.

For each context of 1 to 4 tokens the most frequent followers with their counts. Where the target's
distributions were kept, each place counts for all its likely tokens by their probabilities, not
only for the one that was taken. Contexts are packed into one integer of 16 bits a token and kept
sorted, so a look-up is a binary search and the whole table is five arrays in one npz file.
"""

import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from spork_demo.language import later

TOKEN_BITS = 16
LONGEST_CONTEXT = 4
FORMAT = 2
GRAIN = 8
"""Counts are stored in eighths, rounded down so that they never sum to more than their total."""

Shares = Sequence[tuple[int, float]]
"""What one place counts for: tokens with their probabilities."""


@dataclass(frozen=True, slots=True, eq=False)
class NgramTable:
    """Followers by context.

    vocab_size: of the tokenizer whose ids these are.
    contexts: [contexts] uint64, packed and sorted.
    starts: [contexts + 1], followers of context n are starts[n] .. starts[n + 1].
    tokens: [followers] uint16. counts: [followers] uint16, in eighths.
    totals: [contexts, 2] float32, everything that followed before pruning: occurrences, different
        tokens.
    """

    vocab_size: int
    contexts: np.ndarray
    starts: np.ndarray
    tokens: np.ndarray
    counts: np.ndarray
    totals: np.ndarray

    def __len__(self) -> int:
        return len(self.contexts)

    def followers(self, context: Sequence[int]) -> tuple[list[tuple[int, float]], float, float]:
        """Kept (token, count) pairs after `context`, all occurrences, and all different tokens
        before pruning. Empty for a context of 0 or more than 4 tokens or one never seen.
        """
        if not 0 < len(context) <= LONGEST_CONTEXT:
            return [], 0, 0
        key = np.uint64(pack(context))
        place = int(np.searchsorted(self.contexts, key))
        if place == len(self.contexts) or self.contexts[place] != key:
            return [], 0, 0
        span = slice(int(self.starts[place]), int(self.starts[place + 1]))
        counts = (self.counts[span] / GRAIN).tolist()
        pairs = zip(self.tokens[span].tolist(), counts, strict=True)
        occurrences, different = self.totals[place].tolist()
        return list(pairs), occurrences, different

    def save(self, path: Path) -> None:
        np.savez_compressed(
            path,
            format=FORMAT,
            vocab_size=self.vocab_size,
            contexts=self.contexts,
            starts=self.starts,
            tokens=self.tokens,
            counts=self.counts,
            totals=self.totals,
        )

    @classmethod
    def load(cls, path: Path) -> "NgramTable":
        """Read a saved table. Raises ValueError with a sentence when the file is not one."""
        names = ("contexts", "starts", "tokens", "counts", "totals")
        try:
            with np.load(path, allow_pickle=False) as stored:
                if int(stored["format"]) != FORMAT:
                    raise ValueError("another format")
                return cls(int(stored["vocab_size"]), *(stored[name] for name in names))
        except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile) as error:
            raise ValueError(later("The n-gram table is missing or damaged.")) from error

    @classmethod
    def count(
        cls,
        texts: Iterable[tuple[Sequence[int], int, Sequence[Shares] | None]],
        vocab_size: int,
        *,
        keep: Sequence[int] = (8, 6, 4, 4),
        least: int = 2,
    ) -> "NgramTable":
        """Count texts: (ids, where counting starts; what stands before is only context; what each
        place counts for, None for the token that stands there).

        keep: most followers kept for contexts of 1, 2, 3, 4 tokens. least: how often a context
        must have been seen to be kept at all.
        """
        followers: list[defaultdict[int, Counter[int]]] = [
            defaultdict(Counter) for _ in range(LONGEST_CONTEXT)
        ]
        seen: list[Counter[int]] = [Counter() for _ in range(LONGEST_CONTEXT)]
        for ids, start, shares in texts:
            for place in range(max(1, start), len(ids)):
                said = shares[place - start] if shares else ((ids[place], 1.0),)
                for size in range(1, min(LONGEST_CONTEXT, place) + 1):
                    key = pack(ids[place - size : place])
                    seen[size - 1][key] += 1
                    counter = followers[size - 1][key]
                    for token, share in said:
                        counter[token] += share
        rows = [
            (key, counter, keep[size])
            for size in range(LONGEST_CONTEXT)
            for key, counter in followers[size].items()
            if seen[size][key] >= least
        ]
        rows.sort(key=lambda row: row[0])
        kept = [
            [(token, count) for token, count in counter.most_common(most) if count * GRAIN >= 1]
            for _, counter, most in rows
        ]
        limit = np.iinfo(np.uint16).max
        return cls(
            vocab_size,
            contexts=np.array([key for key, _, _ in rows], dtype=np.uint64),
            starts=np.cumsum([0, *map(len, kept)]).astype(np.uint32),
            tokens=np.array([t for pairs in kept for t, _ in pairs], dtype=np.uint16),
            counts=np.array(
                [min(int(c * GRAIN), limit) for pairs in kept for _, c in pairs], dtype=np.uint16
            ),
            totals=np.array([(c.total(), len(c)) for _, c, _ in rows], dtype=np.float32),
        )


def pack(context: Sequence[int]) -> int:
    """A context of up to four token ids below 65,535 as one integer; lengths never collide."""
    packed = 0
    for token in context:
        packed = (packed << TOKEN_BITS) | (token + 1)
    return packed
