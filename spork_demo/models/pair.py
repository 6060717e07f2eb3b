"""Load a target and its drafters, check that they can work together, place them on a device.

Whatever is wrong with a model (missing, damaged, too large, of a kind that speculative decoding
cannot use) becomes `ModelUnavailable` with one sentence for the page.
"""

import dataclasses
import gc
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    DynamicCache,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from spork_demo.models.attention import use_grouped_attention
from spork_demo.models.dspark_checkpoint import dspark_folder, load_dspark, share_head
from spork_demo.models.dspark_network import DSparkNetwork
from spork_demo.models.embedded import prepare
from spork_demo.models.layers import decoder_layers, final_norm, lm_head
from spork_demo.models.ngram_table import NgramTable
from spork_demo.models.packed import pack
from spork_demo.models.progress import ModelUnavailable, Progress, Report, ignore_progress
from spork_demo.models.tokens import same_tokenizer, special_ids, stop_ids
from spork_demo.spacefile import ModelRef, PairSpec

__all__ = ["ModelUnavailable", "Pair", "decoder_layers", "final_norm", "lm_head", "load_pair"]

EMBEDDED_NAME = "SmolLM2-135M-Instruct"


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
    kernels: str = "packed",
) -> Pair:
    """Load the models `spec` names. `dtype` other than auto overrides the one in `spec`.

    kernels: `packed` repacks a CPU model's weights for fast products of a few rows where torch
        can do that; `stock` leaves them as transformers loads them.
    """
    try:
        pair = _load_pair(spec, device, dtype, report)
        if kernels == "stock" or not pack(pair.target):
            return pair
        use_grouped_attention(pair.target)
        if pair.draft is not None:
            pack(pair.draft)
        if pair.dspark is not None:
            share_head(pair.dspark, pair.target)
            pack(pair.dspark)
        return dataclasses.replace(pair, kernels="packed")
    except ModelUnavailable as error:
        _free_memory()
        report(Progress("failed", 0, 0, str(error)))
        raise


def _load_pair(spec: PairSpec, device: str, dtype: str, report: Report) -> Pair:
    device = choose_device(device)
    kind = choose_dtype(spec.dtype if dtype == "auto" else dtype, device)
    spread = device.startswith("cuda") and (spec.device_map == "auto" or _too_large(spec, device))
    tokenizer, target = _load_model(spec.target, device, kind, spread, report)
    rows = target.get_input_embeddings().weight.shape[0]
    vocab_size = min(len(tokenizer), rows)
    draft = None
    if spec.draft is not None:
        draft_tokenizer, draft = _load_model(spec.draft, device, kind, False, report)
        if not same_tokenizer(tokenizer, draft_tokenizer):
            raise ModelUnavailable(
                f"{_label(spec.target)} and {_label(spec.draft)} use different tokenizers, "
                "so the one cannot draft for the other."
            )
        if draft.get_input_embeddings().weight.shape[0] < vocab_size:
            raise ModelUnavailable(f"{_label(spec.draft)} knows fewer tokens than its tokenizer.")
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
        target_name=_label(spec.target),
        draft_name=_label(spec.draft) if spec.draft is not None else None,
        dspark=_load_dspark(spec.dspark, target, device, kind, report) if spec.dspark else None,
        dspark_name=_label(spec.dspark) if spec.dspark else None,
    )
    if spec.ngram_table:
        pair = dataclasses.replace(pair, ngram_table=_ngram_table(spec.ngram_table, tokenizer))
    report(Progress("ready", 0, 0, f"{spec.name} is ready on {pair.device}."))
    return pair


def _ngram_table(path: str, tokenizer: PreTrainedTokenizerBase) -> NgramTable:
    try:
        table = NgramTable.load(Path(path))
    except ValueError as error:
        raise ModelUnavailable(str(error)) from error
    if table.vocab_size != len(tokenizer):
        raise ModelUnavailable("The n-gram table was counted with another tokenizer.")
    return table


def choose_device(device: str) -> str:
    """`auto` is the first GPU, or the CPU where there is none."""
    if device != "auto":
        return device
    return "cuda" if torch.cuda.is_available() else "cpu"


def choose_dtype(dtype: str, device: str) -> torch.dtype:
    """`auto` is bfloat16 on a GPU that has it, float16 on one that has not, float32 on CPU."""
    if dtype != "auto":
        return getattr(torch, dtype)
    if not device.startswith("cuda"):
        return torch.float32
    return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16


def context_length(config: PreTrainedConfig) -> int:
    """The most tokens, prompt and reply together, the model was made for."""
    length = getattr(config.get_text_config(decoder=True), "max_position_embeddings", None)
    if not isinstance(length, int) or length < 2:
        raise ModelUnavailable("This model does not say how long its context is.")
    return length


def refuse_unsuitable(config: PreTrainedConfig, label: str) -> None:
    """Raise ModelUnavailable for models whose cache cannot forget rejected tokens."""
    if config.is_encoder_decoder:
        raise ModelUnavailable(f"{label} has an encoder; only decoder-only models can be used.")
    try:
        layers = DynamicCache(config=config).layers
    except (KeyError, TypeError, AttributeError, ValueError):
        layers = []
    # A model without attention keys, such as RWKV, declares heads in no form the cache knows.
    plain_heads = getattr(config.get_text_config(decoder=True), "num_attention_heads", None)
    if not layers or not plain_heads:
        raise ModelUnavailable(f"{label} has a cache of a kind that cannot be rolled back.")
    if any(type(layer) not in (DynamicLayer, DynamicSlidingWindowLayer) for layer in layers):
        raise ModelUnavailable(
            f"{label} keeps a running state that cannot be taken back after a rejection."
        )
    limit = context_length(config)
    windows = [layer.sliding_window for layer in layers if hasattr(layer, "sliding_window")]
    if windows and min(windows) < limit:
        raise ModelUnavailable(
            f"{label} forgets tokens beyond a sliding window of {min(windows)}, "
            "so rejected drafts could not be taken back."
        )


def _load_model(
    ref: ModelRef, device: str, dtype: torch.dtype, spread: bool, report: Report
) -> tuple[PreTrainedTokenizerBase, PreTrainedModel]:
    label = _label(ref)
    source, size = _locate(ref, report)
    report(Progress("load", 0, size, f"Loading {label}."))
    options = {"revision": ref.revision} if ref.revision else {}
    try:
        refuse_unsuitable(AutoConfig.from_pretrained(source, **options), label)
        tokenizer = AutoTokenizer.from_pretrained(source, **options)
        model, loaded = AutoModelForCausalLM.from_pretrained(
            source,
            dtype=dtype,
            attn_implementation="sdpa",
            use_safetensors=True,  # a pickled checkpoint could run code
            output_loading_info=True,
            **({"device_map": "auto"} if spread else {}),
            **options,
        )
        if not spread:  # accelerate has placed it, and its hooks forbid moving it
            model = model.to(device)
    except ModelUnavailable:
        raise
    except Exception as error:
        raise ModelUnavailable(_explain(error, label)) from error
    if loaded["missing_keys"]:
        raise ModelUnavailable(f"The checkpoint of {label} is incomplete: weights are missing.")
    for part in (decoder_layers, final_norm, lm_head):
        part(model)
    report(Progress("load", size, size, f"{label} is loaded."))
    return tokenizer, model.eval().requires_grad_(False)


def _load_dspark(
    ref: ModelRef, target: PreTrainedModel, device: str, dtype: torch.dtype, report: Report
) -> DSparkNetwork:
    label = _label(ref)
    report(Progress("load", 0, 0, f"Loading {label}."))
    try:
        return load_dspark(dspark_folder(ref), target, device=device, dtype=dtype, label=label)
    except ModelUnavailable:
        raise
    except Exception as error:
        raise ModelUnavailable(_explain(error, label)) from error


def _locate(ref: ModelRef, report: Report) -> tuple[Path | str, int]:
    """What from_pretrained is given, and the bytes of its weights where they are known."""
    if ref.source == "hub":
        report(Progress("fetch", 0, 0, f"Fetching {_label(ref)} from the hub, unless it is here."))
        return ref.id, 0
    folder = _prepare_embedded(report) if ref.source == "embedded" else Path(ref.id)
    if not (folder / "config.json").is_file():
        raise ModelUnavailable(f"There is no checkpoint of {_label(ref)} in its folder.")
    return folder, sum(path.stat().st_size for path in folder.glob("*.safetensors"))


def _prepare_embedded(report: Report) -> Path:
    def on_the_way(progress: Progress) -> None:
        if progress.stage not in ("ready", "failed"):  # load_pair says these, once, at its end
            report(progress)

    return prepare(report=on_the_way)


def _label(ref: ModelRef) -> str:
    # The last part only: a folder's full path is nobody's business on the page.
    return EMBEDDED_NAME if ref.source == "embedded" else Path(ref.id).name


def _explain(error: Exception, label: str) -> str:
    text = str(error).lower()
    full = isinstance(error, torch.OutOfMemoryError | MemoryError)
    if full or "out of memory" in text or "allocate memory" in text:
        return f"{label} does not fit into the memory of this machine."
    if isinstance(error, OSError) and "safetensors" not in text:
        return f"{label} could not be found here or fetched from the hub."
    if isinstance(error, OSError):
        return f"{label} has no weights in the safetensors format."
    return f"The checkpoint of {label} is damaged or of a kind this version cannot load."


def _too_large(spec: PairSpec, device: str) -> bool:
    free, _ = torch.cuda.mem_get_info(torch.device(device))
    return spec.memory_gb * 1e9 > free


def _free_memory() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
