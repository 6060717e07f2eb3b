"""Which cached rows each row of a call may look at."""

import numpy as np
import torch
from torch import Tensor


def call_mask(
    rows: int,
    *,
    start: int,
    base: int,
    pending: int,
    sees: Tensor | None,
    shape: int | None = None,
    capacity: int | None = None,
) -> Tensor:
    """[shape, capacity], True where a row may look: committed rows, pending rows and rows of this
    call that it follows, itself included; never a sibling, nor rows from `start` to `base`, which
    another reader left in the cache.

    sees: [rows, pending + rows], None for a chain behind all pending rows. shape: rows with
        padding, which sees itself only, so that no row sees nothing. capacity: rows of the cache,
        as many as are cached after the call unless it says more.
    """
    end = base + pending + rows
    mask = np.zeros((shape or rows, capacity or end), dtype=bool)
    mask[:rows, :start] = True
    chain = np.tril(np.ones((rows, pending + rows), dtype=bool), pending)
    mask[:rows, base:end] = chain if sees is None else sees.numpy()
    for row in range(rows, len(mask)):
        mask[row, base + pending + row] = True
    return torch.from_numpy(mask)
