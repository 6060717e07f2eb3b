"""`python -m spork_demo crowd` and `soak`: visitors for a running server, and what they met."""

import asyncio
import json
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from spork_demo.crowd.load import crowd
from spork_demo.crowd.soak import soak

SHOWN = 10
"""Entries of a long list that are printed; the file has all."""


def run_crowd(url: str, visitors: int, minutes: float, file: Path | None) -> int:
    """Print and write what they met; 1 where something was not as it must be."""
    return _reported(crowd(url, visitors, 60 * minutes, _told), file)


def run_soak(url: str, races: int, file: Path | None) -> int:
    """The same of many races."""
    return _reported(soak(url, races, _told), file)


def _reported(work: Coroutine[Any, Any, dict[str, Any]], file: Path | None) -> int:
    report = asyncio.run(work)
    if file is not None:
        file.write_text(json.dumps(report, indent=2), encoding="utf-8")
    sys.stdout.write("\n".join(lines(report)) + "\n")
    return 0 if all(report["passed"].values()) else 1


def lines(report: dict[str, Any]) -> list[str]:
    """The report as a reader wants it: figures, then what passed."""
    told = []
    for name, value in report.items():
        if name in ("passed", "at_rest", "light_by_name"):
            continue
        if isinstance(value, list) and len(value) > SHOWN and not isinstance(value[0], float):
            value = [*value[:SHOWN], f"and {len(value) - SHOWN} more"]
        told.append(f"{name}: {_plain(value)}")
    for name, value in report.get("light_by_name", {}).items():
        told.append(f"  {name}: {_plain(value)}")
    told += [f"{'ok    ' if held else 'NOT SO'} {name}" for name, held in report["passed"].items()]
    return told


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_plain(each)}" for name, each in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(_plain, value)) or "none"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _told(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
