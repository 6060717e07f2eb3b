"""Where a causal language model keeps its decoder layers, final norm and head.

Covers the Llama, Qwen, Mistral and Gemma families; anything else is refused with a sentence.
"""

from torch import nn
from transformers import PreTrainedModel

from spork_demo.models.progress import ModelUnavailable


def decoder_layers(model: PreTrainedModel) -> nn.ModuleList:
    """The decoder layers, first to last."""
    layers = getattr(model.base_model, "layers", None)
    if not isinstance(layers, nn.ModuleList) or not len(layers):
        raise ModelUnavailable("This model's decoder layers could not be found.")
    return layers


def final_norm(model: PreTrainedModel) -> nn.Module:
    """The norm between the last decoder layer and the head."""
    norm = getattr(model.base_model, "norm", None)
    if not isinstance(norm, nn.Module):
        raise ModelUnavailable("This model's final norm could not be found.")
    return norm


def lm_head(model: PreTrainedModel) -> nn.Module:
    """The map from normed hidden states to logits."""
    head = model.get_output_embeddings()
    if not isinstance(head, nn.Module):
        raise ModelUnavailable("This model has no language model head.")
    return head
