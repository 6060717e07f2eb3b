"""What a Llama-like decoder is made of, and what can run one without its own layers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel

from spork_demo.models import native
from spork_demo.models.compiled_linear import KINDS
from spork_demo.models.layers import decoder_layers, final_norm
from spork_demo.models.memory import available_bytes
from spork_demo.models.student import DraftHead

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
SETTLED_ROTATIONS = ("default", "linear", "llama3", "yarn")
"""Kinds of rotary positions that do not change with the length of the text."""
FIRST_POSITIONS = 1024


@dataclass(slots=True)
class Rotations:
    """Cosines and sines of the positions so far; see `Parts.rotation`."""

    rotation: Callable[[Tensor], tuple[Tensor, Tensor]]
    dtype: torch.dtype
    known: tuple[Tensor, Tensor] = field(default_factory=lambda: (torch.empty(0), torch.empty(0)))

    @torch.inference_mode()
    def below(self, length: int) -> tuple[Tensor, Tensor]:
        """Those of positions below `length` at least, [positions, head size]."""
        if length > len(self.known[0]):
            cos, sin = self.rotation(torch.arange(max(FIRST_POSITIONS, 2 * length)))
            self.known = cos.to(self.dtype).contiguous(), sin.to(self.dtype).contiguous()
        return self.known


@dataclass(frozen=True, slots=True)
class Parts:
    """What a decoder is made of. ids: tokens the rows of the head stand for, None where they are
    the vocabulary. rotation: positions [n] -> cosines and sines [n, head size] of all heads.
    """

    layers: Sequence[nn.Module]
    norm: nn.Module
    head: nn.Module
    ids: Tensor | None
    vocabulary: int
    table: Tensor
    heads: int
    key_heads: int
    head_size: int
    inner: int
    eps: float
    rotation: Callable[[Tensor], tuple[Tensor, Tensor]]

    def whole(self, logits: Tensor) -> Tensor:
        """Logits [rows, vocabulary] from those of the head's tokens."""
        if self.ids is None:
            return logits
        full = logits.new_full((len(logits), self.vocabulary), -torch.inf)
        return full.index_copy_(1, self.ids, logits)


def parts_of(model: PreTrainedModel) -> Parts:
    """The parts of a causal LM of transformers."""
    config, head = model.config, model.get_output_embeddings()
    speaks_few = isinstance(head, DraftHead)

    def rotation(positions: Tensor) -> tuple[Tensor, Tensor]:
        cos, sin = model.base_model.rotary_emb(torch.empty(0), positions[None])
        return cos[0], sin[0]

    return Parts(
        layers=decoder_layers(model),
        norm=final_norm(model),
        head=head.linear if speaks_few else head,
        ids=head.ids if speaks_few else None,
        vocabulary=head.vocab_size if speaks_few else head.weight.shape[0],
        table=model.get_input_embeddings().weight,
        heads=config.num_attention_heads,
        key_heads=config.num_key_value_heads,
        head_size=_head_size(config),
        inner=config.intermediate_size,
        eps=config.rms_norm_eps,
        rotation=rotation,
    )


def _head_size(config: PreTrainedConfig) -> int:
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


def _fits_twice(model: PreTrainedModel) -> bool:
    """Whether there is room for packed weights beside the loaded ones, which go once compared."""
    weights = sum(each.numel() * each.element_size() for each in model.parameters())
    available = available_bytes()
    return available is None or weights <= available


def llama_like(model: PreTrainedModel) -> bool:
    """Whether `model` is nothing but what `Parts` say of it."""
    config, head = model.config, model.get_output_embeddings()
    rotation = getattr(getattr(model.base_model, "rotary_emb", None), "rope_type", "default")
    plain = config.model_type in FAMILIES and config.hidden_act == "silu"
    return (
        plain
        and getattr(head, "bias", None) is None
        and rotation in SETTLED_ROTATIONS
        and config.num_attention_heads % config.num_key_value_heads == 0
    )


def serves(model: PreTrainedModel) -> bool:
    """Whether our own kernels can run `model` here: its family, its sizes, its device, this
    machine's compiler and memory.
    """
    table, head = model.get_input_embeddings().weight, model.get_output_embeddings()
    if table.device.type != "cpu" or table.dtype not in KINDS or native.kernels() is None:
        return False
    return (
        llama_like(model)
        and type(head) in (nn.Linear, DraftHead)
        and _fits_twice(model)
        and bool(native.kernels().rows_serves(_head_size(model.config)))
    )
