"""The most probable tokens of rows of logits, on our kernels where the logits lie on a CPU."""

import torch
from torch import Tensor

from spork_demo.models.native import kernels


def likeliest(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Ids and probabilities, both [rows, count], of logits [rows, vocabulary], likeliest first."""
    count = min(count, logits.shape[-1])
    if not _served(logits):
        top = logits.topk(count, dim=-1)
        return top.indices, (top.values - logits.logsumexp(dim=-1, keepdim=True)).exp()
    ids = torch.empty(len(logits), count, dtype=torch.long)
    chances = torch.empty(len(logits), count)
    _run(logits, count, ids, chances.data_ptr())
    return ids, chances


def best_tokens(logits: Tensor) -> list[int]:
    """The most probable token of each row of logits [rows, vocabulary]."""
    if not _served(logits):
        return logits.argmax(dim=-1).tolist()
    ids = torch.empty(len(logits), dtype=torch.long)
    _run(logits, 1, ids, None)
    return ids.tolist()


def _served(logits: Tensor) -> bool:
    plain = logits.device.type == "cpu" and logits.dtype == torch.float32
    return plain and logits.stride(-1) == 1 and kernels() is not None


def _run(logits: Tensor, count: int, ids: Tensor, chances: int | None) -> None:
    rows, width = logits.shape
    sizes = rows, width, logits.stride(0), count
    kernels().rows_likeliest(
        logits.data_ptr(), *sizes, ids.data_ptr(), chances, torch.get_num_threads()
    )
