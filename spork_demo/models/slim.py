"""A Llama-like model on torch's own operations, without the layers of Python around them.

A small call of a packed model on a CPU spends a third of its time between its products. This form
runs the same products with a few operations a layer in between, and rows padded once a call.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from spork_demo.models.agreement import agrees
from spork_demo.models.compiled import ATTRIBUTE
from spork_demo.models.decoder_parts import Rotations, llama_like, parts_of
from spork_demo.models.masks import call_mask
from spork_demo.models.packed import MergedPart, PackedLinear, padded
from spork_demo.models.row_cache import RowLayer

TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 0.3}
"""See `agrees`."""


@dataclass(frozen=True, slots=True)
class Layer:
    qkv: PackedLinear
    mixed: PackedLinear
    gate_up: PackedLinear
    down: PackedLinear
    norms: tuple[nn.Module, nn.Module]
    head_norms: tuple[nn.Module, nn.Module] | None


class SlimDecoder:
    """The packed weights of one model. Called like a `CompiledDecoder`."""

    most_rows = sys.maxsize

    def __init__(self, model: PreTrainedModel) -> None:
        self._parts = parts = parts_of(model)
        self.vocabulary = parts.vocabulary
        self._layers = [_layer(layer) for layer in parts.layers]
        self._rotations = Rotations(parts.rotation, parts.table.dtype)
        self._groups = parts.heads // parts.key_heads

    @torch.inference_mode()
    def forward(
        self,
        tokens: Sequence[int],
        positions: Sequence[int],
        sees: Tensor | None,
        cache: Sequence[RowLayer],
        *,
        start: int,
        pending: int,
        features: Sequence[int] = (),
        last_only: bool = False,
    ) -> tuple[Tensor, dict[int, Tensor]]:
        """See `CompiledDecoder.forward`."""
        parts, rows = self._parts, len(tokens)
        places = torch.tensor(list(positions))
        cos, sin = (each[places, None] for each in self._rotations.below(max(positions) + 1))
        sin = torch.cat([-sin[..., : sin.shape[-1] // 2], sin[..., sin.shape[-1] // 2 :]], dim=-1)
        mask = self._mask(rows, sees, start, cache[0].rows - pending, pending)
        states = padded(nn.functional.embedding(torch.tensor(list(tokens)), parts.table))
        seen = {}
        for index, (layer, cached) in enumerate(zip(self._layers, cache, strict=False)):
            mixed = self._attend(layer, states, rows, (cos, sin), cached, mask)
            states = states + layer.mixed.padded(padded(mixed))
            states = states + _fed_forward(layer, states)
            if index in features:
                seen[index] = states[:rows]
        spoken = states[rows - 1 : rows] if last_only else states[:rows]
        logits = parts.head(_normed(parts.norm, spoken)).float()
        return parts.whole(logits), seen

    def move(self, cache: Sequence[RowLayer], rows: Sequence[int], start: int) -> None:
        """As `RowLayer.move`, for all layers."""
        index = torch.tensor(rows)
        for layer in cache:
            layer.move(index, start)

    def _mask(
        self, rows: int, sees: Tensor | None, start: int, base: int, pending: int
    ) -> Tensor | None:
        """What is added to the scores of a key head's queries, [1, 1, groups * rows, cached]; None
        where a row sees all, or a prompt is fed to an empty cache.
        """
        if sees is None and (base + pending == 0 or rows == 1 and start == base):
            return None
        mask = call_mask(rows, start=start, base=base, pending=pending, sees=sees)
        added = torch.zeros(mask.shape, dtype=self._parts.table.dtype)
        return added.masked_fill_(~mask, -torch.inf).repeat(self._groups, 1)[None, None]

    def _attend(
        self,
        layer: Layer,
        states: Tensor,
        rows: int,
        rotation: tuple[Tensor, Tensor],
        cached: RowLayer,
        mask: Tensor | None,
    ) -> Tensor:
        """What the heads gather, [rows, heads * size]; appends keys and values to `cached`."""
        parts = self._parts
        heads, key_heads, size = parts.heads, parts.key_heads, parts.head_size
        split = layer.qkv.padded(_normed(layer.norms[0], states))[:rows].view(rows, -1, size)
        turned, values = split[:, : heads + key_heads], split[:, heads + key_heads :]
        if layer.head_norms is not None:
            queries, keys = turned[:, :heads], turned[:, heads:]
            norms = layer.head_norms
            turned = torch.cat([_normed(norms[0], queries), _normed(norms[1], keys)], dim=1)
        cos, sin = rotation
        turned = torch.addcmul(turned * cos, turned.roll(size // 2, -1), sin)
        keys, values = cached.update(
            turned[:, heads:].transpose(0, 1)[None], values.transpose(0, 1)[None]
        )
        queries = turned[:, :heads].transpose(0, 1)[None]
        attend = nn.functional.scaled_dot_product_attention
        if mask is None and rows > 1:  # a prompt
            keys, values = (each.repeat_interleave(self._groups, dim=1) for each in (keys, values))
            mixed = attend(queries, keys, values, is_causal=True)
        else:  # heads that share a key head as rows of it, so that keys are read once
            grouped = queries.reshape(1, key_heads, self._groups * rows, size)
            mixed = attend(grouped, keys, values, attn_mask=mask).view(1, heads, rows, size)
        return mixed[0].transpose(0, 1).reshape(rows, heads * size)


def _layer(layer: nn.Module) -> Layer:
    attention, mlp = layer.self_attn, layer.mlp
    norms = getattr(attention, "q_norm", None), getattr(attention, "k_norm", None)
    return Layer(
        qkv=attention.q_proj.merged.linear,
        mixed=attention.o_proj,
        gate_up=mlp.gate_proj.merged.linear,
        down=mlp.down_proj,
        norms=(layer.input_layernorm, layer.post_attention_layernorm),
        head_norms=None if None in norms else norms,
    )


def _fed_forward(layer: Layer, states: Tensor) -> Tensor:
    gate, up = layer.gate_up.padded(_normed(layer.norms[1], states)).chunk(2, dim=-1)
    return layer.down.padded(nn.functional.silu(gate).mul_(up))


def _normed(norm: nn.Module, states: Tensor) -> Tensor:
    size = states.shape[-1:]
    return nn.functional.rms_norm(states, size, norm.weight, norm.variance_epsilon)


def slim_model(model: PreTrainedModel) -> bool:
    """Let a packed model run its calls this way; False, and nothing changed, where it is no such
    model or that does not say what the model said.
    """
    if not llama_like(model) or not _merged(model):
        return False
    decoder = SlimDecoder(model)
    if not agrees(decoder.forward, model, decoder.vocabulary, TOLERANCE[model.dtype]):
        return False
    setattr(model, ATTRIBUTE, decoder)
    return True


def _merged(model: PreTrainedModel) -> bool:
    return all(
        isinstance(part, MergedPart)
        for layer in parts_of(model).layers
        for part in (layer.self_attn.q_proj, layer.mlp.gate_proj)
    )
