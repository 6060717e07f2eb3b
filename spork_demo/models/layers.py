"""Where a causal language model keeps its decoder layers, final norm and head.

Covers the Llama, Qwen, Mistral and Gemma families; anything else is refused with a sentence.
"""

import contextlib
import copy
from collections.abc import Iterator, Sequence

from torch import Tensor, nn
from transformers import PreTrainedModel

from spork_demo.language import later
from spork_demo.models.progress import ModelUnavailable


def decoder_layers(model: PreTrainedModel) -> nn.ModuleList:
    """The decoder layers, first to last."""
    layers = getattr(model.base_model, "layers", None)
    if not isinstance(layers, nn.ModuleList) or not len(layers):
        raise ModelUnavailable(later("This model's decoder layers could not be found."))
    return layers


def final_norm(model: PreTrainedModel) -> nn.Module:
    """The norm between the last decoder layer and the head."""
    norm = getattr(model.base_model, "norm", None)
    if not isinstance(norm, nn.Module):
        raise ModelUnavailable(later("This model's final norm could not be found."))
    return norm


def lm_head(model: PreTrainedModel) -> nn.Module:
    """The map from normed hidden states to logits."""
    head = model.get_output_embeddings()
    if not isinstance(head, nn.Module):
        raise ModelUnavailable(later("This model has no language model head."))
    return head


def first_layers(model: nn.Module, layers: int) -> nn.Module:
    """A view of `model` that runs its first `layers` layers. Shares every weight."""
    blocks = decoder_layers(model)
    if not 1 <= layers <= len(blocks):
        raise ValueError(f"The model has {len(blocks)} layers.")
    view = _shallow(model)
    for name, child in model.named_children():
        if any(module is blocks for module in child.modules()):
            inner = _shallow(child)
            inner.config = copy.copy(child.config)
            inner.config.num_hidden_layers = layers
            inner.layers = nn.ModuleList(list(blocks)[:layers])
            setattr(view, name, inner)
    return view


def _shallow(module: nn.Module) -> nn.Module:
    """A copy whose children can be replaced without touching the original's."""
    twin = copy.copy(module)
    twin._modules = dict(module._modules)
    return twin


@contextlib.contextmanager
def layer_outputs(model: nn.Module, layers: Sequence[int]) -> Iterator[dict[int, Tensor]]:
    """Collect the outputs of decoder layers during one call."""
    seen: dict[int, Tensor] = {}

    def keep(index: int):
        def hook(_module, _inputs, output):
            seen[index] = (output[0] if isinstance(output, tuple) else output)[0]

        return hook

    blocks = decoder_layers(model) if layers else ()
    hooks = [blocks[index].register_forward_hook(keep(index)) for index in layers]
    try:
        yield seen
    finally:
        for handle in hooks:
            handle.remove()
