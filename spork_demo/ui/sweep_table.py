"""The cells of a sweep as a table that sorts: also the keyboard's way to load one."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gradio as gr

from spork_demo.cells import MEASURES, Cell, best_exact, pareto
from spork_demo.charts.figure import number
from spork_demo.charts.sweep_marks import BEST_MARK, FEW_MARK
from spork_demo.charts.sweep_words import (
    MEASURE_NAMES,
    cell_name,
    measure_text,
    short_name,
    times,
    value_text,
)
from spork_demo.language import say
from spork_demo.metrics import FEW_ROUNDS

SCRIPT = Path(__file__).resolve().parents[2] / "assets" / "sweep_table.js"
TEMPLATE = '<section class="sweep-table" hidden></section>'
STYLE = """
.sweep-table[hidden] { display: none; }
.st-scroll { overflow: auto; max-height: 420px; }
.st-scroll:focus-visible, .sweep-table button:focus-visible {
  outline: 2px solid var(--color-accent); outline-offset: -2px; }
.sweep-table table { border-collapse: collapse; border: 0; min-width: 100%; margin: 0;
  font-size: 14px; color: var(--body-text-color); }
.st-caption { font-size: 14px; margin: 0 0 6px; color: var(--body-text-color-subdued); }
.sweep-table tr, .sweep-table th, .sweep-table td { border: 0; }
.sweep-table th, .sweep-table td { text-align: right; padding: 3px 9px; white-space: nowrap;
  border-bottom: 1px solid var(--border-color-primary); font-variant-numeric: tabular-nums;
  font-weight: 400; color: inherit; }
.sweep-table th:first-child { text-align: left; }
.sweep-table thead th { position: sticky; top: 0; background: var(--background-fill-primary); }
.sweep-table button { font: inherit; color: inherit; background: transparent; cursor: pointer;
  border: 1px solid transparent; border-radius: 4px; padding: 2px 4px; }
.sweep-table thead th { vertical-align: bottom; }
.sweep-table thead button { font-weight: 600; white-space: normal; text-align: inherit;
  word-break: keep-all; }
.sweep-table .st-load { border-color: var(--border-color-primary); padding: 2px 8px; }
.sweep-table button:hover { border-color: currentColor; }
.sweep-table .st-best th, .sweep-table .st-best td { font-weight: 600; }
.st-mark { margin-left: 6px; }
"""
FRONT_MARK = "◆"
SPEEDUP = "speedup"


def sweep_table(value: str | None = None, **options: Any) -> gr.HTML:
    """A component that shows what `table_value` returns; `row_click` carries the cell's index."""
    script = SCRIPT.read_text(encoding="utf-8")
    return gr.HTML(value, html_template=TEMPLATE, css_template=STYLE, js_on_load=script, **options)


def table_value(grid: Sequence[Cell], measure: str) -> str:
    """Every cell, the fastest first; the front is that of speedup against `measure`."""
    best, front = best_exact(grid), pareto(grid, measure)
    names = list(grid[0].values)
    head = [say("settings"), *(short_name(name) for name in names), say("speedup")]
    column = len(head) - 1
    head += [say("range"), say("tokens/s"), say("accepted length"), say("target calls per token")]
    head += [*(say(MEASURE_NAMES[name]) for name in MEASURES), say("identical"), say("rounds")]
    caption = say(
        "{best} fastest exact, {front} no other is both faster and closer to greedy, {few} fewer "
        "than {enough} rounds. Press a setting to load it into the race, a heading to sort.",
        best=BEST_MARK, front=FRONT_MARK, few=FEW_MARK, enough=FEW_ROUNDS,
    )  # fmt: skip
    value = {
        "caption": caption,
        "load": say("Load into the race"),
        "head": head,
        "order": {"column": column, "down": True},
        "rows": [
            {
                "index": index,
                "keys": [index, *_keys(cell)],
                "cells": [cell_name(cell), *_texts(cell)],
                "best": cell is best,
                "marks": [
                    mark
                    for mark, holds in (
                        (BEST_MARK, cell is best),
                        (FRONT_MARK, any(cell is other for other in front)),
                        (FEW_MARK, bool(cell.rounds) and cell.few_rounds),
                    )
                    if holds
                ],
            }
            for index, cell in enumerate(grid)
        ],
    }
    # No "<" leaves here, so that nothing on the way to the page can take text for a tag.
    return json.dumps(value, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")


def _keys(cell: Cell) -> list[Any]:
    """What the rows are sorted by, column by column."""
    row = cell.plain()
    names = [*cell.values, SPEEDUP, "speedup_low", "tokens_per_second", "accepted_length"]
    return [row[name] for name in (*names, "target_calls_per_token", *MEASURES, "identical",
                                   "rounds")]  # fmt: skip


def _texts(cell: Cell) -> list[str]:
    row = cell.plain()
    spread = " – ".join(map(times, cell.spread)) if cell.spread else "–"
    same = "–"
    if row["identical"] is not None and row["compared"]:
        same = say("{same} of {all}", same=row["identical"], all=row["compared"])
    return [
        *map(value_text, cell.values.values()),
        times(cell.speedup),
        spread,
        number(row["tokens_per_second"], 1),
        number(row["accepted_length"]),
        number(row["target_calls_per_token"]),
        *(measure_text(name, row[name]) for name in MEASURES),
        same,
        str(cell.rounds),
    ]
