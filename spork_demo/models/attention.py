"""Grouped-query attention of one row a sequence on a CPU, without reading anything twice.

Query heads that share a key head are laid out as rows of that head. The stock kernel reads keys
and values once per query head, which is three times as much for three heads a group.
"""

from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "grouped_rows"


def grouped_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **options,
) -> tuple[Tensor, None]:
    """query [batch, heads, rows, size], key and value [batch, key heads, cached, size]; returns
    [batch, rows, heads, size]. Anything but one unmasked row goes the stock way.
    """
    batch, heads, rows, size = query.shape
    key_heads = key.shape[1]
    plain = attention_mask is None and not any(options.get(name) for name in ("dropout", "softcap"))
    if rows > 1 or heads == key_heads or not plain:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **options
        )
    grouped = query.reshape(batch, key_heads, heads // key_heads, size)
    mixed = nn.functional.scaled_dot_product_attention(grouped, key, value, scale=scaling)
    return mixed.reshape(batch, rows, heads, size), None


def use_grouped_attention(model: PreTrainedModel) -> None:
    """Let `model`, loaded with `sdpa`, attend this way."""
    model.set_attn_implementation(NAME)


AttentionInterface.register(NAME, grouped_attention)
AttentionMaskInterface.register(NAME, sdpa_mask)
