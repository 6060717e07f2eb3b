"""The reference data of tests/data/dspark_parity, loaded, and the pairs its models make."""

import functools
import json
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import Qwen3ForCausalLM

from spork_demo.models.dspark_checkpoint import load_dspark
from spork_demo.models.dspark_network import DSparkNetwork

FOLDER = Path(__file__).parent / "data" / "dspark_parity"
VOCABULARY, STOP, BLOCK = 128, 3, 5
DRAFTERS = ("vanilla", "gated", "rnn", "dflash")
IO = json.loads((FOLDER / "io.json").read_text(encoding="utf-8"))
SCHEDULER = json.loads((FOLDER / "scheduler.json").read_text(encoding="utf-8"))
TENSORS = load_file(FOLDER / "io.safetensors")
PROMPTS = [prompt["ids"] for prompt in IO["prompts"]]


@functools.cache
def parity_target() -> Qwen3ForCausalLM:
    model = Qwen3ForCausalLM.from_pretrained(FOLDER / "target", dtype=torch.float32)
    return model.eval().requires_grad_(False)


@functools.cache
def parity_drafter(name: str) -> DSparkNetwork:
    return load_dspark(
        FOLDER / f"drafter_{name}",
        parity_target(),
        device="cpu",
        dtype=torch.float32,
        label=name,
    )


def recorded(name: str) -> torch.Tensor:
    return TENSORS[name]


def rounds(drafter: str) -> range:
    """The recorded rounds of one drafter."""
    return range(sum(key.startswith(f"{drafter}.r") for key in IO["rounds"]))
