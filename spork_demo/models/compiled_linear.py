"""Linear layers on our own kernels, their weights packed in panels."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from spork_demo.models import native
from spork_demo.models.large_pages import LargePages

KINDS = {torch.float32: native.FLOAT32, torch.bfloat16: native.BFLOAT16}


@dataclass(slots=True)
class Packed:
    """A linear map in panels, and what it points to."""

    map: native.Linear
    kept: list[Tensor]


def pack_linear(
    linears: Sequence[nn.Linear],
    kind: int,
    *,
    interleave: bool = False,
    memory: LargePages | None = None,
) -> Packed:
    """One map from several that read the same rows, their outputs one after the other.

    interleave: panel by panel in turns instead, each map padded to whole panels. memory: where
        other weights of the same model are put.
    """
    panel = native.kernels().rows_panel()
    weights = [_padded(each.weight.detach().float(), panel, interleave) for each in linears]
    biases = [_bias(each, panel, interleave) for each in linears]
    weight, bias = torch.cat(weights), None
    if any(each.bias is not None for each in linears):
        bias = torch.cat(biases)
    if interleave:
        order = torch.arange(len(weight)).view(len(linears), -1, panel).transpose(0, 1).reshape(-1)
        weight, bias = weight[order], None if bias is None else bias[order].contiguous()
    outputs, inputs = weight.shape
    scales = None
    if kind == native.INT8:
        scales = (weight.abs().amax(dim=1) / 127).clamp_min(1e-12)
        weight = (weight / scales[:, None]).round()
    memory = memory or LargePages()
    panels = memory.copy(_panels(_padded(weight, panel, True), panel, kind))
    kept = [each for each in (panels, scales, bias) if each is not None]
    pointers = [None if each is None else each.data_ptr() for each in (panels, scales, bias)]
    return Packed(native.Linear(*pointers, inputs, outputs, kind, 0), kept)


def _padded(weight: Tensor, panel: int, pads: bool) -> Tensor:
    return nn.functional.pad(weight, (0, 0, 0, -len(weight) % panel)) if pads else weight


def _bias(linear: nn.Linear, panel: int, pads: bool) -> Tensor:
    bias = linear.weight.new_zeros(linear.out_features) if linear.bias is None else linear.bias
    return _padded(bias.detach().float()[:, None], panel, pads)[:, 0]


def _panels(weight: Tensor, panel: int, kind: int) -> Tensor:
    """[panels, inputs, panel], or with two inputs side by side for bfloat16."""
    split = weight.view(-1, panel, weight.shape[1])
    if kind == native.BFLOAT16:
        pairs = nn.functional.pad(split, (0, split.shape[2] % 2)).unflatten(2, (-1, 2))
        return pairs.to(torch.bfloat16).transpose(1, 2)
    dtype = torch.int8 if kind == native.INT8 else torch.float32
    return split.to(dtype).transpose(1, 2)


class RowsLinear(nn.Module):
    """A linear layer [.., in] -> [.., out] on our kernels. weight: kept where others read it."""

    def __init__(self, packed: Packed, weight: Tensor | None = None) -> None:
        super().__init__()
        self.packed = packed
        self.weight = weight
        self.in_features, self.out_features = packed.map.inputs, packed.map.outputs

    def forward(self, states: Tensor) -> Tensor:
        rows = states.detach().reshape(-1, self.in_features).float().contiguous()
        out = torch.empty(len(rows), self.out_features)
        native.kernels().rows_linear(
            ctypes.byref(self.packed.map),
            *(rows.data_ptr(), len(rows), out.data_ptr(), torch.get_num_threads()),
        )
        return out.to(states.dtype).reshape(*states.shape[:-1], self.out_features)


def compile_linear(linear: nn.Linear, kind: int) -> RowsLinear:
    """A CPU layer on our kernels."""
    return RowsLinear(pack_linear([linear], kind))
