"""Faster matrix products for a few rows on a CPU: weights packed once for oneDNN.

Checking a draft feeds 2 to 32 rows. The stock kernels are made for one row or for many: two rows
cost them nearly twice as much as one. With weights in oneDNN's own layout the cost hardly rises,
which is what speculation lives on. The results differ from the stock kernels' by rounding only.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

MANY_ROWS, FEW_ROWS = 32, 4
"""Rows are padded to a multiple of the first, below it to one of the second: every new shape
compiles a kernel that stays, and the kernel of four rows is faster than that of one.
"""

LAYOUT_ROWS = 8
"""Rows the weights are laid out for. The layout for one row costs half as much again."""

TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 3e-2}

SIBLINGS = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))
"""Layers of one module that read the same rows, wherever models have them."""


class PackedLinear(nn.Module):
    """A linear layer [.., in] -> [.., out] over packed weights.

    `weight` is kept for an output head only, whose table others read; elsewhere it is None and
    its memory is free.
    """

    def __init__(self, linear: nn.Linear, *, keep_weight: bool) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight = linear.weight if keep_weight else None
        self.bias = linear.bias
        self._packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), LAYOUT_ROWS)

    @torch.inference_mode()
    def forward(self, states: Tensor) -> Tensor:
        rows = states.reshape(-1, self.in_features)
        out = self.padded(padded(rows))[: len(rows)]
        return out.reshape(*states.shape[:-1], self.out_features)

    def padded(self, rows: Tensor) -> Tensor:
        """[rows, in] -> [rows, out], for as many rows as `padded` makes."""
        return torch.ops.mkldnn._linear_pointwise(rows, self._packed, self.bias, "none", [], "")


def padded(rows: Tensor) -> Tensor:
    """`rows` [rows, ..] with rows of zeros after them, as many as packed products are fast at."""
    count = len(rows)
    extra = -count % (MANY_ROWS if count > MANY_ROWS else FEW_ROWS)
    return nn.functional.pad(rows, (0, 0, 0, extra)) if extra else rows


class Merged:
    """One product for layers that read the same rows: fewer, larger calls."""

    def __init__(self, linears: Sequence[nn.Linear]) -> None:
        self.sizes = [each.out_features for each in linears]
        self.linear = PackedLinear(_joined(linears), keep_weight=False)
        self._waiting: dict[int, Tensor] = {}
        self._states: Tensor | None = None

    def part(self, index: int, states: Tensor) -> Tensor:
        """What the layer `index` makes of `states`; computed for all, and kept until each had it.

        The sums of a part are its own: which layers stand beside it changes nothing.
        """
        if states is not self._states or index not in self._waiting:
            self._states = states
            self._waiting = dict(enumerate(self.linear(states).split(self.sizes, dim=-1)))
        found = self._waiting.pop(index)
        if not self._waiting:
            self._states = None
        return found


class MergedPart(nn.Module):
    """Stands where a layer was that has been merged with its siblings."""

    def __init__(self, merged: Merged, index: int, in_features: int) -> None:
        super().__init__()
        self.merged, self._index = merged, index
        self.in_features, self.out_features = in_features, merged.sizes[index]
        self.weight = None

    def forward(self, states: Tensor) -> Tensor:
        return self.merged.part(self._index, states)


def _joined(linears: Sequence[nn.Linear]) -> nn.Linear:
    """One layer whose outputs are those of `linears`, one after the other."""
    joined = nn.Linear(1, 1, bias=False).requires_grad_(False)
    joined.in_features = linears[0].in_features
    joined.out_features = sum(each.out_features for each in linears)
    joined.weight = nn.Parameter(torch.cat([each.weight for each in linears]), requires_grad=False)
    if any(each.bias is not None for each in linears):
        biases = [
            each.weight.new_zeros(each.out_features) if each.bias is None else each.bias
            for each in linears
        ]
        joined.bias = nn.Parameter(torch.cat(biases), requires_grad=False)
    return joined


def pack(model: nn.Module, *, merge: bool = False) -> bool:
    """Replace every linear layer of a CPU model in place; False where it cannot be done.

    Nothing is changed unless the packed product of one layer is first found equal to the stock
    one up to rounding. merge: layers that read the same rows become one.
    """
    linears = [
        (parent, name, child)
        for parent in model.modules()
        for name, child in parent.named_children()
        if type(child) is nn.Linear and child.out_features > 1  # one output gains nothing
    ]
    if not linears or not _works(linears[0][2]):
        return False
    for parent, names in _siblings(model) if merge else ():
        layers = [getattr(parent, name) for name in names]
        merged = Merged(layers)
        for index, name in enumerate(names):
            setattr(parent, name, MergedPart(merged, index, layers[index].in_features))
    head = model.get_output_embeddings()
    for parent, name, linear in linears:
        if getattr(parent, name) is linear:
            setattr(parent, name, PackedLinear(linear, keep_weight=linear is head))
    return True


def _siblings(model: nn.Module) -> Iterator[tuple[nn.Module, Sequence[str]]]:
    for parent in list(model.modules()):
        for names in SIBLINGS:
            if all(type(getattr(parent, name, None)) is nn.Linear for name in names):
                yield parent, names


@torch.inference_mode()
def _works(linear: nn.Linear) -> bool:
    weight = linear.weight
    if weight.device.type != "cpu" or weight.dtype not in TOLERANCE:
        return False
    if not torch.backends.mkldnn.is_available():
        return False
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(5, linear.in_features, generator=generator).to(weight.dtype)
    try:
        ours = PackedLinear(linear, keep_weight=False)(rows)
    except (RuntimeError, AttributeError):  # a torch built without these kernels
        return False
    stock = linear(rows)
    scale = float(stock.abs().max()) or 1.0
    return float((ours - stock).abs().max()) <= TOLERANCE[weight.dtype] * scale
