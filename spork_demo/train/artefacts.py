"""Write trained drafters as files small enough for a repository."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

LARGEST_FILE = 9_500_000


def save_checkpoint(folder: Path, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """config.json and model*.safetensors, floats as bfloat16, whole numbers as int32.

    Raises ValueError for a tensor that alone is larger than a file may be.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("model*.safetensors"):
        old.unlink()
    shards: list[dict[str, Tensor]] = [{}]
    size = 0
    for name, tensor in tensors.items():
        kind = torch.bfloat16 if tensor.is_floating_point() else torch.int32
        small = tensor.detach().to("cpu", kind).contiguous()
        if small.nbytes > LARGEST_FILE:
            raise ValueError(f"{name} is too large for one file")
        if size + small.nbytes > LARGEST_FILE:
            shards.append({})
            size = 0
        shards[-1][name] = small
        size += small.nbytes
    for number, shard in enumerate(shards, 1):
        ending = f"-{number:05}-of-{len(shards):05}" if len(shards) > 1 else ""
        save_file(shard, folder / f"model{ending}.safetensors", metadata={"format": "pt"})
    text = json.dumps(dict(config), indent=2, ensure_ascii=False)
    (folder / "config.json").write_text(text + "\n", encoding="utf-8")
