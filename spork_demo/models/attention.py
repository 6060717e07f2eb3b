"""Grouped-query attention of a few rows on a CPU, without reading or copying anything twice.

Query heads that share a key head are laid out as rows of that head. The stock way reads keys and
values once per query head, and under a mask copies them for each first, which is three times as
much for three heads a group.
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
    """query [batch, heads, rows, size], key and value [batch, key heads, cached, size], mask
    [batch, 1, rows, cached]; returns [batch, rows, heads, size]. Rows that are causal without a
    mask, as in a prefill, go the stock way.
    """
    batch, heads, rows, size = query.shape
    key_heads = key.shape[1]
    causal = attention_mask is None and rows > 1
    shared = attention_mask is None or attention_mask.shape[1] == 1
    plain = shared and not any(options.get(name) for name in ("dropout", "softcap"))
    if causal or heads == key_heads or not plain:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **options
        )
    groups = heads // key_heads
    grouped = query.reshape(batch, key_heads, groups * rows, size)
    mask = None if attention_mask is None else attention_mask.repeat(1, 1, groups, 1)
    mixed = nn.functional.scaled_dot_product_attention(
        grouped, key, value, attn_mask=mask, scale=scaling
    )
    return mixed.reshape(batch, heads, rows, size).transpose(1, 2), None


def use_grouped_attention(model: PreTrainedModel) -> None:
    """Let `model`, loaded with `sdpa`, attend this way."""
    model.set_attn_implementation(NAME)


AttentionInterface.register(NAME, grouped_attention)
AttentionMaskInterface.register(NAME, sdpa_mask)
