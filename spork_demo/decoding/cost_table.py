"""What a round costs on this machine: measured seconds of drafting and of target calls by rows.

The scheduler of DSpark weighs expected tokens against these (arXiv 2607.05147, section 4.2). They
depend on device, dtype and length of the context, so they are measured where they are used.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from spork_demo.decoding.drafters.dspark import Blocks, DSparkChain
from spork_demo.decoding.stopwatch import synchroniser
from spork_demo.models.cached_model import CachedModel
from spork_demo.models.pair import Pair
from spork_demo.settings import KNOBS, Settings

BANDS = (64, 256, 1024, 4096, 16384)
"""Context lengths a table is measured at; a run uses the one nearest to its own."""

FEWEST, MOST, PATIENCE = 3, 9, 1.5
"""Repeats of a measurement, as many as fit into so many seconds."""


@dataclass(frozen=True, slots=True)
class CostTable:
    """Median seconds at one context length.

    call_seconds[n]: a target call on n + 1 rows. It never falls with n: where a call of more rows
        was measured faster, the shorter one is taken to cost no more, since the rows could be
        filled up. draft_seconds: drafting a block, spent however much of it is sent.
    """

    context: int
    draft_seconds: float
    call_seconds: tuple[float, ...]

    def steps_per_second(self, rows: int) -> float:
        """Rounds per second when the target is fed `rows` rows, the anchor included."""
        return 1.0 / (self.draft_seconds + self.call_seconds[rows - 1])


class CostTables:
    """Tables of one loaded pair, each measured when it is first asked for and then kept."""

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        self._tables: dict[int, CostTable] = {}

    def near(self, length: int) -> CostTable:
        """The table for runs whose context is about `length` tokens long. Slow the first time."""
        longest = self._pair.context_length - self._pair.dspark.config.block_size - 1
        band = min(longest, min(BANDS, key=lambda each: abs(each - length)))
        if band not in self._tables:
            self._tables[band] = measure_costs(self._pair, band)
        return self._tables[band]


def measure_costs(
    pair: Pair, context: int, now: Callable[[], float] = time.perf_counter
) -> CostTable:
    """Time a draft, and target calls of 1 to block size + 1 rows, on a warm cache.

    Row counts take turns, so that a machine that slows down does so for all of them.
    """
    target, blocks = CachedModel(pair.target, pair.vocab_size), Blocks(pair.dspark, pair.vocab_size)
    tokens = [place % pair.vocab_size for place in range(context + 1)]
    blocks.observe(target.forward(tokens[:-1], last_only=True, features=blocks.features))
    target.commit(range(target.pending))
    block_size = pair.dspark.config.block_size
    settings = Settings(method="dspark", draft_length=min(block_size, KNOBS["draft_length"].high))
    drafter = DSparkChain(
        blocks, settings, torch.Generator(target.device), lambda c: (len(c), None)
    )

    def call(rows: int) -> None:
        target.forward(tokens[:rows]).logits.argmax(dim=-1).tolist()
        target.rollback()

    work = [lambda: drafter.propose(tokens, block_size)]
    work += [lambda rows=rows: call(rows) for rows in range(1, block_size + 2)]
    draft, *calls = _medians(work, synchroniser(target.device), now)
    return CostTable(context, draft, tuple(_never_falling(calls)))


def _medians(
    work: Sequence[Callable[[], None]], synchronise: Callable[[], None], now: Callable[[], float]
) -> list[float]:
    for each in work:
        each()  # the first of a kind is slow
    spans: list[list[float]] = [[] for _ in work]
    begin = now()
    while len(spans[0]) < FEWEST or (len(spans[0]) < MOST and now() - begin < PATIENCE):
        for each, kept in zip(work, spans, strict=True):
            synchronise()
            start = now()
            each()
            synchronise()
            kept.append(now() - start)
    return [statistics.median(kept) for kept in spans]


def _never_falling(seconds: Sequence[float]) -> list[float]:
    """The largest curve below `seconds` that does not fall."""
    return [min(seconds[place:]) for place in range(len(seconds))]
