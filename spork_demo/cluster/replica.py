"""One replica: its models, loaded once, and one run at a time.

It has its GPUs, or its share of CPU cores, to itself, so whatever is timed here is timed alone.
"""

import asyncio
import logging
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import torch

from spork_demo.cells import Cell
from spork_demo.cluster.messages import Begun, Facts, Refused, Request
from spork_demo.engine import APP_VERSION
from spork_demo.host import RunRefusedError
from spork_demo.language import spoken
from spork_demo.race import failure_sentence
from spork_demo.runtime import LocalHost
from spork_demo.settings import SettingsError
from spork_demo.spacefile import Spacefile

logger = logging.getLogger(__name__)

BATCH_SECONDS = 0.05
"""Events of so long cross together, once the first has."""

GRACE = 10.0
"""Seconds after its limit at which a run ends that nobody has stopped."""


class ReplicaHost(LocalHost):
    """The host in the replica: it is loaded before there is anyone to ask."""

    def load(self) -> None:
        """Load the default pair now. Raises RuntimeError where it cannot be."""
        self._load_default()
        if not self._status.ready:
            raise RuntimeError(self._status.message)

    def facts(self) -> Facts:
        """What is known now."""
        measured = {name: self.costs(name) for name in self._engines}
        costs = {name: found for name, found in measured.items() if found is not None}
        return Facts(APP_VERSION, self._status.message, self.pairs(), costs)

    def check(self, prompts: Sequence[str], grid: Sequence[Cell], pair: str) -> Iterator[Any]:
        """Nothing, where every cell of a sweep and every prompt can run; else RunRefusedError."""
        with self._held(pair) as engine:
            try:
                for cell in grid:
                    engine.resolve(cell.settings)
                for prompt in prompts:
                    engine.encode(prompt, self._limits.prompt_tokens)
            except (SettingsError, ValueError) as error:
                raise RunRefusedError(str(error)) from error
        yield from ()

    def count_rules(
        self, p: Sequence[float], q: Sequence[float], draws: int, seed: int
    ) -> Iterator[Any]:
        """See `Host.rule_counts`."""
        yield self.rule_counts(p, q, draws, seed)


class Replica:
    """What the cluster starts. It is asked for one run at a time."""

    def __init__(self, spacefile: Spacefile, threads: int) -> None:
        torch.set_num_threads(threads)
        limits = spacefile.limits
        self._host = ReplicaHost(spacefile)
        self._longest = max(limits.seconds_per_run, limits.sweep_seconds) + GRACE
        self._host.load()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="run")

    async def run(self, request: Request) -> AsyncIterator[tuple[Any, ...]]:
        """The items of a run, a few at a time. Cancelling ends it at its next round."""
        loop = asyncio.get_running_loop()
        batches = batched(self._items(request))
        try:
            while batch := await loop.run_in_executor(self._thread, next, batches, ()):
                yield batch
        finally:  # behind the round under way: there is only this thread
            await loop.run_in_executor(self._thread, batches.close)

    async def facts(self) -> Facts:
        """What this replica knows of itself."""
        return self._host.facts()

    def _items(self, request: Request) -> Iterator[Any]:
        end = time.monotonic() + self._longest
        run = spoken(request.language, getattr(self._host, request.kind))
        yield Begun(f"{socket.gethostname()}:{os.getpid()}")
        try:
            with closing(run(*request.arguments)) as items:
                for item in items:
                    yield item
                    if time.monotonic() > end:
                        break
            yield self._host.facts()
        except RunRefusedError as error:
            yield Refused(str(error))
        except Exception as error:
            logger.exception("a run failed in a replica")
            yield Refused(failure_sentence(error))


def batched(
    items: Iterator[Any], clock: Callable[[], float] = time.monotonic
) -> Iterator[tuple[Any, ...]]:
    """The first item at once, then what came within `BATCH_SECONDS` together."""
    told, waiting = float("-inf"), []
    with closing(items):
        for item in items:
            waiting.append(item)
            if clock() - told >= BATCH_SECONDS:
                yield tuple(waiting)
                told, waiting = clock(), []
    if waiting:
        yield tuple(waiting)
