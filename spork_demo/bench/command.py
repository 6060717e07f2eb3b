"""`python -m spork_demo bench`: on the CPU, and on the GPU where there is one."""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from spork_demo.bench.page import page_overhead
from spork_demo.bench.run import PROMPTS, run_bench
from spork_demo.bench.table import table
from spork_demo.engine import Engine
from spork_demo.spacefile import read_spacefile

SPACEFILE = Path(__file__).parents[2] / "Spacefile"
QUICK = 3, 24
"""Prompts and new tokens of a quick run."""


def run(
    load: Callable[..., Engine],
    device: str,
    prompts: Sequence[str],
    new_tokens: int,
    *,
    quick: bool,
    file: Path | None,
) -> None:
    """Print a table a device and write the report to `file`.

    load: an engine on a device; with kernels="stock" as transformers has it, for the peers.
    """
    prompts = prompts or PROMPTS
    if quick:
        prompts, new_tokens = prompts[: QUICK[0]], QUICK[1]
    report: dict[str, Any] = {}
    for each in devices(device):
        engine, stock = load(each), load(each, kernels="stock").pair
        found = run_bench(engine, stock, prompts, new_tokens, _told)
        if not quick:
            found["page"] = page_overhead(engine, read_spacefile(SPACEFILE), prompts[0])
        sys.stdout.write(table(found) + "\n")
        report = report | {"gpu": found} if report else found
    if file is not None:
        file.write_text(json.dumps(report, indent=2), encoding="utf-8")


def devices(asked: str) -> list[str]:
    """What `auto` means to the benchmark: the CPU, and the GPU where there is one."""
    if asked != "auto":
        return [asked]
    return ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


def _told(line: str) -> None:
    sys.stderr.write(f"{line}\n")
