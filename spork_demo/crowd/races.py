"""One visitor's race on the page, and whether what came back is its own.

Every visitor has a prompt of its own, and what greedy writes to it alone is known beforehand: the
prompt that comes back, and every token of every lane, must be those.
"""

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Any

from spork_demo.crowd.browser import Browser, Run

NEW_TOKENS = 16
LANES = 2
"""Greedy and exact SPORK, as the page opens."""

OUTCOMES = ("finished", "stopped", "left", "busy", "refused", "fault")
"""stopped: by its visitor. left: the tab was closed. busy: told that the line is full."""


@dataclass(slots=True)
class Told:
    """What the race view was told, read off its lines. ids: of each lane."""

    prompt: str | None = None
    ids: dict[int, list[int]] = field(default_factory=dict)
    over: set[int] = field(default_factory=set)
    seconds: dict[int, float] = field(default_factory=dict)

    @classmethod
    def read(cls, lines: str) -> "Told":
        told = cls()
        for line in lines.splitlines():
            event = json.loads(line)
            if event["kind"] == "race":
                told.prompt = event["prompt"]
            elif event["kind"] == "round":
                ids = told.ids.setdefault(event["lane"], [])
                ids += [token[0] for token in event["committed"]]
                lane = event["lane"]
                told.seconds[lane] = told.seconds.get(lane, 0.0) + (event["seconds"] or 0.0)
            elif event["kind"] == "finished":
                told.over.add(event["lane"])
        return told


@dataclass(slots=True)
class Outcome:
    """How one race went. wrong: what was not as it must be, empty where all was.

    first_word: seconds until anything was shown. ahead: runs before it, as first told.
    rate: tokens a second of the greedy lane, by its own stopwatch.
    """

    kind: str
    seconds: float
    first_word: float | None = None
    ahead: int | None = None
    wrong: str = ""
    rate: float | None = None
    ids: tuple[int, ...] = ()


async def race(
    browser: Browser,
    prompt: str,
    alone: tuple[int, ...] | None,
    *,
    stop_after: float | None = None,
    leave_after: float | None = None,
) -> Outcome:
    """Run one, to its end or until the visitor stops it or closes the tab after so many seconds.

    alone: what greedy writes to the prompt; None where that is not known.
    """
    browser.fill("prompt", prompt)
    browser.fill("knob-max_new_tokens", NEW_TOKENS)
    browser.fill("lane-count", LANES)
    await browser.send("leave_recording")
    watch = _Watch(time.perf_counter())
    kind = "finished"
    async with browser.run("race") as run:
        watching = asyncio.create_task(watch.see(run))
        patience = stop_after if stop_after is not None else leave_after
        done, _ = await asyncio.wait([watching], timeout=patience)
        if not done and leave_after is not None:
            kind = "left"
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        elif not done:
            kind = "stopped"
            await browser.stop(run)
        if kind != "left":
            await watching
    if kind != "left":
        await browser.follow(run.event)
    return watch.outcome(kind, prompt, alone)


class _Watch:
    """What a visitor sees of a run."""

    def __init__(self, begun: float) -> None:
        self._begun = begun
        self._first: float | None = None
        self._ahead: int | None = None
        self._lines, self._notice = "", ""

    async def see(self, run: Run) -> None:
        async for frame in run.frames():
            if self._first is None and frame.values:
                self._first = time.perf_counter() - self._begun
            view, _, notice = [*frame.values, None, None, None][:3]
            if isinstance(view, str):
                self._lines = view
            if isinstance(notice, str):
                self._notice = notice
            if self._ahead is None and "notice-waiting" in self._notice:
                self._ahead = _number(self._notice)

    def outcome(self, kind: str, prompt: str, alone: tuple[int, ...] | None) -> Outcome:
        seconds = time.perf_counter() - self._begun
        told = Told.read(self._lines)
        if kind == "finished" and "notice-refused" in self._notice:
            kind = "busy" if "device is busy" in self._notice else "refused"
        return Outcome(
            kind,
            seconds,
            self._first,
            self._ahead,
            wrong(told, kind, prompt, alone) or (self._notice if kind == "refused" else ""),
            _rate(told),
            tuple(told.ids.get(0, ())),
        )


def wrong(told: Told, kind: str, prompt: str, alone: tuple[int, ...] | None) -> str:
    """What is not as it must be of a race that ended as `kind`; empty where all is."""
    if told.prompt is None:
        return "the race never came" if kind == "finished" else ""
    if told.prompt != prompt:
        return f"another prompt came back: {told.prompt[:60]!r}"
    if alone is None:
        alone = tuple(max(told.ids.values(), key=len, default=()))
    for lane, ids in told.ids.items():
        if tuple(ids) != alone[: len(ids)]:
            return f"lane {lane} wrote other tokens than greedy does"
    if kind == "finished":
        if told.over != set(range(LANES)):
            return f"lanes {sorted(told.over)} of {LANES} ended"
        if any(len(ids) != len(alone) for ids in told.ids.values()):
            return "a lane ended early"
    return ""


def _rate(told: Told) -> float | None:
    seconds = told.seconds.get(0, 0.0)
    return len(told.ids[0]) / seconds if seconds > 0 else None


def _number(text: str) -> int | None:
    found: Any = [word for word in text.replace(":", " ").split() if word.isdigit()]
    return int(found[0]) if found else None
