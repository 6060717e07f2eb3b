"""Load a target and its drafters, check that they can work together, place them on a device.

Whatever is wrong with a model (missing, damaged, too large, of a kind that speculative decoding
cannot use) becomes `ModelUnavailable` with one sentence for the page.
"""

import dataclasses
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from spork_demo.language import later
from spork_demo.models.attention import use_grouped_attention
from spork_demo.models.compiled import compile_model
from spork_demo.models.compiled_dspark import compile_dspark
from spork_demo.models.dspark_checkpoint import share_head
from spork_demo.models.dspark_network import DSparkNetwork
from spork_demo.models.graphed import graph_model
from spork_demo.models.layers import decoder_layers, final_norm, lm_head
from spork_demo.models.loading import label_of, load_draft, load_drafter, load_model
from spork_demo.models.memory import free_memory
from spork_demo.models.native import BFLOAT16, INT8
from spork_demo.models.ngram_table import NgramTable
from spork_demo.models.packed import pack
from spork_demo.models.progress import ModelUnavailable, Progress, Report, ignore_progress
from spork_demo.models.slim import slim_model
from spork_demo.models.suitable import choose_device, choose_dtype, context_length
from spork_demo.models.tokens import special_ids, stop_ids
from spork_demo.spacefile import PairSpec

__all__ = ["ModelUnavailable", "Pair", "decoder_layers", "final_norm", "lm_head", "load_pair"]

KERNELS = ("compiled", "packed", "stock")
"""From the fastest on."""

GUESSES = BFLOAT16
"""Weights of drafters on compiled kernels: half the memory to read, for guesses good enough."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A target, its draft model and its DSpark drafter, loaded, checked and in eval mode.

    vocab_size: ids below it exist in the tokenizer; logits of both models are cut to it.
    stop_ids: any of them ends a reply; empty for a base model without one.
    special_ids: control tokens, never shown as text.
    device: where token ids are sent; with accelerate, where the target's first layer is.
    """

    name: str
    target: PreTrainedModel
    draft: PreTrainedModel | None
    tokenizer: PreTrainedTokenizerBase
    vocab_size: int
    stop_ids: frozenset[int]
    special_ids: frozenset[int]
    context_length: int
    draft_context_length: int | None
    device: str
    dtype: str
    target_name: str
    draft_name: str | None
    dspark: DSparkNetwork | None = None
    dspark_name: str | None = None
    kernels: str = "stock"
    ngram_table: NgramTable | None = None


def load_pair(
    spec: PairSpec,
    device: str = "auto",
    dtype: str = "auto",
    report: Report = ignore_progress,
    kernels: str = "compiled",
) -> Pair:
    """Load the models `spec` names. `dtype` other than auto overrides the one in `spec`.

    kernels: `compiled` runs a CPU model of a family they know on our own kernels, where the
        machine has a compiler, and a model on one GPU from CUDA graphs; `packed`, also where a
        CPU cannot do that, repacks its weights for torch's faster products of a few rows;
        `stock` leaves it as transformers loads it.
    """
    try:
        dtype = spec.dtype if dtype == "auto" else dtype
        pair = _load_pair(spec, device, dtype, report)
        if dtype == "int8":
            pair = _in_int8(pair, kernels)
        else:
            wanted = KERNELS[KERNELS.index(kernels) :]
            used = next(name for name in wanted if _use(name, pair))
            pair = dataclasses.replace(pair, kernels=used)
        report(
            Progress(
                "ready",
                0,
                0,
                later("{name} is ready on {device}.", name=spec.name, device=pair.device),
            )
        )
        return pair
    except ModelUnavailable as error:
        free_memory()
        report(Progress("failed", 0, 0, str(error)))
        raise


def _in_int8(pair: Pair, kernels: str) -> Pair:
    """`pair`, loaded in float32, with the target's weights in 8 bits."""
    if kernels != "compiled" or not _use("compiled", pair, INT8):
        raise ModelUnavailable(
            later(
                "Weights of 8 bits need compiled kernels: a CPU, a C++ compiler and a Llama-like "
                "model."
            )
        )
    return dataclasses.replace(pair, kernels="compiled", dtype="int8")


def _use(kernels: str, pair: Pair, kind: int | None = None) -> bool:
    """Let the models of `pair` run on these kernels; False where the target cannot.

    kind: of the target's weights on compiled kernels, None for that of the model.
    """
    if kernels == "stock":
        return True
    compiled = kernels == "compiled"
    if compiled and pair.device.startswith("cuda"):
        return _recorded(pair)
    if not (compile_model(pair.target, kind) if compiled else _packed(pair.target)):
        return False
    if pair.draft is not None and not (compiled and compile_model(pair.draft, GUESSES)):
        _packed(pair.draft)
    if pair.dspark is not None:
        share_head(pair.dspark, pair.target)
        if not (compiled and compile_dspark(pair.dspark, GUESSES)):
            pack(pair.dspark)
    return True


def _recorded(pair: Pair) -> bool:
    """Let a pair on a GPU run from graphs; a draft model that cannot runs as it is."""
    if not graph_model(pair.target):
        return False
    if pair.draft is not None:
        graph_model(pair.draft)
    return True


def _packed(model: PreTrainedModel) -> bool:
    if not pack(model, merge=True):
        return False
    use_grouped_attention(model)
    slim_model(model)
    return True


def _load_pair(spec: PairSpec, device: str, dtype: str, report: Report) -> Pair:
    device = choose_device(device)
    kind = choose_dtype(dtype, device)
    spread = device.startswith("cuda") and (spec.device_map == "auto" or _too_large(spec, device))
    tokenizer, target = load_model(spec.target, device, kind, spread, report)
    rows = target.get_input_embeddings().weight.shape[0]
    vocab_size = min(len(tokenizer), rows)
    name = label_of(spec.target)
    draft = None
    if spec.draft is not None:
        draft = load_draft(spec.draft, name, tokenizer, target, report, device=device)
    device = str(target.get_input_embeddings().weight.device) if not spread else device
    pair = Pair(
        name=spec.name,
        target=target,
        draft=draft,
        tokenizer=tokenizer,
        vocab_size=vocab_size,
        stop_ids=stop_ids(target, tokenizer),
        special_ids=special_ids(tokenizer),
        context_length=context_length(target.config),
        draft_context_length=context_length(draft.config) if draft is not None else None,
        device=device,
        dtype=str(kind).removeprefix("torch."),
        target_name=name,
        draft_name=label_of(spec.draft) if spec.draft is not None else None,
        dspark=load_drafter(spec.dspark, target, device, kind, report) if spec.dspark else None,
        dspark_name=label_of(spec.dspark) if spec.dspark else None,
    )
    if spec.ngram_table:
        pair = dataclasses.replace(pair, ngram_table=_ngram_table(spec.ngram_table, tokenizer))
    return pair


def _ngram_table(path: str, tokenizer: PreTrainedTokenizerBase) -> NgramTable:
    try:
        table = NgramTable.load(Path(path))
    except ValueError as error:
        raise ModelUnavailable(str(error)) from error
    if table.vocab_size != len(tokenizer):
        raise ModelUnavailable(later("The n-gram table was counted with another tokenizer."))
    return table


def _too_large(spec: PairSpec, device: str) -> bool:
    free, _ = torch.cuda.mem_get_info(torch.device(device))
    return spec.memory_gb * 1e9 > free
