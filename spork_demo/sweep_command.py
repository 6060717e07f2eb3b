"""`python -m spork_demo sweep`: a table of what a knob gains and costs, and a CSV or JSON of it."""

import csv
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from spork_demo.engine import Engine, empty_race, run_lanes
from spork_demo.settings import CHOICES, KNOBS, Settings, SettingsError
from spork_demo.sweep import Cell, best_exact, cells, pareto, races, sweep
from spork_demo.trace import Race, advance

COLUMNS = {
    "speedup": "{:.2f}",
    "tokens_per_second": "{:.1f}",
    "accepted_length": "{:.2f}",
    "target_calls_per_token": "{:.2f}",
    "equal_tokens": "{:.2f}",
    "perplexity_ratio": "{:.2f}",
}


def parse_axes(given: Sequence[str]) -> dict[str, list[Any]]:
    """`draft_length=2,4,8` -> values by setting; SettingsError for anything else."""
    axes: dict[str, list[Any]] = {}
    for text in given:
        name, _, values = text.partition("=")
        name = name.replace("-", "_")
        if name in axes or not values or name not in {*KNOBS, *CHOICES}:
            raise SettingsError(f"A swept setting looks like draft_length=2,4,8, not {text[:60]}.")
        axes[name] = [
            value if name in CHOICES else _number(name, value) for value in values.split(",")
        ]
    return axes


def run_sweep(
    engine: Engine,
    base: Settings,
    axes: dict[str, list[Any]],
    prompts: Sequence[str],
    told: Callable[[str], None] = lambda _line: None,
) -> tuple[Cell, ...]:
    """Every cell over every prompt; `told` hears of each race. Interrupted, it keeps what is done.

    Raises SettingsError when the pair cannot serve a cell, ValueError for a prompt.
    """
    grid = cells(base, axes)
    for cell in grid:
        engine.resolve(cell.settings)
    for prompt in prompts:
        engine.encode(prompt, engine.pair.context_length)
    whole, latest = races(prompts, grid), grid

    def run(prompt: str, lanes: Sequence[Settings]) -> Race:
        ids = engine.encode(prompt, engine.pair.context_length)
        resolved = [engine.resolve(settings) for settings in lanes]
        race = empty_race(engine, prompt, resolved, [""] * len(lanes))
        for news in run_lanes(engine, race, ids):
            race = advance(race, news)
        return race

    try:
        for done, found in enumerate(sweep(run, prompts, grid), 1):
            latest = found
            told(f"race {done} of {whole}")
    except KeyboardInterrupt:
        told("Stopped; what is done is kept.")
    return latest


def table(grid: Sequence[Cell]) -> str:
    """Cells by speedup, fastest first, with the front of speed against fidelity marked."""
    front = pareto(grid)
    names = [*grid[0].values]
    lines = ["  " + "".join(f"{name:>18}" for name in names) + "".join(
        f"{name.replace('_', ' '):>24}" for name in (*COLUMNS, "identical")
    )]  # fmt: skip
    for cell in sorted(grid, key=lambda cell: -(cell.speedup or 0.0)):
        row = cell.plain()
        text = "* " if cell in front else "  "
        text += "".join(f"{row[name]!s:>18}" for name in names)
        for name, form in COLUMNS.items():
            text += f"{'-' if row[name] is None else form.format(row[name]):>24}"
        lines.append(text + f"{row['identical']:>20} of {row['races']}")
    lines.append("* no other cell has both more speed and more equal tokens")
    best = best_exact(grid)
    if best is not None:
        chosen = ", ".join(f"{name} {value}" for name, value in best.values.items())
        lines.append(f"fastest with the target's own output: {chosen} ({best.speedup:.2f}x)")
    return "\n".join(lines)


def write(grid: Sequence[Cell], path: Path, provenance: dict[str, Any]) -> None:
    """The grid as JSON, with what it was measured on, or as CSV by the file's ending."""
    rows = [cell.plain() for cell in grid]
    if path.suffix == ".json":
        text = json.dumps({"provenance": provenance, "cells": rows}, indent=2)
    else:
        buffer = io.StringIO()
        writer = csv.DictWriter(buffer, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        text = buffer.getvalue()
    path.write_text(text, encoding="utf-8")


def _number(name: str, text: str) -> int | float:
    try:
        return int(text) if KNOBS[name].whole else float(text)
    except ValueError:
        raise SettingsError(f"{name} must be a number.") from None
