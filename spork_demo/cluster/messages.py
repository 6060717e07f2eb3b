"""What crosses between the page and a replica: plain data, whatever the cluster's engine."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from spork_demo.host import MachineCosts, PairInfo


class BusyError(Exception):
    """As many runs wait as may."""


class LostError(Exception):
    """The replica is gone, and with it the rest of its run. The message names it."""


@dataclass(frozen=True, slots=True)
class Request:
    """One run: a method of the host in the replica, what it is given, and who reads it."""

    kind: str
    arguments: tuple[Any, ...]
    language: str


@dataclass(frozen=True, slots=True)
class Begun:
    """The first item of a run: the host and process that has taken it."""

    replica: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The last item of a run that could not start or go on: its sentence, never an exception."""

    sentence: str


@dataclass(frozen=True, slots=True)
class Facts:
    """What a replica knows of itself; the last item of a run that came to its end.

    version: of the program. costs: of calls, by pair, as far as they were measured.
    """

    version: str
    message: str
    pairs: tuple[PairInfo, ...]
    costs: dict[str, MachineCosts] = field(default_factory=dict)


class Pool(Protocol):
    """Replicas on some engine."""

    def start(self) -> Facts:
        """Reach the cluster, start the replicas where nobody has, and wait until one is ready."""
        ...

    def stream(self, request: Request, stop: threading.Event | None = None) -> Iterator[Any]:
        """The items of a run as they come. Closing the iterator, or `stop`, cancels the run.

        Raises BusyError where too many wait, LostError where its replica is gone.
        """
        ...

    def close(self) -> None:
        """End what was started, and leave what others have started."""
        ...
