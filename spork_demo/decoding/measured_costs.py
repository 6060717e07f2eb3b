"""Cost tables, measured where they are used: they depend on device, dtype and context length.

The scheduler of DSpark (arXiv 2607.05147, section 4.2) and the node budget of trees weigh expected
tokens against them.
"""

import statistics
import time
from collections.abc import Callable, Sequence

import torch

from spork_demo.decoding.cost_table import CostTable
from spork_demo.decoding.drafters.blocks import Blocks
from spork_demo.decoding.drafters.dspark import DSparkChain
from spork_demo.decoding.schedule import send_all
from spork_demo.decoding.stopwatch import synchroniser
from spork_demo.models.cached_model import CachedModel
from spork_demo.models.pair import Pair
from spork_demo.models.top import best_tokens
from spork_demo.settings import KNOBS, Settings

ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32)
"""Rows a target call is timed with; between them seconds are taken to be linear."""

BANDS = (64, 256, 1024, 4096, 16384)
"""Context lengths a table is measured at; a run uses the one nearest to its own."""

FEWEST, MOST, PATIENCE = 3, 9, 1.5
"""Repeats of a measurement, as many as fit into so many seconds."""


class CostTables:
    """Tables of one loaded pair, each measured when it is first asked for and then kept."""

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        self._tables: dict[int, CostTable] = {}

    def near(self, length: int) -> CostTable:
        """The table for runs whose context is about `length` tokens long. Slow the first time."""
        band = self._band(length)
        if band not in self._tables:
            self._tables[band] = measure_costs(self._pair, band)
        return self._tables[band]

    def known(self, length: int) -> CostTable | None:
        """The same table if it has been measured; never measures."""
        return self._tables.get(self._band(length))

    def _band(self, length: int) -> int:
        longest = self._pair.context_length - ROWS[-1] - 1
        if self._pair.dspark is not None:
            longest = min(longest, self._pair.context_length - self._pair.dspark.config.block_size)
        return max(1, min(longest, min(BANDS, key=lambda each: abs(each - length))))


def measure_costs(
    pair: Pair, context: int, now: Callable[[], float] = time.perf_counter
) -> CostTable:
    """Time a draft where the pair has a DSpark drafter, a token of its draft model where it has
    one, and target calls of `ROWS` rows, on a warm cache.

    Row counts take turns, so that a machine that slows down does so for all of them.
    """
    target = CachedModel(pair.target, pair.vocab_size)
    tokens = [place % pair.vocab_size for place in range(context + ROWS[-1])]
    drafts = _drafts(pair, target, tokens[: context + 1])
    target.commit(range(target.pending))

    def call(rows: int) -> None:
        best_tokens(target.forward(tokens[:rows]).logits)
        target.rollback()

    chain = _chain(pair, tokens[: context + 1])
    work = [*drafts, *chain, *(lambda rows=rows: call(rows) for rows in ROWS)]
    seconds = medians(work, synchroniser(target.device), now)
    draft = seconds.pop(0) if drafts else 0.0
    token = seconds.pop(0) if chain else 0.0
    return CostTable(context, draft, tuple(_every_row(_never_falling(seconds))), token)


def _chain(pair: Pair, tokens: Sequence[int]) -> list[Callable[[], object]]:
    """The work of drafting one token with the pair's draft model, if there is one."""
    if pair.draft is None:
        return []
    draft = CachedModel(pair.draft, pair.vocab_size)
    draft.forward(tokens[:-1], last_only=True)
    draft.commit(range(draft.pending))

    def call() -> None:
        best_tokens(draft.forward(tokens[-1:]).logits)
        draft.rollback()

    return [call]


def _drafts(pair: Pair, target: CachedModel, tokens: Sequence[int]) -> list[Callable[[], object]]:
    """Fill the target's cache; the work of drafting a block behind it, if there is a drafter."""
    if pair.dspark is None:
        target.forward(tokens[:-1], last_only=True)
        return []
    blocks = Blocks(pair.dspark, pair.vocab_size)
    blocks.observe(target.forward(tokens[:-1], last_only=True, features=blocks.features))
    size = pair.dspark.config.block_size
    settings = Settings(method="dspark", draft_length=min(size, KNOBS["draft_length"].high))
    drafter = DSparkChain(blocks, settings, torch.Generator(target.device), send_all)
    return [lambda: drafter.propose(tokens, size)]


def medians(
    work: Sequence[Callable[[], object]],
    synchronise: Callable[[], None],
    now: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """Seconds each piece of work takes, in turns, after a first time that is not counted."""
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


def _every_row(seconds: Sequence[float]) -> list[float]:
    """Seconds for 1, 2, 3, ... rows from those for `ROWS`."""
    curve = [seconds[0]]
    for place in range(1, len(ROWS)):
        step = ROWS[place] - ROWS[place - 1]
        rise = (seconds[place] - seconds[place - 1]) / step
        curve += [seconds[place - 1] + rise * n for n in range(1, step + 1)]
    return curve
