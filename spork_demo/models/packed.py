"""Faster matrix products for a few rows on a CPU: weights packed once for oneDNN.

Checking a draft feeds 2 to 32 rows. The stock kernels are made for one row or for many: two rows
cost them nearly twice as much as one. With weights in oneDNN's own layout the cost hardly rises,
which is what speculation lives on. The results differ from the stock kernels' by rounding only.
"""

import torch
from torch import Tensor, nn

MANY_ROWS, FEW_ROWS = 32, 4
"""Rows are padded to a multiple of the first, below it to one of the second: every new shape
compiles a kernel that stays, and the kernel of four rows is faster than that of one.
"""

LAYOUT_ROWS = 8
"""Rows the weights are laid out for. The layout for one row costs half as much again."""

TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 3e-2}


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
        count = rows.shape[0]
        extra = -count % (MANY_ROWS if count > MANY_ROWS else FEW_ROWS)
        if extra:
            rows = nn.functional.pad(rows, (0, 0, 0, extra))
        out = torch.ops.mkldnn._linear_pointwise(rows, self._packed, self.bias, "none", [], "")
        return out[:count].reshape(*states.shape[:-1], self.out_features)


def pack(model: nn.Module) -> bool:
    """Replace every linear layer of a CPU model in place; False where it cannot be done.

    Nothing is changed unless the packed product of one layer is first found equal to the stock
    one up to rounding.
    """
    linears = [
        (parent, name, child)
        for parent in model.modules()
        for name, child in parent.named_children()
        if type(child) is nn.Linear and child.out_features > 1  # one output gains nothing
    ]
    if not linears or not _works(linears[0][2]):
        return False
    head = model.get_output_embeddings()
    for parent, name, linear in linears:
        setattr(parent, name, PackedLinear(linear, keep_weight=linear is head))
    return True


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
