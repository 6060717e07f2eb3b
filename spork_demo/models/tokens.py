"""What a pair must agree on about tokens: one tokenizer, where replies end, what is never shown."""

from transformers import PreTrainedModel, PreTrainedTokenizerBase

SAMPLES = (
    "The quick brown fox, 12345 times.",
    "def f(x):\n    return x ** 2  # two  spaces\n",
    "naïve café 水的化学式是什么？ 👩‍👩‍👧 \u200bend",
)
"""Tokenizers with one vocabulary may still split text differently: these must come out equal."""


def same_tokenizer(one: PreTrainedTokenizerBase, other: PreTrainedTokenizerBase) -> bool:
    """Whether both give every text the same ids. Sizes in the configs do not matter."""
    if one.get_vocab() != other.get_vocab():
        return False
    return all(
        one.encode(text, add_special_tokens=False) == other.encode(text, add_special_tokens=False)
        for text in SAMPLES
    )


def stop_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """The union of what the generation config and the tokenizer call the end; maybe empty."""
    declared = getattr(model.generation_config, "eos_token_id", None)
    listed = declared if isinstance(declared, list | tuple) else [declared]
    return frozenset(i for i in (*listed, tokenizer.eos_token_id) if i is not None)


def special_ids(tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Ids of control tokens, those included that the tokenizer has no role for."""
    added = tokenizer.added_tokens_decoder
    return frozenset(tokenizer.all_special_ids) | {i for i, token in added.items() if token.special}
