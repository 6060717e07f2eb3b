"""A student: a few decoder layers that share their target's embedding and rows of its head.

Its checkpoint holds only what was trained, in a folder with config.json (`"student": true`), the
layers' and the final norm's weights, and `draft_ids`, the tokens it may speak.
"""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from spork_demo.language import later
from spork_demo.models.dspark_checkpoint import CONFIG_FILE, DRAFT_IDS, head_rows, read_tensors
from spork_demo.models.progress import ModelUnavailable

TABLES = ("model.embed_tokens.weight",)


class DraftHead(nn.Module):
    """Logits [.., vocabulary] of a model that speaks `ids` only; every other token has -inf."""

    def __init__(self, rows: Tensor, ids: Tensor, vocab_size: int) -> None:
        super().__init__()
        self.linear = nn.Linear(rows.shape[1], rows.shape[0], bias=False)
        self.linear.weight = nn.Parameter(rows, requires_grad=False)
        self.vocab_size = vocab_size
        self.register_buffer("ids", ids)

    def forward(self, hidden: Tensor) -> Tensor:
        few = self.linear(hidden)
        full = few.new_full((*few.shape[:-1], self.vocab_size), -torch.inf)
        return full.index_copy_(-1, self.ids, few)


def is_student(folder: Path) -> bool:
    """Whether the checkpoint in `folder` is a student's, which only its target can complete."""
    try:
        plain = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(plain, dict) and plain.get("student") is True


def student_config(target: PreTrainedModel, layers: int) -> LlamaConfig:
    """The target's own sizes with fewer layers."""
    config = LlamaConfig.from_dict(target.config.to_dict())
    config.num_hidden_layers = layers
    config.tie_word_embeddings = False
    return config


def build_student(target: PreTrainedModel, layers: int, ids: Tensor) -> LlamaForCausalLM:
    """An untrained student of `target`, its tables in place; trainable are layers and norm."""
    config = student_config(target, layers)
    config._attn_implementation = "sdpa"
    student = LlamaForCausalLM(config)
    embedding = target.get_input_embeddings().weight
    student.model.embed_tokens.weight = nn.Parameter(embedding.detach(), requires_grad=False)
    student.lm_head = DraftHead(head_rows(target, ids), ids, embedding.shape[0])
    return student


def load_student(folder: Path, target: PreTrainedModel, label: str) -> LlamaForCausalLM:
    """The student in `folder` on its target's device and dtype, frozen, in eval mode.

    Raises ModelUnavailable with a sentence when it is damaged or another target's.
    """
    try:
        plain: dict[str, Any] = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
        tensors = read_tensors(folder)
        layers, size = int(plain["num_hidden_layers"]), int(plain["hidden_size"])
        ids = tensors.pop(DRAFT_IDS).long()
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise ModelUnavailable(
            later("The student {label} is missing or damaged.", label=label)
        ) from error
    weight = target.get_input_embeddings().weight
    if target.config.model_type != "llama" or size != weight.shape[1] or not 0 < layers <= 64:
        raise ModelUnavailable(later("{label} is the student of another target.", label=label))
    try:
        student = build_student(target, layers, ids.to(weight.device))
        student = student.to(device=weight.device, dtype=weight.dtype)
        wanted = {name for name, each in student.named_parameters() if each.requires_grad}
        if set(tensors) != wanted:
            raise ValueError("tensors of another kind")
        student.load_state_dict(tensors, strict=False)
    except (ValueError, RuntimeError) as error:
        raise ModelUnavailable(later("{label} does not fit this target.", label=label)) from error
    return student.eval().requires_grad_(False)
