"""Rows of keys and values of one layer, in place: appended, kept, forgotten, never copied."""

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers.cache_utils import DynamicLayer

FIRST_CAPACITY = 256
"""Rows a fresh cache makes room for; it doubles when full, so a commit never copies the prefix."""


class RowLayer(DynamicLayer):
    """Keys and values of one layer in a preallocated buffer [1, heads, capacity, head size]."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = 0
        self._buffers: tuple[Tensor, Tensor] | None = None

    def update(self, key_states: Tensor, value_states: Tensor, *_args, **_kwargs):
        """Append rows and return views of everything cached, [1, heads, rows, head size]."""
        end = self.rows + key_states.shape[-2]
        self._make_room(key_states, value_states, end)
        for buffer, states in zip(self._buffers, (key_states, value_states), strict=True):
            buffer[:, :, self.rows : end] = states
        self.rows = end
        return tuple(buffer[:, :, :end] for buffer in self._buffers)

    def room(self, rows: int, heads: int, size: int) -> tuple[Tensor, Tensor]:
        """Float32 buffers [1, heads, capacity, size] with room for `rows` more, to be written by
        the caller, who then raises `rows`.
        """
        like = torch.empty(1, heads, 0, size)
        self._make_room(like, like, self.rows + rows)
        return self._buffers

    def get_seq_length(self) -> int:
        return self.rows

    @property
    def cached(self) -> tuple[Tensor, Tensor]:
        """Views of everything cached; there must have been an update."""
        keys, values = self._buffers
        return keys[:, :, : self.rows], values[:, :, : self.rows]

    @property
    def buffers(self) -> tuple[Tensor, Tensor]:
        """Keys and values [1, heads, capacity, size]; there must have been an update."""
        return self._buffers

    @property
    def filled(self) -> bool:
        """Whether there are buffers yet."""
        return self._buffers is not None

    def settle(self, keys: Tensor, values: Tensor) -> None:
        """Go on in these buffers [1, heads, capacity, size], taking along what is cached."""
        if self._buffers is not None:
            for old, new in zip(self._buffers, (keys, values), strict=True):
                new[:, :, : self.rows] = old[:, :, : self.rows]
        self._buffers = keys, values
        self.is_initialized = True

    def move(self, rows: Tensor, start: int) -> None:
        """Put `rows` (absolute, ascending, none before `start`) at `start` and after."""
        for buffer in self._buffers:
            buffer[:, :, start : start + len(rows)] = buffer.index_select(2, rows)

    def select(self, sequences: Sequence[int]) -> None:
        """Keep only these sequences of a batch."""
        if self._buffers is not None:
            index = torch.tensor(sequences, device=self._buffers[0].device)
            keys, values = self._buffers
            self._buffers = keys.index_select(0, index), values.index_select(0, index)

    def _make_room(self, key_states: Tensor, value_states: Tensor, needed: int) -> None:
        old = self._buffers
        if old is not None and needed <= old[0].shape[-2]:
            return
        capacity = max(FIRST_CAPACITY, 2 * needed if old else needed + FIRST_CAPACITY)
        grown = []
        for place, states in enumerate((key_states, value_states)):
            batch, heads, _, size = states.shape
            buffer = states.new_zeros(batch, heads, capacity, size)
            if old is not None:
                buffer[:, :, : self.rows] = old[place][:, :, : self.rows]
            grown.append(buffer)
        self._buffers = (grown[0], grown[1])
        self.is_initialized = True
