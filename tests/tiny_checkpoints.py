"""Tiny random checkpoints with a tokenizer of 64 words, written to disk as real ones are."""

from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

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
