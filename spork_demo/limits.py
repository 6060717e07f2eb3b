"""What one visitor, and all of them together, may ask of the machine: the limits of a Spacefile."""

from dataclasses import dataclass

from spork_demo.cells import CELL_LIMIT
from spork_demo.line import KINDS


@dataclass(frozen=True, slots=True)
class Limits:
    """Every one is checked on the server, for every way in."""

    prompt_characters: int
    prompt_tokens: int
    new_tokens: int
    fork_nodes: int
    lanes: int
    seconds_per_run: int
    queue_races: int
    queue_sweeps: int
    queue_calibrations: int
    queue_lessons: int
    queue_calls: int
    upload_mb: int
    visitors: int
    sweep_cells: int
    sweep_prompts: int
    sweep_seconds: int

    @property
    def queues(self) -> dict[str, int]:
        """How many runs of each kind of `line.KINDS` may wait."""
        return {kind: getattr(self, f"queue_{kind}") for kind in KINDS}


LIMIT_RANGES = {
    "prompt_characters": (1, 200_000),
    "prompt_tokens": (2, 131_072),
    "new_tokens": (1, 4096),
    "fork_nodes": (1, 128),
    "lanes": (1, 8),
    "seconds_per_run": (1, 3600),
    **{f"queue_{kind}": (1, 1000) for kind in KINDS},
    "upload_mb": (1, 100),
    "visitors": (1, 10_000),
    "sweep_cells": (1, CELL_LIMIT),
    "sweep_prompts": (1, 100),
    "sweep_seconds": (1, 36_000),
}
