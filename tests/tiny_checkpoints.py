"""Tiny random checkpoints with a tokenizer of 64 words, written to disk as real ones are."""

import json
from pathlib import Path

from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

from spork_demo.models.dspark_network import DSparkNetwork
from spork_demo.spacefile import ModelRef

SIZES = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 64,
}


def tiny_tokenizer(last_word: str = "w60", **extra: str) -> PreTrainedTokenizerFast:
    """Exactly 64 tokens: <unk>, <end>, <turn> and 61 words."""
    words = ["<unk>", "<end>", "<turn>", *(f"w{n}" for n in range(60)), last_word]
    backend = Tokenizer(models.WordLevel({w: n for n, w in enumerate(words)}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.add_special_tokens(["<turn>"])
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>", **extra)


def tiny_llama(rows: int = 64, **changes: object) -> LlamaForCausalLM:
    ends = {"bos_token_id": None, "eos_token_id": None}
    return LlamaForCausalLM(LlamaConfig(vocab_size=rows, **{**SIZES, **ends, **changes}))


def saved(
    folder: Path,
    model: PreTrainedModel | None = None,
    tokenizer: PreTrainedTokenizerFast | None = None,
) -> ModelRef:
    (model or tiny_llama()).save_pretrained(folder)
    (tokenizer or tiny_tokenizer()).save_pretrained(folder)
    return ModelRef("folder", str(folder))


def saved_dspark(folder: Path, network: DSparkNetwork, **changes: object) -> ModelRef:
    """A drafter of the Llama kind in the layout of the releases."""
    config = network.config
    plain = {
        "model_type": "llama",
        "vocab_size": config.vocab_rows,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "rms_norm_eps": config.norm_eps,
        "rope_theta": config.rope_theta,
        "max_position_embeddings": config.max_positions,
        "block_size": config.block_size,
        "mask_token_id": config.mask_token,
        "target_layer_ids": config.feature_layers,
        "num_target_layers": config.target_layers,
        "markov_rank": config.markov_rank,
        "enable_confidence_head": config.confidence,
        **changes,
    }
    folder.mkdir(exist_ok=True)
    save_file(network.state_dict(), folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(plain))
    return ModelRef("folder", str(folder))
