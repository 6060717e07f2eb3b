"""The loop every drafter is trained by: AdamW, warm-up and cosine, checkpoints to go on from."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor, nn

from spork_demo.train.batches import Batch

EVERY = 100
"""Steps between two lines of the log, and between two checkpoints."""


@dataclass(frozen=True, slots=True)
class Course:
    """How long and how fast. The first `warm_up` share of the steps climbs to `rate`."""

    steps: int
    rate: float = 1e-3
    warm_up: float = 0.04
    clip: float = 1.0
    seed: int = 42

    def rate_at(self, step: int) -> float:
        warm = max(1, int(self.steps * self.warm_up))
        if step < warm:
            return self.rate * (step + 1) / warm
        return self.rate * 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, self.steps - warm)))


Loss = Callable[[Batch, int], tuple[Tensor, dict[str, float]]]
"""From a batch and the step to the loss and figures worth a line in the log."""


def train(
    network: nn.Module,
    stream: Iterator[Batch],
    loss: Loss,
    course: Course,
    checkpoint: Path,
    told: Callable[[str], None],
) -> None:
    """Train what requires a gradient, from where `checkpoint` left off if there is one.

    Raises FloatingPointError when the loss is no number any more; the checkpoint then holds the
    last good state.
    """
    wanted = [each for each in network.parameters() if each.requires_grad]
    optimiser = torch.optim.AdamW(wanted, lr=course.rate, betas=(0.9, 0.95), weight_decay=0.0)
    first = _resume(network, optimiser, checkpoint)
    sums: dict[str, float] = {}
    began = time.monotonic()
    # batches already seen are passed over, so that a resumed run sees the rest of the epoch
    for step, batch in enumerate(islice(stream, first, course.steps), start=first):
        for group in optimiser.param_groups:
            group["lr"] = course.rate_at(step)
        value, figures = loss(batch, step)
        if not torch.isfinite(value):
            raise FloatingPointError("the loss is no number any more")
        optimiser.zero_grad(set_to_none=True)
        value.backward()
        nn.utils.clip_grad_norm_(wanted, course.clip)
        optimiser.step()
        for name, figure in figures.items():
            sums[name] = sums.get(name, 0.0) + figure
        if (step + 1) % EVERY == 0 or step + 1 == course.steps:
            count = (step - first) % EVERY + 1
            line = "  ".join(f"{name} {total / count:.3f}" for name, total in sums.items())
            speed = (step + 1 - first) / (time.monotonic() - began)
            told(f"step {step + 1} of {course.steps}  {line}  {speed:.2f} steps/s\n")
            sums.clear()
            _save(network, optimiser, checkpoint, step + 1)


def trained_state(network: nn.Module) -> dict[str, Tensor]:
    """What was trained, by name."""
    return {name: each for name, each in network.named_parameters() if each.requires_grad}


def _save(network: nn.Module, optimiser: torch.optim.Optimizer, path: Path, step: int) -> None:
    fresh = path.with_suffix(".new")
    state = {name: each.detach() for name, each in trained_state(network).items()}
    torch.save({"step": step, "network": state, "optimiser": optimiser.state_dict()}, fresh)
    fresh.replace(path)


def _resume(network: nn.Module, optimiser: torch.optim.Optimizer, path: Path) -> int:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        return 0
    kept = torch.load(path, weights_only=True)
    network.load_state_dict(kept["network"], strict=False)
    optimiser.load_state_dict(kept["optimiser"])
    return kept["step"]
