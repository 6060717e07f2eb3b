"""A Llama-like model on our own kernels: one call runs all its layers on a few rows.

What a row is given does not depend on the rows beside it, so that checking a draft says exactly
what decoding token by token says, in every dtype.
"""

import ctypes
import sys
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from spork_demo.models import native
from spork_demo.models.agreement import agrees
from spork_demo.models.compiled_linear import KINDS, Packed, RowsLinear, pack_linear
from spork_demo.models.decoder_parts import Parts, Rotations, parts_of, serves
from spork_demo.models.large_pages import LargePages
from spork_demo.models.layers import decoder_layers
from spork_demo.models.row_cache import RowLayer

ATTRIBUTE = "rows_decoder"
CHUNK = 64
"""Most rows of a call while a prompt is fed: more would fall out of the processor's caches."""
TOLERANCE = {native.FLOAT32: 1e-4, native.BFLOAT16: 0.3, native.INT8: 0.3}
"""See `agrees`."""


class CompiledDecoder:
    """The packed weights of one model. Shared by all lanes; caches are theirs."""

    most_rows = sys.maxsize
    """Rows it takes in a call."""

    def __init__(self, parts: Parts, kind: int) -> None:
        self._parts = parts
        self.vocabulary = parts.vocabulary
        self._library = native.kernels()
        self._kept: list[object] = []
        self._memory = LargePages()
        packed = isinstance(parts.head, RowsLinear)
        self.head = parts.head.packed if packed else self._packed(kind, [parts.head])
        layers = [self._layer(layer, kind) for layer in parts.layers]
        self._layers = (native.Layer * len(layers))(*layers)
        self._hidden = parts.table.shape[1]
        self._model = native.Decoder(
            self._layers,
            self._norm(parts.norm),
            self.head.map,
            parts.table.data_ptr(),
            KINDS[parts.table.dtype],
            self._hidden,
            *(parts.heads, parts.key_heads, parts.head_size, parts.inner, len(layers), 0),
            *(parts.eps, parts.head_size**-0.5),
        )
        self.rotations = Rotations(parts.rotation, torch.float32)

    def _packed(self, kind: int, linears: Sequence[nn.Linear], **options) -> Packed:
        packed = pack_linear(linears, kind, memory=self._memory, **options)
        self._kept.append(packed)
        return packed

    def _norm(self, norm: nn.Module | None) -> int | None:
        if not hasattr(norm, "weight"):  # there is none, or an identity in its place
            return None
        weight = norm.weight.detach().float().contiguous()
        self._kept.append(weight)
        return weight.data_ptr()

    def _layer(self, layer: nn.Module, kind: int) -> native.Layer:
        attention, mlp = layer.self_attn, layer.mlp
        return native.Layer(
            self._packed(kind, [attention.q_proj, attention.k_proj, attention.v_proj]).map,
            self._packed(kind, [attention.o_proj]).map,
            self._packed(kind, [mlp.gate_proj, mlp.up_proj], interleave=True).map,
            self._packed(kind, [mlp.down_proj]).map,
            self._norm(layer.input_layernorm),
            self._norm(layer.post_attention_layernorm),
            self._norm(getattr(attention, "q_norm", None)),
            self._norm(getattr(attention, "k_norm", None)),
        )

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
        """Logits [rows, vocabulary], or [1, ..], and features as in `Scores`; appends to `cache`.

        sees: [rows, pending + rows] uint8, which pending rows and rows of this call each row
            follows, itself included; None: a chain behind all pending rows. start: committed
            rows, which every row follows.
        """
        if sees is not None or len(tokens) <= CHUNK:
            return self._call(tokens, positions, sees, cache, start, pending, features, last_only)
        said, seen = [], []
        for begin in range(0, len(tokens), CHUNK):
            part = slice(begin, begin + CHUNK)
            final = begin + CHUNK >= len(tokens)
            logits, kept = self._call(
                tokens[part],
                positions[part],
                None,
                cache,
                start,
                pending + begin,
                features,
                last_only and final,
                silent=last_only and not final,
            )
            said.append(logits)
            seen.append(kept)
        return torch.cat(said), {n: torch.cat([kept[n] for kept in seen]) for n in features}

    def _call(
        self, tokens, positions, sees, cache, start, pending, features, last_only, silent=False
    ) -> tuple[Tensor, dict[int, Tensor]]:
        rows = len(tokens)
        if not 0 <= min(tokens) <= max(tokens) < len(self._parts.table):
            raise IndexError("A token outside the vocabulary was fed.")
        base = cache[0].rows - pending
        cos, sin = self.rotations.below(max(positions) + 1)
        spoken = 0 if silent else 1 if last_only else rows
        logits = torch.empty(spoken, self.head.map.outputs)
        asked = sorted(features)
        states = torch.empty(len(asked), rows, self._hidden)
        for layer in cache:
            layer.room(rows, self._parts.key_heads, self._parts.head_size)
        arrays = [
            (ctypes.c_int64 * rows)(*tokens),
            (ctypes.c_int32 * rows)(*positions),
            (ctypes.c_int32 * len(asked))(*asked),
            *_addresses(cache),
        ]
        fed, places, wanted, keys, values, capacity = map(ctypes.addressof, arrays)
        call = native.Call(
            *(fed, places, cos.data_ptr(), sin.data_ptr(), keys, values, capacity),
            None if sees is None else sees.data_ptr(),
            *(wanted, states.data_ptr(), logits.data_ptr()),
            *(rows, start, base, pending, len(cache), len(asked), rows - spoken),
            torch.get_num_threads(),
        )
        self._library.rows_decode(ctypes.byref(self._model), ctypes.byref(call))
        for layer in cache:
            layer.rows += rows
        return self._parts.whole(logits), dict(zip(asked, states, strict=True))

    def move(self, cache: Sequence[RowLayer], rows: Sequence[int], start: int) -> None:
        """As `RowLayer.move`, for all layers."""
        arrays, places = _addresses(cache), (ctypes.c_int32 * len(rows))(*rows)
        self._library.rows_move(
            *map(ctypes.addressof, arrays),
            *(len(cache), self._parts.key_heads, self._parts.head_size),
            ctypes.addressof(places),
            *(len(places), start),
        )


def _addresses(cache: Sequence[RowLayer]) -> list[ctypes.Array]:
    """Where keys and values of each layer lie, and how many rows fit there."""
    buffers = [layer.buffers for layer in cache]
    return [
        (ctypes.c_void_p * len(cache))(*(keys.data_ptr() for keys, _ in buffers)),
        (ctypes.c_void_p * len(cache))(*(values.data_ptr() for _, values in buffers)),
        (ctypes.c_int32 * len(cache))(*(keys.shape[2] for keys, _ in buffers)),
    ]


class Moved(nn.Module):
    """Stands where a layer was whose weights only the compiled form has now."""

    def forward(self, *_args, **_options) -> Tensor:
        raise RuntimeError("This model runs compiled; its own layers are empty.")


def compiled_of(model: nn.Module) -> CompiledDecoder | None:
    """The compiled form of a model, where it has one."""
    return getattr(model, ATTRIBUTE, None)


def compile_model(model: PreTrainedModel, kind: int | None = None) -> bool:
    """Give a CPU model its compiled form and free the weights it replaces; False, and nothing
    changed, where that cannot be done or does not say what the model said.
    """
    if not serves(model):
        return False
    kind = KINDS[model.dtype] if kind is None else kind
    decoder = CompiledDecoder(parts_of(model), kind)
    if not agrees(decoder.forward, model, decoder.vocabulary, TOLERANCE[kind]):
        return False
    head = model.get_output_embeddings()
    if isinstance(head, nn.Linear):
        model.set_output_embeddings(RowsLinear(decoder.head, head.weight))
    empty_layers(decoder_layers(model))
    setattr(model, ATTRIBUTE, decoder)
    return True


def empty_layers(layers: Iterable[nn.Module]) -> None:
    """Free the weights of decoder layers that only their compiled form uses."""
    for layer in layers:
        for part in (layer.self_attn, layer.mlp):
            for name, child in list(part.named_children()):
                if isinstance(child, nn.Linear):
                    setattr(part, name, Moved())
