"""Read a DSpark drafter in the layout of the releases: config.json and model.safetensors.

Two things a release has not are read as well: weights in several files, and a drafter that
speaks a selection of the target's tokens only (`draft_vocab_size`, `draft_ids`).

Every name and shape is checked, and whatever is wrong becomes ModelUnavailable with one sentence:
a drafter that is loaded wrongly fails silently, since the target corrects whatever it says.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import snapshot_download
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor
from transformers import PreTrainedModel

from spork_demo.language import later
from spork_demo.models.dspark_config import DSparkConfig, MixtureConfig
from spork_demo.models.dspark_network import DSparkNetwork
from spork_demo.models.layers import decoder_layers
from spork_demo.models.progress import ModelUnavailable
from spork_demo.spacefile import ModelRef

CONFIG_FILE, WEIGHTS_FILES = "config.json", "model*.safetensors"
DRAFT_IDS = "draft_ids"
TABLES = ("embed_tokens.weight", "lm_head.weight")
MARKOV_TYPES = ("vanilla", "gated", "rnn")


def dspark_folder(ref: ModelRef) -> Path:
    """The folder of a checkpoint, fetched from the hub first where `ref` names one there."""
    if ref.source == "embedded":
        raise ModelUnavailable(
            later("The embedded model brings no DSpark drafter; name its folder.")
        )
    if ref.source == "folder":
        return Path(ref.id)
    files = [CONFIG_FILE, WEIGHTS_FILES]
    return Path(snapshot_download(ref.id, revision=ref.revision or None, allow_patterns=files))


def load_dspark(
    folder: Path, target: PreTrainedModel, *, device: str, dtype: torch.dtype, label: str
) -> DSparkNetwork:
    """The drafter in `folder` for `target`, frozen, in eval mode, heads in float32.

    The embedding and the head are the target's own tables where the checkpoint has none or the
    same ones; fine-tuned or quantised targets differ, and then the drafter keeps its copies.
    """
    try:
        plain = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
        tensors = read_tensors(folder)
    except (OSError, UnicodeDecodeError, ValueError, SafetensorError) as error:
        raise ModelUnavailable(
            later("The DSpark checkpoint {label} is missing or damaged.", label=label)
        ) from error
    config = parse_config(plain, tensors, label)
    _check_fit(config, target, label)
    with torch.device("meta"):
        network = DSparkNetwork(config)
    tables = _tables(target, config, tensors, label)
    for name, table in tables.items():
        tensors.setdefault(name, table)
    _check_tensors(tensors, network.state_dict(), label)
    placed = {
        name: _shared(name, tensor.to(device, _dtype(name, tensor, dtype)), tables)
        for name, tensor in tensors.items()
    }
    network.load_state_dict(placed, assign=True)
    return network.eval().requires_grad_(False)


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """All tensors of a checkpoint. Raises OSError when there is none."""
    files = sorted(folder.glob(WEIGHTS_FILES))
    if not files:
        raise OSError("no weights")
    return {name: tensor for file in files for name, tensor in load_file(file).items()}


def head_rows(target: PreTrainedModel, ids: Tensor) -> Tensor:
    """The rows [ids, hidden size] of the target's head that speak `ids`.

    Raises ValueError where an id is not one of the head's, or comes twice.
    """
    weight = target.get_output_embeddings().weight
    if ids.min() < 0 or ids.max() >= weight.shape[0] or len(ids.unique()) < len(ids):
        raise ValueError("ids of a draft vocabulary must be the target's, each once")
    return weight.detach()[ids.to(weight.device)]


def _tables(
    target: PreTrainedModel, config: DSparkConfig, tensors: Mapping[str, Tensor], label: str
) -> dict[str, Tensor]:
    """What the drafter shares with its target: the embedding, and the head or its rows."""
    head = target.get_output_embeddings().weight
    if config.draft_rows:
        try:
            head = head_rows(target, tensors[DRAFT_IDS].long())
        except (KeyError, ValueError, RuntimeError) as error:
            raise ModelUnavailable(
                later("The draft vocabulary of {label} cannot be read.", label=label)
            ) from error
    return dict(zip(TABLES, (target.get_input_embeddings().weight, head), strict=True))


def share_head(network: DSparkNetwork, target: PreTrainedModel) -> None:
    """Let both use one head module where the table is one, so that it is repacked only once."""
    head, own = target.get_output_embeddings(), network.lm_head.weight
    if head.weight is own or (head.weight.shape == own.shape and torch.equal(head.weight, own)):
        network.lm_head = head


def parse_config(plain: Any, tensors: Mapping[str, Tensor], label: str) -> DSparkConfig:
    """The config.json of a release. Keys that follow from others may be missing."""
    if not isinstance(plain, dict):
        raise ModelUnavailable(
            later("The DSpark checkpoint {label} has no readable config.", label=label)
        )
    _check_kind(plain, label)
    try:
        rank = int(plain.get("markov_rank", 0))
        confidence = bool(plain.get("enable_confidence_head", False))
        return DSparkConfig(
            vocab_rows=int(plain["vocab_size"]),
            hidden_size=int(plain["hidden_size"]),
            intermediate_size=int(plain["intermediate_size"]),
            layers=int(plain["num_hidden_layers"]),
            heads=int(plain["num_attention_heads"]),
            kv_heads=int(plain.get("num_key_value_heads", plain["num_attention_heads"])),
            head_size=int(
                plain.get("head_dim") or plain["hidden_size"] // plain["num_attention_heads"]
            ),
            norm_eps=float(plain["rms_norm_eps"]),
            rope_theta=_rope_theta(plain),
            max_positions=int(plain["max_position_embeddings"]),
            block_size=int(plain["block_size"]),
            mask_token=int(plain["mask_token_id"]),
            feature_layers=tuple(int(layer) for layer in plain["target_layer_ids"]),
            target_layers=int(plain["num_target_layers"]),
            qk_norm=plain["model_type"] == "qwen3" or any(".q_norm." in name for name in tensors),
            markov_rank=rank,
            markov_type=plain.get("markov_head_type", "vanilla"),
            confidence=confidence,
            confidence_with_markov=confidence
            and rank > 0
            and bool(plain.get("confidence_head_with_markov", True)),
            confidence_temperatures=tuple(
                float(t) for t in plain.get("confidence_temperatures", ())
            ),
            draft_rows=int(plain.get("draft_vocab_size") or 0),
            mixture=_mixture(plain.get("mixture")),
        )
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise ModelUnavailable(
            later(
                "The config of the DSpark checkpoint {label} lacks a value or has a wrong one.",
                label=label,
            )
        ) from error


def _mixture(plain: Any) -> MixtureConfig | None:
    if plain is None:
        return None
    constant, own, best = (float(each) for each in plain["confidence"])
    return MixtureConfig(
        weight=float(plain["weight"]),
        confidence=(constant, own, best),
        temperatures=tuple(float(t) for t in plain["temperatures"]),
    )


def _check_kind(plain: Mapping[str, Any], label: str) -> None:
    rope = plain.get("rope_parameters") or plain.get("rope_scaling") or {}
    known = (
        plain.get("model_type") in ("qwen3", "llama")
        and plain.get("hidden_act", "silu") == "silu"
        and not plain.get("attention_bias", False)
        and plain.get("markov_head_type", "vanilla") in MARKOV_TYPES
        and rope.get("rope_type", "default") == "default"
        and rope.get("partial_rotary_factor", 1.0) == 1.0
    )
    if not known:
        raise ModelUnavailable(
            later("{label} is a drafter of a kind this version cannot load.", label=label)
        )
    if plain.get("sample_from_anchor", True) is not True:
        # the original DFlash layout: its anchor slot predicts nothing
        raise ModelUnavailable(
            later("{label} does not draft at the anchor, so it is not a DSpark one.", label=label)
        )


def _rope_theta(plain: Mapping[str, Any]) -> float:
    # transformers 5 moved it; a default would be wrong without anybody noticing
    parameters = plain.get("rope_parameters") or {}
    return float(parameters["rope_theta"] if "rope_theta" in parameters else plain["rope_theta"])


def _check_fit(config: DSparkConfig, target: PreTrainedModel, label: str) -> None:
    layers = len(decoder_layers(target))
    rows, size = target.get_input_embeddings().weight.shape
    taps = config.feature_layers
    if (config.target_layers, config.hidden_size) != (layers, size) or config.vocab_rows < rows:
        raise ModelUnavailable(
            later("{label} was made for another target than this one.", label=label)
        )
    if not taps or list(taps) != sorted(set(taps)) or not 0 <= taps[0] <= taps[-1] < layers - 1:
        # the last layer's output is only defined up to the final norm
        raise ModelUnavailable(
            later("{label} reads target layers that cannot be read.", label=label)
        )
    mixture = config.mixture or MixtureConfig()
    temperatures = config.confidence_temperatures, mixture.temperatures
    fits = (
        config.block_size >= 1
        and config.layers >= 1
        and 0 <= config.mask_token < config.vocab_rows
        and config.head_size % 2 == 0
        and config.heads % config.kv_heads == 0
        and all(len(each) in (0, config.block_size) for each in temperatures)
        and all(math.isfinite(t) and t > 0 for each in temperatures for t in each)
        and 0 <= mixture.weight <= 1
        and all(math.isfinite(each) for each in mixture.confidence)
    )
    if not fits:
        raise ModelUnavailable(
            later("The config of the DSpark checkpoint {label} contradicts itself.", label=label)
        )


def _check_tensors(tensors: Mapping[str, Tensor], wanted: Mapping[str, Tensor], label: str) -> None:
    missing, unknown = sorted(set(wanted) - set(tensors)), sorted(set(tensors) - set(wanted))
    if missing:
        raise ModelUnavailable(
            later("The DSpark checkpoint {label} lacks {name}.", label=label, name=missing[0])
        )
    if unknown:
        raise ModelUnavailable(
            later(
                "The DSpark checkpoint {label} holds {name}, which nothing reads.",
                label=label,
                name=unknown[0],
            )
        )
    for name, tensor in tensors.items():
        if tensor.shape != wanted[name].shape:
            raise ModelUnavailable(
                later(
                    "{name} in the DSpark checkpoint {label} has shape {shape} instead of "
                    "{wanted}.",
                    name=name,
                    label=label,
                    shape=tuple(tensor.shape),
                    wanted=tuple(wanted[name].shape),
                )
            )


def _dtype(name: str, tensor: Tensor, dtype: torch.dtype) -> torch.dtype:
    if not tensor.is_floating_point():
        return torch.long
    return torch.float32 if name.startswith(("markov_head.", "confidence_head.")) else dtype


def _shared(name: str, tensor: Tensor, tables: Mapping[str, Tensor]) -> Tensor:
    table = tables.get(name)
    same = (
        table is not None
        and (table.shape, table.dtype, table.device) == (tensor.shape, tensor.dtype, tensor.device)
        and torch.equal(table, tensor)
    )
    return table if same else tensor
