"""A sweep as a file: a table for a spreadsheet, or everything one needs to run it again."""

import csv
import dataclasses
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from spork_demo.cells import Cell
from spork_demo.trace import Provenance


def as_csv(grid: Sequence[Cell]) -> str:
    """One line a cell, with a head. Values are numbers and names of ours, never text of others."""
    rows = [cell.plain() for cell in grid]
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


def as_json(
    grid: Sequence[Cell],
    provenance: Provenance | Mapping[str, Any],
    prompts: Sequence[str] = (),
    best: Mapping[str, Any] | None = None,
) -> str:
    """The cells with their whole settings, what they were measured on, and the prompts.

    best: the fastest exact setting, as other programs take it, where there is one.
    """
    if isinstance(provenance, Provenance):
        provenance = dataclasses.asdict(provenance)
    cells = [cell.plain() | {"settings": cell.resolved.to_plain()} for cell in grid]
    found: dict[str, Any] = {"provenance": dict(provenance), "prompts": list(prompts)}
    found["cells"] = cells
    if best is not None:
        found["best_exact"] = dict(best)
    return json.dumps(found, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
