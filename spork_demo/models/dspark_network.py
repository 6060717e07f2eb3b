"""The DSpark drafter network (arXiv 2607.05147): a bidirectional block on the target's features.

Rows are [rows, hidden size] without a batch; keys and values are [1, kv heads, rows, head size].
Parameter names are those of the released checkpoints. Nothing here samples or schedules.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from spork_demo.models.cached_model import RowLayer

KeysValues = tuple[Tensor, Tensor]
Rotation = tuple[Tensor, Tensor]


@dataclass(frozen=True, slots=True)
class DSparkConfig:
    """Sizes and taps of a drafter.

    block_size: slots, which is also the most tokens a block drafts: the anchor's own slot
        predicts too. feature_layers: 0-based target layers whose outputs are the context.
    markov_rank: 0 for a drafter without sequential head. qk_norm: Qwen3 has it, Llama has not.
    confidence_temperatures: one a slot, fitted by sequential temperature scaling; empty: all 1.
    """

    vocab_rows: int
    hidden_size: int
    intermediate_size: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    norm_eps: float
    rope_theta: float
    max_positions: int
    block_size: int
    mask_token: int
    feature_layers: tuple[int, ...]
    target_layers: int
    qk_norm: bool = True
    markov_rank: int = 0
    markov_type: str = "vanilla"
    confidence: bool = False
    confidence_with_markov: bool = False
    confidence_temperatures: tuple[float, ...] = ()


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
        mixed = functional.scaled_dot_product_attention(
            queries, keys, values, attn_mask=mask, is_causal=False, enable_gqa=True
        )
        return self.o_proj(mixed[0].transpose(0, 1).flatten(1))

    def _split(self, rows: Tensor) -> Tensor:
        """[rows, heads * head size] -> [1, heads, rows, head size]."""
        return rows.unflatten(-1, (-1, self.head_size)).transpose(0, 1)[None]


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


class MarkovHead(nn.Module):
    """A bias on a slot's logits that depends on the token just drafted (float32).

    vanilla looks at that token only, gated also at the slot's hidden state, rnn also at a state
    that starts at zero in every block.
    """

    def __init__(self, config: DSparkConfig) -> None:
        super().__init__()
        rank, hidden, self.type = config.markov_rank, config.hidden_size, config.markov_type
        self.markov_w1 = nn.Embedding(config.vocab_rows, rank)
        self.markov_w2 = nn.Linear(rank, config.vocab_rows, bias=False)
        if self.type == "gated":
            self.gate_proj = nn.Linear(hidden + rank, rank)
        if self.type == "rnn":
            self.joint_proj = nn.Linear(2 * rank + hidden, 3 * rank)

    def forward(self, hidden: Tensor, previous: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Bias [..., vocabulary] and the state after it, from hidden [..., hidden size], the
        token before the slot [...] and the state [..., rank] before it.
        """
        before = self.markov_w1(previous)
        if self.type == "gated":
            gate = self.gate_proj(torch.cat([hidden, before], dim=-1)).sigmoid()
            return self.markov_w2(gate * before), state
        if self.type == "rnn":
            joint = self.joint_proj(torch.cat([state, before, hidden], dim=-1))
            gate, fresh, out = joint.chunk(3, dim=-1)
            keep = gate.sigmoid()
            # the bias does not see the state it leaves behind
            return self.markov_w2(out.tanh()), keep * state + (1 - keep) * fresh.tanh()
        return self.markov_w2(before), state


class ConfidenceHead(nn.Module):
    """Logit of the chance that a slot's draft is accepted, given that those before it were."""

    def __init__(self, config: DSparkConfig) -> None:
        super().__init__()
        extra = config.markov_rank if config.confidence_with_markov else 0
        self.proj = nn.Linear(config.hidden_size + extra, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.proj(inputs)[..., 0]


class DSparkNetwork(nn.Module):
    """Backbone and heads. Shared by all lanes; what a lane adds to it is a `Context` of its own."""

    def __init__(self, config: DSparkConfig) -> None:
        super().__init__()
        self.config = config
        size = config.hidden_size
        self.embed_tokens = nn.Embedding(config.vocab_rows, size)
        self.lm_head = nn.Linear(size, config.vocab_rows, bias=False)
        self.fc = nn.Linear(len(config.feature_layers) * size, size, bias=False)
        self.hidden_norm = _norm(size, config)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.norm = _norm(size, config)
        self.markov_head = MarkovHead(config) if config.markov_rank else None
        self.confidence_head = ConfidenceHead(config) if config.confidence else None

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
        rotation = self._rotation(positions, rows.dtype)
        return [layer.self_attn.keys_values(rows, rotation) for layer in self.layers]

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        context: Sequence[KeysValues],
        mask: Tensor | None = None,
    ) -> Tensor:
        """Normed hidden states [rows, hidden size] of block rows.

        mask: [rows, context rows + rows], True where a row may look; None lets every row see the
        whole context and the whole block, which is right for a single block.
        """
        rows = self.embed_tokens(tokens)
        rotation = self._rotation(positions, rows.dtype)
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

    def _rotation(self, positions: Tensor, dtype: torch.dtype) -> Rotation:
        size = self.config.head_size
        steps = torch.arange(0, size, 2, device=positions.device, dtype=torch.float32) / size
        angles = positions.float()[:, None] * (1.0 / self.config.rope_theta**steps)
        angles = torch.cat([angles, angles], dim=-1)
        return angles.cos().to(dtype), angles.sin().to(dtype)


class Context:
    """What one lane's drafter knows of the text before the anchor: keys and values, a layer each.

    Block rows never get in: they come from masks and from drafts that may be refused.
    """

    def __init__(self, network: DSparkNetwork) -> None:
        self._network = network
        self._layers = [RowLayer() for _ in network.layers]
        width = len(network.config.feature_layers) * network.config.hidden_size
        self.append(torch.zeros(0, width, dtype=network.dtype, device=network.device))

    @property
    def length(self) -> int:
        return self._layers[0].rows

    @torch.inference_mode()
    def append(self, features: Tensor) -> None:
        """Add the positions that follow, from the target's features [rows, taps * hidden size]."""
        positions = torch.arange(
            self.length, self.length + features.shape[0], device=features.device
        )
        pairs = self._network.context_keys_values(features, positions)
        for layer, pair in zip(self._layers, pairs, strict=True):
            layer.update(*pair)

    @torch.inference_mode()
    def block(self, anchor: int) -> Tensor:
        """Normed hidden states [block size, hidden size] of a block behind this context."""
        config, device = self._network.config, self._network.device
        masks = [config.mask_token] * (config.block_size - 1)
        positions = torch.arange(self.length, self.length + config.block_size, device=device)
        return self._network(
            torch.tensor([anchor, *masks], device=device),
            positions,
            [layer.cached for layer in self._layers],
        )


def rotate(heads: Tensor, rotation: Rotation) -> Tensor:
    """Rotary positions in the half-split form over the whole head."""
    cos, sin = rotation
    first, second = heads.chunk(2, dim=-1)
    return heads * cos + torch.cat([-second, first], dim=-1) * sin


def _norm(size: int, config: DSparkConfig) -> nn.RMSNorm:
    return nn.RMSNorm(size, eps=config.norm_eps)
