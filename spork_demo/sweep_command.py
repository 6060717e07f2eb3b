"""`python -m spork_demo sweep`: a table of what a knob gains and costs, and a CSV or JSON of it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from spork_demo.axes import axis_values
from spork_demo.cells import Cell, best_exact, cells, pareto
from spork_demo.engine import Engine, sweep_lanes
from spork_demo.settings import CHOICES, KNOBS, Settings, SettingsError
from spork_demo.sweep_file import as_csv, as_json

COLUMNS = {
    "speedup": "{:.2f}",
    "tokens_per_second": "{:.1f}",
    "accepted_length": "{:.2f}",
    "target_calls_per_token": "{:.2f}",
    "equal_tokens": "{:.2f}",
    "perplexity_ratio": "{:.2f}",
}


def parse_axes(given: Sequence[str]) -> dict[str, list[Any]]:
    """`draft_length=2,4,8` or `draft_length=2:8:2` -> values by setting; else SettingsError."""
    axes: dict[str, list[Any]] = {}
    for text in given:
        name, _, values = text.partition("=")
        name = name.replace("-", "_")
        if name in axes or not values or name not in {*KNOBS, *CHOICES}:
            raise SettingsError(f"A swept setting looks like draft_length=2,4,8, not {text[:60]}.")
        axes[name] = axis_values(name, values)
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
    state = None
    try:
        for state in sweep_lanes(engine, prompts, grid, engine.pair.context_length):
            if state.races_done and state.running is None:
                told(f"race {state.races_done} of {state.races}")
    except KeyboardInterrupt:
        told("Stopped; what is done is kept.")
    return state.so_far() if state else grid


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
        same = "-" if row["identical"] is None else row["identical"]
        lines.append(text + f"{same:>20} of {row['compared']}")
    lines.append("* no other cell has both more speed and more equal tokens")
    best = best_exact(grid)
    if best is not None:
        chosen = ", ".join(f"{name} {value}" for name, value in best.values.items())
        lines.append(f"fastest with the target's own output: {chosen} ({best.speedup:.2f}x)")
    return "\n".join(lines)


def write(grid: Sequence[Cell], path: Path, provenance: dict[str, Any]) -> None:
    """The grid as JSON, with what it was measured on, or as CSV by the file's ending."""
    text = as_json(grid, provenance) if path.suffix == ".json" else as_csv(grid)
    path.write_text(text, encoding="utf-8")
