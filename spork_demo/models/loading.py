"""Load one model: the weights, what is missing or wrong said in one sentence."""

from pathlib import Path

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from spork_demo.language import later
from spork_demo.models.dspark_checkpoint import dspark_folder, load_dspark
from spork_demo.models.dspark_network import DSparkNetwork
from spork_demo.models.embedded import prepare
from spork_demo.models.layers import decoder_layers, final_norm, lm_head
from spork_demo.models.memory import out_of_memory
from spork_demo.models.progress import (
    DISK_FULL,
    ModelUnavailable,
    Progress,
    Report,
    disk_full,
)
from spork_demo.models.student import is_student, load_student
from spork_demo.models.suitable import refuse_unsuitable
from spork_demo.models.tokens import same_tokenizer
from spork_demo.spacefile import ModelRef

EMBEDDED_NAME = "SmolLM2-135M-Instruct"


def load_model(
    ref: ModelRef, device: str, dtype: torch.dtype, spread: bool, report: Report
) -> tuple[PreTrainedTokenizerBase, PreTrainedModel]:
    label = label_of(ref)
    source, size = _locate(ref, report)
    report(Progress("load", 0, size, later("Loading {label}.", label=label)))
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
        raise ModelUnavailable(
            later("The checkpoint of {label} is incomplete: weights are missing.", label=label)
        )
    for part in (decoder_layers, final_norm, lm_head):
        part(model)
    report(Progress("load", size, size, later("{label} is loaded.", label=label)))
    return tokenizer, model.eval().requires_grad_(False)


def load_draft(
    ref: ModelRef,
    label: str,
    tokenizer: PreTrainedTokenizerBase,
    target: PreTrainedModel,
    report: Report,
    *,
    device: str,
) -> PreTrainedModel:
    """A draft model for `target`: a student that only it can complete, or one of its own that
    reads and writes the same tokens.
    """
    if ref.source == "folder" and is_student(Path(ref.id)):
        report(Progress("load", 0, 0, later("Loading {label}.", label=label_of(ref))))
        return load_student(Path(ref.id), target, label_of(ref))
    draft_tokenizer, draft = load_model(ref, device, target.dtype, False, report)
    if not same_tokenizer(tokenizer, draft_tokenizer):
        raise ModelUnavailable(
            later(
                "{label} and {draft} use different tokenizers, so the one cannot draft for the "
                "other.",
                label=label,
                draft=label_of(ref),
            )
        )
    vocab_size = min(len(tokenizer), target.get_input_embeddings().weight.shape[0])
    if draft.get_input_embeddings().weight.shape[0] < vocab_size:
        raise ModelUnavailable(
            later("{label} knows fewer tokens than its tokenizer.", label=label_of(ref))
        )
    return draft


def load_drafter(
    ref: ModelRef, target: PreTrainedModel, device: str, dtype: torch.dtype, report: Report
) -> DSparkNetwork:
    label = label_of(ref)
    report(Progress("load", 0, 0, later("Loading {label}.", label=label)))
    try:
        return load_dspark(dspark_folder(ref), target, device=device, dtype=dtype, label=label)
    except ModelUnavailable:
        raise
    except Exception as error:
        raise ModelUnavailable(_explain(error, label)) from error


def _locate(ref: ModelRef, report: Report) -> tuple[Path | str, int]:
    """What from_pretrained is given, and the bytes of its weights where they are known."""
    if ref.source == "hub":
        report(
            Progress(
                "fetch",
                0,
                0,
                later("Fetching {label} from the hub, unless it is here.", label=label_of(ref)),
            )
        )
        return ref.id, 0
    folder = _prepare_embedded(report) if ref.source == "embedded" else Path(ref.id)
    if not (folder / "config.json").is_file():
        raise ModelUnavailable(
            later("There is no checkpoint of {label} in its folder.", label=label_of(ref))
        )
    return folder, sum(path.stat().st_size for path in folder.glob("*.safetensors"))


def _prepare_embedded(report: Report) -> Path:
    def on_the_way(progress: Progress) -> None:
        if progress.stage not in ("ready", "failed"):  # load_pair says these, once, at its end
            report(progress)

    return prepare(report=on_the_way)


def label_of(ref: ModelRef) -> str:
    # The last part only: a folder's full path is nobody's business on the page.
    return EMBEDDED_NAME if ref.source == "embedded" else Path(ref.id).name


def _explain(error: Exception, label: str) -> str:
    text = str(error).lower()
    if out_of_memory(error):
        return later("{label} does not fit into the memory of this machine.", label=label)
    if disk_full(error):
        return DISK_FULL
    if isinstance(error, OSError) and "safetensors" not in text:
        return later("{label} could not be found here or fetched from the hub.", label=label)
    if isinstance(error, OSError):
        return later("{label} has no weights in the safetensors format.", label=label)
    return later(
        "The checkpoint of {label} is damaged or of a kind this version cannot load.", label=label
    )
