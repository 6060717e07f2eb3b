"""Race after race in one server: `python -m spork_demo soak URL`.

A third of them are stopped or their tab is closed at a random moment. Afterwards nothing may be
left over, and the last ones must run as fast as the first.
"""

import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import httpx

from spork_demo.crowd.browser import Browser, ServerFaultError
from spork_demo.crowd.load import counts, spread
from spork_demo.crowd.page import Page
from spork_demo.crowd.races import Outcome, race
from spork_demo.crowd.server import AT_REST, at_rest, client, memory_mb, page_of, visitors

WARM = 10
"""Races before the first look at what the server holds, and at how fast they are."""

STAY = 5
"""Races of one visitor, who then closes the tab."""

DISTURBED = 1 / 3
CUT_SECONDS = 0.05, 1.5
"""When, after their start, they are stopped or left."""

WINDOW = 20
"""Undisturbed races at either end whose speeds are compared."""

SPEED_LIMIT = 0.10
SPARE_THREADS, SPARE_FILES = 4, 4
"""Idle threads of the server's pool, and open connections, come and go."""

HELD = ("spork_threads", "process_open_fds", "spork_sessions", "spork_temporary_files")


async def soak(url: str, races: int, told: Callable[[str], None], seed: int = 0) -> dict[str, Any]:
    """Run them; returns the report. Raises NoServerError."""
    chance, outcomes, faults = random.Random(seed), [], []
    async with client(url) as made:
        page = await page_of(made)
        early: Mapping[str, float] = {}
        while len(outcomes) < races:
            count = min(STAY, races - len(outcomes))
            try:
                outcomes += await _visit(made, page, len(outcomes), count, chance)
            except (httpx.HTTPError, ServerFaultError) as fault:
                faults.append(f"race {len(outcomes) + 1}: {type(fault).__name__} {fault}"[:200])
                if len(faults) > races // 10:
                    break
            if not early and len(outcomes) >= WARM:
                early = await at_rest(made)
            if len(outcomes) % 50 < STAY:
                told(f"{len(outcomes)} races")
        return report(outcomes, faults, early, await at_rest(made), await visitors(made))


async def _visit(
    made: httpx.AsyncClient, page: Page, before: int, count: int, chance: random.Random
) -> list[Outcome]:
    """One visitor's races; fewer where the tab was closed during one."""
    browser, found = Browser(made, page, lambda *_: None), []
    try:
        await browser.open()
        for number in range(before + 1, before + count + 1):
            prompt = f"Race {number}: say one thing about the sea."
            found.append(await race(browser, prompt, None, **_disturbance(chance)))
            if found[-1].kind == "left":
                break
    finally:
        await browser.close()
    return found


def _disturbance(chance: random.Random) -> dict[str, float]:
    if chance.random() >= DISTURBED:
        return {}
    return {chance.choice(("stop_after", "leave_after")): chance.uniform(*CUT_SECONDS)}


def report(
    outcomes: Sequence[Outcome],
    faults: Sequence[str],
    early: Mapping[str, float],
    late: Mapping[str, float],
    most: int,
) -> dict[str, Any]:
    """What was seen, and what of it is as it must be.

    early, late: gauges of the idle server. most: visitors whose values and files it keeps.
    """
    whole = [outcome for outcome in outcomes if outcome.kind == "finished"]
    whole = whole[min(WARM - 1, len(whole) // 4) :]
    window = max(1, min(WINDOW, len(whole) // 3))
    first, last = whole[:window], whole[-window:]
    rate = _median(last, "rate") / _median(first, "rate")
    seconds = _median(last, "seconds") / _median(first, "seconds")
    wrong = [outcome.wrong for outcome in outcomes if outcome.wrong]
    more = {name: late.get(name, 0.0) - early.get(name, 0.0) for name in HELD}
    growth = memory_mb(late) / memory_mb(early) - 1 if memory_mb(early) else 0.0
    return {
        "races": counts(outcomes),
        "greedy_tokens_per_second": {
            "first": _median(first, "rate"), "last": _median(last, "rate"), "ratio": rate
        },
        "race_seconds": {
            "first": _median(first, "seconds"), "last": _median(last, "seconds"), "ratio": seconds,
            "all": spread([outcome.seconds for outcome in whole]),
        },
        "memory_mb": {"early": memory_mb(early), "late": memory_mb(late), "growth": growth},
        "more_than_early": more,
        "at_rest": {name: late.get(name, 0.0) for name in AT_REST},
        "sessions": late.get("spork_sessions", 0.0),
        "kept_for_visitors": most,
        "wrong": wrong,
        "faults": list(faults),
        "passed": {
            "every race belongs to its visitor": not wrong,
            "nobody met a fault": not faults,
            "nothing goes on": not any(late.get(name) for name in AT_REST),
            "no thread is left": more["spork_threads"] <= SPARE_THREADS,
            "no open file is left": more["process_open_fds"] <= SPARE_FILES,
            "no more sessions than visitors": late.get("spork_sessions", 0.0) <= most,
            "no more files than visitors": more["spork_temporary_files"] <= most,
            "the last is as fast as the first": abs(rate - 1) <= SPEED_LIMIT,
            "the last takes no longer than the first": seconds - 1 <= SPEED_LIMIT,
        },
    }  # fmt: skip


def _median(outcomes: Sequence[Outcome], name: str) -> float:
    values = [value for each in outcomes if (value := getattr(each, name)) is not None]
    return statistics.median(values) if values else float("nan")
