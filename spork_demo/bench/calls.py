"""What a call of the target costs by rows and by context, beside what memory alone would cost."""

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from transformers import PreTrainedModel

from spork_demo.decoding.measured_costs import ROWS, measure_costs, medians
from spork_demo.decoding.stopwatch import synchroniser
from spork_demo.models.cached_model import CachedModel
from spork_demo.models.compiled import CompiledDecoder, compiled_of
from spork_demo.models.large_pages import LargePages
from spork_demo.models.pair import Pair

CONTEXTS = (128, 1024, 4096)
FEW, SEVERAL = 1, 8
STREAM_BYTES = 2**28
"""Larger than any cache, so that reading it is reading memory."""
REPEATS = 7


def call_costs(pair: Pair, stock: PreTrainedModel) -> dict[str, Any]:
    """Milliseconds of target calls, and the time that reading the weights once would take.

    stock: the target with its weights as transformers loads them, to count them.
    """
    near = measure_costs(pair, min(CONTEXTS[0], pair.context_length - ROWS[-1] - 1))
    bandwidth = bytes_per_second(pair.device)
    weights = weight_bytes(stock)
    growth = {}
    for context in CONTEXTS:
        if context + ROWS[-1] < pair.context_length:
            costs = near if context == near.context else measure_costs(pair, context)
            growth[str(context)] = {str(n): 1e3 * costs.seconds(n) for n in (FEW, SEVERAL)}
    blind = unattended(pair, [int(context) for context in growth])
    return {
        "call_ms_by_rows": {str(n): 1e3 * near.seconds(n) for n in ROWS},
        "call_ms_by_context": growth,
        "call_ms_without_attention": {str(n): 1e3 * s for n, s in blind.items()},
        "weight_mb": weights / 1e6,
        "memory_gb_per_second": bandwidth / 1e9,
        "bandwidth_limit_ms": 1e3 * weights / bandwidth,
    }


def unattended(pair: Pair, contexts: Sequence[int]) -> dict[int, float]:
    """Seconds of a call of one row behind so many cached rows that it does not look at: what is
    left of a call without its attention, by context. Empty where kernels look at every row.
    """
    if not isinstance(compiled_of(pair.target), CompiledDecoder):
        return {}
    views = []
    for context in contexts:
        cached = CachedModel(pair.target, pair.vocab_size)
        cached.forward([place % pair.vocab_size for place in range(context)], last_only=True)
        views.append(cached.early_exit(cached.depth))  # sees committed rows only: there are none

    def call(view: CachedModel) -> None:
        view.forward([0])
        view.rollback()

    work = [functools.partial(call, view) for view in views]
    seconds = medians(work, synchroniser(torch.device(pair.device)))
    return dict(zip(contexts, seconds, strict=True))


def weight_bytes(model: PreTrainedModel) -> int:
    """Bytes a one-token call must read: every weight once, but of an embedding that is not the
    head's table too only one row.
    """
    embedding = model.get_input_embeddings().weight
    numbers = model.num_parameters()
    if not model.config.tie_word_embeddings:
        numbers -= embedding.numel()
    return numbers * embedding.element_size()


def bytes_per_second(
    device: str, now: Callable[[], float] = time.perf_counter, size: int = STREAM_BYTES
) -> float:
    """The best rate at which torch reads `size` bytes of this device's memory."""
    block = torch.ones(size // 4, dtype=torch.float32, device=device)
    if device == "cpu":  # as our weights lie, which is read faster
        block = LargePages().copy(block)
    synchronise = synchroniser(torch.device(device))
    best = 0.0
    for _ in range(REPEATS):
        synchronise()
        begin = now()
        block.sum()
        synchronise()
        best = max(best, size / (now() - begin))
    return best
