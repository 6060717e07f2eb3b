"""Many visitors at once, at a human pace: `python -m spork_demo crowd URL`."""

import asyncio
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from spork_demo.crowd.browser import Browser, ServerFaultError
from spork_demo.crowd.calls import decode
from spork_demo.crowd.page import Page
from spork_demo.crowd.races import OUTCOMES, Outcome, race
from spork_demo.crowd.server import at_rest, client, gauges, memory_mb, page_of

THINK_SECONDS = 4.0
"""Mean time between two things one visitor does."""

ARRIVAL_SECONDS = 60.0
"""Within which everybody comes."""

SAMPLE_SECONDS = 5.0
LIGHT = {"recording": 3, "inside_settled": 5, "status": 2, "lesson_learn-acceptance": 2}
"""What visitors do besides running races, by weight."""

RACE_WEIGHT = 0.9
STOPS, LEAVES = 0.2, 0.15
"""Shares of races that their visitor stops, and during which the tab is closed."""

EVERY_CALLER = 5
"""Every fifth visitor is a program that calls the API."""

LIGHT_LIMIT, MEMORY_LIMIT = 0.3, 0.05
SUBJECTS = ("a lighthouse", "bread", "rain", "a bicycle", "the moon", "tea", "a violin", "chess")


@dataclass(slots=True)
class Book:
    """What everybody saw. light: moment, name and seconds of every light event."""

    begun: float = 0.0
    light: list[tuple[float, str, float]] = field(default_factory=list)
    races: list[Outcome] = field(default_factory=list)
    calls: list[Outcome] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    samples: list[tuple[float, dict[str, float]]] = field(default_factory=list)

    def noted(self, name: str, seconds: float) -> None:
        self.light.append((time.perf_counter() - self.begun, name, seconds))


def prompts(count: int) -> list[str]:
    """One for each visitor, by which its results are known from all others."""
    return [
        f"Visitor {number} asks: say one thing about {SUBJECTS[number % len(SUBJECTS)]}."
        for number in range(1, count + 1)
    ]


async def crowd(
    url: str, visitors: int, seconds: float, told: Callable[[str], None], seed: int = 0
) -> dict[str, Any]:
    """Let them all in; returns the report. Raises NoServerError."""
    async with client(url) as made:
        page = await page_of(made)
        alone: dict[str, tuple[int, ...]] = {}
        for prompt in prompts(visitors):
            alone[prompt] = (await decode(made, prompt)).ids
        told(f"{visitors} prompts run alone; the visitors come")
        book = Book(time.perf_counter())
        sampling = asyncio.create_task(_sample(made, book, told))
        until = book.begun + seconds
        visits = [
            Visitor(
                made, page, prompt, alone[prompt], until, book, random.Random(seed + number),
                calls=number % EVERY_CALLER == EVERY_CALLER - 1,
            ).visit()
            for number, prompt in enumerate(prompts(visitors))
        ]  # fmt: skip
        await asyncio.gather(*visits)
        sampling.cancel()
        await asyncio.gather(sampling, return_exceptions=True)
        return report(book, visitors, seconds, await at_rest(made))


@dataclass(slots=True)
class Visitor:
    """One visitor, who comes back whenever the tab was closed or something broke.

    alone: what greedy writes to its prompt. calls: it is a program that calls the API.
    """

    made: httpx.AsyncClient
    page: Page
    prompt: str
    alone: tuple[int, ...]
    until: float
    book: Book
    chance: random.Random
    calls: bool = False
    runs: int = 0

    async def visit(self) -> None:
        """Until the time is over; nobody leaves without having run something."""
        patience = (self.until - time.perf_counter()) / 4
        await asyncio.sleep(self.chance.uniform(0, min(ARRIVAL_SECONDS, patience)))
        while not self._over():
            browser = Browser(self.made, self.page, self.book.noted)
            try:
                await browser.open()
                await self._stay(browser)
            except (httpx.HTTPError, ServerFaultError) as fault:
                self.book.faults.append(f"{self.prompt[:12]}: {type(fault).__name__} {fault}"[:200])
                self.runs += 1
                await asyncio.sleep(1)
            finally:
                await browser.close()

    def _over(self) -> bool:
        return time.perf_counter() >= self.until and self.runs > 0

    async def _stay(self, browser: Browser) -> None:
        """Until the time is over or the tab is closed during a race."""
        while not self._over():
            late = time.perf_counter() >= self.until
            if not late:
                pause = self.chance.expovariate(1 / THINK_SECONDS)
                await asyncio.sleep(min(pause, 5 * THINK_SECONDS))
            (what,) = self.chance.choices([*LIGHT, "race"], [*LIGHT.values(), RACE_WEIGHT])
            if what != "race" and not late:
                await _look(browser, what, self.chance)
            elif await self._run(browser) == "left":
                return

    async def _run(self, browser: Browser) -> str:
        """Returns how it went."""
        self.runs += 1
        if self.calls:
            self.book.calls.append(await decode(self.made, self.prompt, self.alone))
            return self.book.calls[-1].kind
        found = await race(browser, self.prompt, self.alone, **_patience(self.chance))
        self.book.races.append(found)
        return found.kind


def _patience(chance: random.Random) -> dict[str, float]:
    mood = chance.random()
    if mood < STOPS:
        return {"stop_after": chance.uniform(0.1, 6.0)}
    return {"leave_after": chance.uniform(0.1, 6.0)} if mood < STOPS + LEAVES else {}


async def _look(browser: Browser, what: str, chance: random.Random) -> None:
    if what == "inside_settled":
        browser.fill("inside-rest", f"{chance.randrange(2)} {chance.randrange(12)}")
    if what == "recording":
        browser.fill("recordings", 0)
    if what == "lesson_learn-acceptance":
        browser.fill("learn-acceptance", round(chance.uniform(0.1, 0.9), 2))
    await browser.send(what)


async def _sample(made: httpx.AsyncClient, book: Book, told: Callable[[str], None]) -> None:
    while True:
        begun = time.perf_counter()
        try:
            found = await gauges(made)
        except httpx.HTTPError as fault:
            book.faults.append(f"metrics: {type(fault).__name__} {fault}"[:200])
            await asyncio.sleep(SAMPLE_SECONDS)
            continue
        book.noted("metrics", time.perf_counter() - begun)
        moment = time.perf_counter() - book.begun
        if int(moment // 60) > int((book.samples[-1][0] if book.samples else 0.0) // 60):
            told(
                f"minute {int(moment // 60)}: {len(book.races) + len(book.calls)} runs, "
                f"{memory_mb(found):.0f} MB, {found.get('spork_waiting', 0):.0f} waiting"
            )
        book.samples.append((moment, found))
        await asyncio.sleep(SAMPLE_SECONDS)


def report(book: Book, visitors: int, seconds: float, rest: Mapping[str, float]) -> dict[str, Any]:
    """What was seen, and what of it is as it must be."""
    runs = book.races + book.calls
    wrong = [outcome.wrong for outcome in runs if outcome.wrong]
    minutes = _by_minute([(moment, took) for moment, _, took in book.light])
    memory = [mean for _, mean in _by_minute([(m, memory_mb(f)) for m, f in book.samples]).items()]
    settled = memory[1:] or memory
    growth = max(settled) / settled[0] - 1 if settled else 0.0
    light = [took for _, _, took in book.light]
    return {
        "visitors": visitors,
        "seconds": seconds,
        "races": counts(book.races),
        "calls": counts(book.calls),
        "told_a_place": sum(outcome.ahead is not None for outcome in runs),
        "first_word_seconds": spread([o.first_word for o in runs if o.first_word is not None]),
        "light_seconds": spread(light),
        "light_median_by_minute": list(minutes.values()),
        "light_by_name": {
            name: spread([took for _, each, took in book.light if each == name])
            for name in sorted({name for _, name, _ in book.light})
        },
        "memory_mb_by_minute": memory,
        "memory_growth": growth,
        "at_rest": dict(rest),
        "wrong": wrong,
        "faults": book.faults,
        "passed": {
            "every run belongs to its visitor": not wrong,
            "nobody met a fault": not book.faults,
            "light events are quick": all(each < LIGHT_LIMIT for each in minutes.values()),
            "memory is flat after the first minute": growth <= MEMORY_LIMIT,
            "some ran, some waited": bool(runs) and any(o.kind == "finished" for o in runs),
        },
    }


def counts(outcomes: Sequence[Outcome]) -> dict[str, int]:
    """How many ended how."""
    found = Counter(outcome.kind for outcome in outcomes)
    return {kind: found[kind] for kind in OUTCOMES if found[kind]}


def spread(values: Sequence[float]) -> dict[str, float]:
    """Count, median, 95th percentile and largest."""
    if not values:
        return {"count": 0}
    cuts = statistics.quantiles(values, n=20) if len(values) > 1 else [values[0]] * 19
    return {
        "count": len(values),
        "median": statistics.median(values),
        "p95": cuts[-1],
        "largest": max(values),
    }


def _by_minute(values: Sequence[tuple[float, float]]) -> dict[int, float]:
    """The median of each minute."""
    found: dict[int, list[float]] = {}
    for moment, value in values:
        found.setdefault(int(moment // 60), []).append(value)
    return {minute: statistics.median(found[minute]) for minute in sorted(found)}
