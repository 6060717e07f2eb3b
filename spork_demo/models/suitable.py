"""Which device and dtype to use, and which models can be used at all."""

import torch
from transformers import DynamicCache, PreTrainedConfig
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from spork_demo.language import later
from spork_demo.models.progress import ModelUnavailable


def choose_device(device: str) -> str:
    """`auto` is the first GPU, or the CPU where there is none."""
    if device != "auto":
        return device
    return "cuda" if torch.cuda.is_available() else "cpu"


def choose_dtype(dtype: str, device: str) -> torch.dtype:
    """What weights are loaded in. `auto` is bfloat16 on a GPU that has it, float16 on one that has
    not, float32 on CPU; `int8` is made from float32.
    """
    if dtype == "int8":
        return torch.float32
    if dtype != "auto":
        return getattr(torch, dtype)
    if not device.startswith("cuda"):
        return torch.float32
    return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16


def context_length(config: PreTrainedConfig) -> int:
    """The most tokens, prompt and reply together, the model was made for."""
    length = getattr(config.get_text_config(decoder=True), "max_position_embeddings", None)
    if not isinstance(length, int) or length < 2:
        raise ModelUnavailable(later("This model does not say how long its context is."))
    return length


def refuse_unsuitable(config: PreTrainedConfig, label: str) -> None:
    """Raise ModelUnavailable for models whose cache cannot forget rejected tokens."""
    if config.is_encoder_decoder:
        raise ModelUnavailable(
            later("{label} has an encoder; only decoder-only models can be used.", label=label)
        )
    try:
        layers = DynamicCache(config=config).layers
    except (KeyError, TypeError, AttributeError, ValueError):
        layers = []
    # A model without attention keys, such as RWKV, declares heads in no form the cache knows.
    plain_heads = getattr(config.get_text_config(decoder=True), "num_attention_heads", None)
    if not layers or not plain_heads:
        raise ModelUnavailable(
            later("{label} has a cache of a kind that cannot be rolled back.", label=label)
        )
    if any(type(layer) not in (DynamicLayer, DynamicSlidingWindowLayer) for layer in layers):
        raise ModelUnavailable(
            later(
                "{label} keeps a running state that cannot be taken back after a rejection.",
                label=label,
            )
        )
    limit = context_length(config)
    windows = [layer.sliding_window for layer in layers if hasattr(layer, "sliding_window")]
    if windows and min(windows) < limit:
        raise ModelUnavailable(
            later(
                "{label} forgets tokens beyond a sliding window of {window}, so rejected drafts "
                "could not be taken back.",
                label=label,
                window=min(windows),
            )
        )
