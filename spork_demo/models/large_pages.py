"""Memory in large pages, for weights that every token reads whole.

At 4 KB a page a processor looks up an address 65,000 times for 270 MB, and in a virtual machine
each look-up is several. Linux gives pages of 2 MB to who asks; elsewhere memory is as usual.
"""

import contextlib
import math
import mmap
from collections.abc import Sequence

import torch
from torch import Tensor

PAGE = 2**21
CHUNK = 2**25
"""Bytes asked for at once, so that small weights share pages."""
LINE = 64


class LargePages:
    """Where tensors are put side by side. Memory is given back once no tensor there is left."""

    def __init__(self) -> None:
        self._chunk = torch.empty(0, dtype=torch.uint8)
        self._used = 0

    def empty(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """A tensor of this shape, its numbers not set."""
        size = math.prod(shape) * dtype.itemsize
        if not size:
            return torch.empty(*shape, dtype=dtype)
        if self._used + size > len(self._chunk):
            self._chunk, self._used = _chunk(max(size, CHUNK)), 0
        place = self._chunk[self._used : self._used + size]
        self._used += -(-size // LINE) * LINE
        return place.view(dtype).view(*shape)

    def copy(self, tensor: Tensor) -> Tensor:
        return self.empty(tensor.shape, tensor.dtype).copy_(tensor)


def _chunk(size: int) -> Tensor:
    """At least `size` bytes, from the start of a page on."""
    size = -(-size // PAGE) * PAGE
    if not hasattr(mmap, "MADV_HUGEPAGE"):  # only Linux has it
        return torch.empty(size, dtype=torch.uint8)
    memory = mmap.mmap(-1, size + PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # a kernel built without them
        memory.madvise(mmap.MADV_HUGEPAGE)
    whole = torch.frombuffer(memory, dtype=torch.uint8)
    return whole[-whole.data_ptr() % PAGE :][:size]
