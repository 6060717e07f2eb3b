"""Handlers that need the device take turns, and nothing else waits for them.

A handler that waits holds no thread, and one that runs steps in threads of its own kind: however
many wait, run or are being stopped, the page's light events find a thread.
"""

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import gradio as gr
from anyio import CapacityLimiter
from anyio.lowlevel import RunVar
from anyio.to_thread import run_sync

from spork_demo.language import later, say
from spork_demo.line import Line, LineFullError, Ticket
from spork_demo.ui.notices import notice

THREADS = 8
"""Threads for runs: one goes on, others are just being refused or stopped."""

END = object()

WAITING = later("Waiting for the device: {ahead} ahead of you. It starts by itself.")
BUSY = later(
    "The device is busy: {ahead} runs are ahead, and no more than {limit} of this kind may wait. "
    "What you entered is kept; try again in a minute."
)
LEFT = later("You left the line before your turn, so nothing was run.")

_limiter: RunVar[CapacityLimiter] = RunVar("run_threads")
_ending: set[asyncio.Task[None]] = set()
"""Runs being closed: the event loop itself would forget them."""


@dataclass(frozen=True, slots=True)
class Told:
    """What somebody is shown who has to wait, made of the runs ahead; or who may not wait."""

    waiting: Callable[[int], Any]
    busy: Callable[[LineFullError], Any]


def waiting_sentence(ahead: int) -> str:
    """For somebody in the line."""
    return say(WAITING, ahead=ahead)


def busy_sentence(full: LineFullError) -> str:
    """For somebody the line is too long for."""
    return say(BUSY, ahead=full.ahead, limit=full.limit)


def in_notice(outputs: int, place: int) -> Told:
    """Told in the notice, the output at `place`; the others stay as they are."""

    def frame(text: str, kind: str) -> tuple[Any, ...]:
        values = [gr.skip()] * outputs
        values[place] = notice(text, kind)
        return tuple(values)

    return Told(
        lambda ahead: frame(waiting_sentence(ahead), "waiting"),
        lambda full: frame(busy_sentence(full), "refused"),
    )


def in_answers(nothing: str) -> Told:
    """Told in an answer of the API that has `nothing` yet, or as an error."""

    def busy(full: LineFullError) -> None:
        raise gr.Error(busy_sentence(full), print_exception=False)

    return Told(lambda ahead: {"done": False, "ahead": ahead, nothing: []}, busy)


def succeeds(plan: Callable[..., Any]) -> Callable[..., bool]:
    """Whether `plan` refuses nothing of what it is given."""

    def planned(*args: Any, **options: Any) -> bool:
        try:
            plan(*args, **options)
        except Exception:  # the handler will meet it too, and answer
            return False
        return True

    return planned


def left_line(said: Any) -> str:
    """The notice for somebody whose run ended while `said`, the last notice, told it to wait."""
    waited = isinstance(said, str) and "notice-waiting" in said
    return notice(say(LEFT)) if waited else ""


def taking_turns(
    line: Line,
    kind: str,
    handler: Callable[..., Iterator[Any]],
    told: Told,
    runs: Callable[..., bool] = lambda *_args, **_options: True,
) -> Callable[..., AsyncIterator[Any]]:
    """`handler`, a generator, started when its turn has come; closing it frees the device.

    runs: told the same values as the handler, whether it will need the device. What will be
    refused anyway does not wait for that.
    """

    @functools.wraps(handler)
    async def run(*args: Any, **options: Any) -> AsyncIterator[Any]:
        ticket, started = None, False
        try:
            if await run_sync(functools.partial(runs, *args, **options), limiter=_threads()):
                try:
                    ticket = line.join(kind)
                except LineFullError as full:
                    yield told.busy(full)
                    return
                while not ticket.called:
                    yield told.waiting(line.ahead(ticket))
                    await line.news(ticket)
            steps = handler(*args, **options)
            started = True
            async with aclosing(stepped(steps, line, ticket)) as items:
                async for item in items:
                    yield item
        finally:
            if ticket is not None and not started:
                line.leave(ticket)

    return run


async def stepped(
    steps: Iterator[Any], line: Line, ticket: Ticket | None = None
) -> AsyncIterator[Any]:
    """A generator's items, each made in a thread. When this is closed the generator is, after the
    step it is in; only then its ticket is given back.
    """
    step: asyncio.Future[Any] | None = None
    try:
        while True:
            step = asyncio.ensure_future(run_sync(next, steps, END, limiter=_threads()))
            item = await asyncio.shield(step)
            if item is END:
                return
            yield item
    finally:
        ending = asyncio.ensure_future(_ended(steps, step, line, ticket))
        _ending.add(ending)
        ending.add_done_callback(_ending.discard)
        await asyncio.shield(ending)


async def _ended(
    steps: Any, step: asyncio.Future[Any] | None, line: Line, ticket: Ticket | None
) -> None:
    try:
        if step is not None:
            await asyncio.gather(step, return_exceptions=True)  # who still listens has been told
        await run_sync(steps.close, limiter=_threads())
    finally:
        if ticket is not None:
            line.leave(ticket)


def _threads() -> CapacityLimiter:
    """One for each event loop."""
    try:
        return _limiter.get()
    except LookupError:
        _limiter.set(CapacityLimiter(THREADS))
        return _limiter.get()
