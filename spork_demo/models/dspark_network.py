"""The DSpark drafter network (arXiv 2607.05147): a bidirectional block on the target's features.

Rows are [rows, hidden size] without a batch, or [batch, rows, hidden size] in training; keys and
values are [batch or 1, kv heads, rows, head size]. Parameter names are those of the released
checkpoints. Nothing here samples or schedules.
"""

import functools
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from spork_demo.models.dspark_config import DSparkConfig
from spork_demo.models.dspark_heads import ConfidenceHead, MarkovHead

KeysValues = tuple[Tensor, Tensor]
Rotation = tuple[Tensor, Tensor]


class Attention(nn.Module):
    """Grouped-query attention of block rows over context and block, without a causal mask."""

    def __init__(self, config: DSparkConfig) -> None:
        super().__init__()
        self.head_size = config.head_size
        queries, keys = config.heads * config.head_size, config.kv_heads * config.head_size
        self.q_proj = nn.Linear(config.hidden_size, queries, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, keys, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, keys, bias=False)
        self.o_proj = nn.Linear(queries, config.hidden_size, bias=False)
        self.q_norm = _norm(config.head_size, config) if config.qk_norm else nn.Identity()
        self.k_norm = _norm(config.head_size, config) if config.qk_norm else nn.Identity()

    def keys_values(self, rows: Tensor, rotation: Rotation) -> KeysValues:
        keys = rotate(self.k_norm(self._split(self.k_proj(rows))), rotation)
        return keys, self._split(self.v_proj(rows))

    def forward(
        self, rows: Tensor, rotation: Rotation, context: KeysValues, mask: Tensor | None
    ) -> Tensor:
        queries = rotate(self.q_norm(self._split(self.q_proj(rows))), rotation)
        own = self.keys_values(rows, rotation)
        keys, values = (torch.cat(both, dim=-2) for both in zip(context, own, strict=True))
        batch, heads, count, size = queries.shape
        groups = heads // keys.shape[1]  # heads that share a key head become rows of it
        mixed = functional.scaled_dot_product_attention(
            queries.reshape(batch, -1, groups * count, size),
            keys,
            values,
            attn_mask=mask if mask is None else mask.repeat(*[1] * (mask.dim() - 2), groups, 1),
        ).reshape(batch, heads, count, size)
        return self.o_proj(mixed.transpose(1, 2).reshape(*rows.shape[:-1], -1))

    def _split(self, rows: Tensor) -> Tensor:
        """[batch, rows, heads * head size], or without batch, -> [batch or 1, heads, rows, ..]."""
        split = rows.unflatten(-1, (-1, self.head_size)).transpose(-3, -2)
        return split if rows.dim() == 3 else split[None]


class FeedForward(nn.Module):
    """SwiGLU."""

    def __init__(self, config: DSparkConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, rows: Tensor) -> Tensor:
        return self.down_proj(functional.silu(self.gate_proj(rows)) * self.up_proj(rows))


class Layer(nn.Module):
    """One pre-norm decoder layer. Context rows pass by it: they only give keys and values."""

    def __init__(self, config: DSparkConfig) -> None:
        super().__init__()
        self.input_layernorm = _norm(config.hidden_size, config)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = _norm(config.hidden_size, config)
        self.mlp = FeedForward(config)

    def forward(
        self, rows: Tensor, rotation: Rotation, context: KeysValues, mask: Tensor | None
    ) -> Tensor:
        rows = rows + self.self_attn(self.input_layernorm(rows), rotation, context, mask)
        return rows + self.mlp(self.post_attention_layernorm(rows))


class DSparkNetwork(nn.Module):
    """Backbone and heads. Shared by all lanes; what a lane adds to it is a `Context` of its own."""

    def __init__(self, config: DSparkConfig) -> None:
        super().__init__()
        self.config = config
        size = config.hidden_size
        self.embed_tokens = nn.Embedding(config.vocab_rows, size)
        self.lm_head = nn.Linear(size, config.head_rows, bias=False)
        if config.draft_rows:
            self.register_buffer("draft_ids", torch.zeros(config.draft_rows, dtype=torch.long))
        self.fc = nn.Linear(len(config.feature_layers) * size, size, bias=False)
        self.hidden_norm = _norm(size, config)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.norm = _norm(size, config)
        self.markov_head = MarkovHead(config) if config.markov_rank else None
        self.confidence_head = ConfidenceHead(config) if config.confidence else None

    @functools.cached_property
    def spoken(self) -> list[int] | None:
        """The token of each row of the logits, None where every row stands for its number."""
        return self.draft_ids.tolist() if self.config.draft_rows else None

    @functools.cached_property
    def row_of(self) -> dict[int, int] | None:
        """Token to its row of the logits, None where every token has the row of its number."""
        return self.spoken and {token: row for row, token in enumerate(self.spoken)}

    @property
    def device(self) -> torch.device:
        return self.hidden_norm.weight.device

    @property
    def dtype(self) -> torch.dtype:
        """Of backbone and features; the heads compute in float32."""
        return self.hidden_norm.weight.dtype

    def get_output_embeddings(self) -> nn.Module:
        return self.lm_head

    def context_keys_values(self, features: Tensor, positions: Tensor) -> list[KeysValues]:
        """Keys and values, one pair a layer, of features [rows, taps * hidden size].

        They take a layer's key projection, key norm and rotation, but not its input norm, and no
        layer ever changes them (so they are computed once per position).
        """
        rows = self.hidden_norm(self.fc(features))
        rotation = self.rotation(positions, rows.dtype)
        return [layer.self_attn.keys_values(rows, rotation) for layer in self.layers]

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        context: Sequence[KeysValues],
        mask: Tensor | None = None,
    ) -> Tensor:
        """Normed hidden states [rows, hidden size] of block rows.

        mask: [.., rows, context rows + rows], True where a row may look; None lets every row see
        the whole context and the whole block, which is right for a single block.
        """
        rows = self.embed_tokens(tokens)
        rotation = self.rotation(positions, rows.dtype)
        for layer, keys_values in zip(self.layers, context, strict=True):
            rows = layer(rows, rotation, keys_values, mask)
        return self.norm(rows)

    def base_logits(self, hidden: Tensor) -> Tensor:
        """What a slot predicts before the token in front of it is known, float32."""
        return self.lm_head(hidden).float()

    def first_state(self) -> Tensor:
        """The sequential head's state [rank] at the start of a block."""
        return torch.zeros(self.config.markov_rank, device=self.device)

    def corrected(
        self, hidden: Tensor, base: Tensor, previous: Tensor, state: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Logits of a slot after the token `previous`, and the sequential head's next state."""
        if self.markov_head is None:
            return base, state
        bias, state = self.markov_head(hidden.float(), previous, state)
        return base + bias, state

    def confidence_logit(self, hidden: Tensor, previous: Tensor) -> Tensor | None:
        """Known before the slot's own token is drawn; None without a confidence head."""
        if self.confidence_head is None:
            return None
        hidden = hidden.float()
        if self.config.confidence_with_markov:
            hidden = torch.cat([hidden, self.markov_head.markov_w1(previous)], dim=-1)
        return self.confidence_head(hidden)

    def slot_confidences(self, hidden: Tensor) -> list[float] | None:
        """What hidden states [slots, hidden size] give to `confidence_logit`, one number a slot;
        None without a confidence head.
        """
        if self.confidence_head is None:
            return None
        layer = self.confidence_head.proj
        weight = layer.weight[:, : self.config.hidden_size]
        return torch.nn.functional.linear(hidden.float(), weight, layer.bias)[:, 0].tolist()

    @functools.cached_property
    def token_confidences(self) -> list[float] | None:
        """What the token in front of a slot gives to it; None where it gives nothing."""
        if self.confidence_head is None or not self.config.confidence_with_markov:
            return None
        with torch.inference_mode():
            weight = self.confidence_head.proj.weight[0, self.config.hidden_size :]
            return (self.markov_head.markov_w1.weight.float() @ weight).tolist()

    def rotation(self, positions: Tensor, dtype: torch.dtype) -> Rotation:
        size = self.config.head_size
        steps = torch.arange(0, size, 2, device=positions.device, dtype=torch.float32) / size
        angles = positions.float()[..., None] * (1.0 / self.config.rope_theta**steps)
        angles = torch.cat([angles, angles], dim=-1).unsqueeze(-3)
        return angles.cos().to(dtype), angles.sin().to(dtype)


def rotate(heads: Tensor, rotation: Rotation) -> Tensor:
    """Rotary positions in the half-split form over the whole head."""
    cos, sin = rotation
    first, second = heads.chunk(2, dim=-1)
    return heads * cos + torch.cat([-second, first], dim=-1) * sin


def _norm(size: int, config: DSparkConfig) -> nn.RMSNorm:
    return nn.RMSNorm(size, eps=config.norm_eps)
