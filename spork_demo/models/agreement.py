"""Whether a faster form of a model says what the model says, asked before it takes its place."""

from collections.abc import Callable

import torch
from torch import Tensor
from transformers import PreTrainedModel

from spork_demo.models.layers import decoder_layers
from spork_demo.models.row_cache import RowLayer

PROBE = (1, 2, 3, 5, 8, 13)

Forward = Callable[..., tuple[Tensor, dict[int, Tensor]]]
"""As `CompiledDecoder.forward`."""


@torch.inference_mode()
def agrees(forward: Forward, model: PreTrainedModel, vocabulary: int, tolerance: float) -> bool:
    """Whether a short text gets the stock logits.

    tolerance: most that the middle row's root mean square may differ, as a share of the spread of
        the stock logits. A stock bfloat16 model, which rounds between operations, is itself far
        from float32 at times.
    """
    ids = [token % vocabulary for token in PROBE]
    device = model.get_input_embeddings().weight.device
    stock = model(torch.tensor([ids], device=device)).logits[0].float()
    cache = [RowLayer() for _ in decoder_layers(model)]
    ours, _ = forward(ids, range(len(ids)), None, cache, start=0, pending=0)
    heard = stock.isfinite()
    if not torch.equal(heard, ours.isfinite()):
        return False
    apart = (ours - stock).masked_fill(~heard, 0.0).square().sum(dim=1) / heard.sum(dim=1)
    return bool(apart.sqrt().median() <= tolerance * stock[heard].std())
