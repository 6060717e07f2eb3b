"""The cluster a deployment runs on, as its Spacefile chooses one. Plain data."""

from dataclasses import dataclass
from typing import Protocol

ENGINES = ("ray",)
LOCAL = "local"
"""The address of a cluster that is started on this machine, and ended with the page."""

RANGES = {"replicas": (1, 256), "gpus": (0, 16), "cpus": (1, 256), "queue": (1, 1000)}


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where runs go instead of this process.

    address: of a running cluster, `auto` for the one this machine is part of, or `local`.
    replicas: copies of the models, each of which runs one thing at a time.
    gpus, cpus: what one replica has to itself. queue: runs that may wait for a replica.
    """

    engine: str
    address: str
    replicas: int
    gpus: int
    cpus: int
    queue: int


class Table(Protocol):
    """A table of the Spacefile, read key by key."""

    def text(self, key: str) -> str: ...
    def choice(self, key: str, allowed: tuple[str, ...]) -> str: ...
    def whole(self, key: str, low: int, high: int) -> int: ...
    def refuse(self, key: str, what: str) -> Exception: ...
    def refuse_leftovers(self) -> None: ...


def read_cluster(table: Table) -> Cluster:
    """The `[cluster]` table, checked; raises what the table raises, naming the key."""
    engine, address = table.choice("engine", ENGINES), table.text("address")
    if "://" in address or any(letter.isspace() for letter in address):
        raise table.refuse("address", "must be local, auto or HOST:PORT")
    numbers = {key: table.whole(key, *ends) for key, ends in RANGES.items()}
    table.refuse_leftovers()
    return Cluster(engine, address, **numbers)
