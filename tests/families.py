"""Small random models of every family that runs without its own layers."""

import torch
from torch import nn
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    MistralConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen3Config,
)

from tests.toys import VOCABULARY

SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 80,  # not a whole number of panels
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "initializer_range": 0.3,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
FAMILIES = {
    "llama": LlamaConfig(**SIZES),
    "llama, tied, biased": LlamaConfig(
        **SIZES, tie_word_embeddings=True, attention_bias=True, mlp_bias=True
    ),
    "llama 3 positions": LlamaConfig(**SIZES, rope_parameters=LLAMA3),
    "one key head": LlamaConfig(**{**SIZES, "num_key_value_heads": 1}),
    "as many key heads": LlamaConfig(**{**SIZES, "num_key_value_heads": 4}),
    "mistral": MistralConfig(**SIZES, sliding_window=None),
    "qwen2": Qwen2Config(**SIZES),
    "qwen3": Qwen3Config(**SIZES, head_dim=32),
}
IDS = [5, 9, 12, 9, 5, 60, 33, 2]
PARENTS = [-1, -1, 0, 0, 1, 2, 4, 5]


def stock(config=FAMILIES["llama"], dtype=torch.float32, seed=0) -> PreTrainedModel:
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").eval()
    for name, weight in model.named_parameters():
        if name.endswith("bias") or "norm" in name:
            nn.init.normal_(weight, mean=0.0 if name.endswith("bias") else 1.0, std=0.2)
    return model.to(dtype).requires_grad_(False)
