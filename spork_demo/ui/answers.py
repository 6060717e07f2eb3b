"""What the endpoints answer, as plain JSON."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from spork_demo.cells import Cell, best_exact, pareto
from spork_demo.metrics import measure, speedup
from spork_demo.sweep import Sweep
from spork_demo.trace import Race, Trace

Answer = dict[str, Any]


def so_far(lane: Trace) -> Answer:
    """A lane while it runs."""
    metrics = measure(lane)
    seconds = metrics.prefill_seconds + metrics.decode_seconds
    return {
        "label": lane.label,
        "text": lane.text,
        "tokens": metrics.committed,
        "seconds": seconds,
    }


def result(race: Race, lane: Trace) -> Answer:
    """A lane of a race that is over, with all that was measured."""
    baseline = race.baseline
    return {
        **so_far(lane),
        "settings": lane.settings.to_plain(),
        "exact": lane.settings.exact,
        "stop_reason": lane.stop_reason,
        "message": lane.message,
        "ids": list(lane.ids),
        "fates": [token.fate for token in lane.tokens],
        "speedup": None if lane is baseline else speedup(lane, baseline),
        "metrics": dataclasses.asdict(measure(lane)),
        "fidelity": dataclasses.asdict(lane.fidelity) if lane.fidelity else None,
        "provenance": dataclasses.asdict(lane.provenance),
    }


def table(state: Sweep | None, grid: Sequence[Cell], *, done: bool) -> Answer:
    """A sweep, over or not."""
    found = state.so_far() if state is not None else tuple(grid)
    best = best_exact(found)
    return {
        "done": done,
        "share": state.share if state is not None else 0.0,
        "cells": [cell.plain() for cell in found],
        "front": [dict(cell.values) for cell in pareto(found)],
        "best_exact": None if best is None else {**best.values, "speedup": best.speedup},
    }
