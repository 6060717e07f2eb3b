"""A lane's own stopwatch: it runs only while that lane's round runs, device synchronised."""

import contextlib
import time
from collections.abc import Callable, Iterator

import torch

PHASES = ("prefill", "draft", "judge", "commit")


def synchroniser(device: torch.device) -> Callable[[], None]:
    """A call that returns when the device has finished what it was given."""
    if device.type == "cuda":
        return lambda: torch.cuda.synchronize(device)
    if device.type == "mps":
        return torch.mps.synchronize
    return lambda: None


class Stopwatch:
    """Seconds spent in a round and in its phases. `now` is a parameter so that tests can tick."""

    def __init__(
        self,
        synchronise: Callable[[], None] = lambda: None,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._synchronise = synchronise
        self._now = now
        self._spent: dict[str, float] = {}

    @contextlib.contextmanager
    def running(self, what: str) -> Iterator[None]:
        """Add the seconds of the block to `what`: "round" or one of PHASES."""
        self._synchronise()
        begin = self._now()
        try:
            yield
        finally:
            self._synchronise()
            self._spent[what] = self._spent.get(what, 0.0) + self._now() - begin

    def lap(self) -> dict[str, float]:
        """Seconds since the last lap, by name; zero where a phase did not run."""
        spent, self._spent = self._spent, {}
        return {name: spent.get(name, 0.0) for name in ("round", *PHASES)}
