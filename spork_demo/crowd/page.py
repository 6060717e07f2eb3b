"""The page as a browser meets it: which events there are, and what its widgets hold."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

STATEFUL = "state"


@dataclass(frozen=True, slots=True)
class Event:
    """One event of the page.

    queued: it may have to wait. loads: sent when the page opens. then: the event it follows.
    answered: the server has a handler for it.
    """

    number: int
    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    queued: bool
    loads: bool
    then: int | None
    answered: bool = True


@dataclass(frozen=True, slots=True)
class Page:
    """What `/config` says of the page in English.

    values: what each widget holds when the page opens. places: widgets by the name they have on
    the page. events: by name.
    """

    values: Mapping[int, Any]
    places: Mapping[str, int]
    events: Mapping[str, Event]
    states: frozenset[int] = field(default_factory=frozenset)

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> "Page":
        first = config["page"][""]  # the same names stand on the pages of other languages
        here = set(first["components"])
        components = [each for each in config["components"] if each["id"] in here]
        props = {each["id"]: each.get("props", {}) for each in components}
        sent = set(first["dependencies"])
        events = [_event(each) for each in config["dependencies"] if each["id"] in sent]
        return cls(
            values={number: each.get("value") for number, each in props.items()},
            places={
                each["elem_id"]: number for number, each in props.items() if each.get("elem_id")
            },
            events={event.name: event for event in events if event.answered},
            states=frozenset(each["id"] for each in components if each["type"] == STATEFUL),
        )

    def after(self, event: Event) -> list[Event]:
        """Events the browser sends once `event` has ended."""
        return [each for each in self.events.values() if each.then == event.number]

    def at_opening(self) -> list[Event]:
        """Events the browser sends when the page opens."""
        return [event for event in self.events.values() if event.loads]


def _event(dependency: Mapping[str, Any]) -> Event:
    return Event(
        number=dependency["id"],
        name=dependency["api_name"],
        inputs=tuple(dependency["inputs"]),
        outputs=tuple(dependency["outputs"]),
        queued=dependency["queue"] is not False,
        loads=any(kind == "load" for _, kind in dependency["targets"]),
        then=dependency.get("trigger_after"),
        answered=dependency["backend_fn"],
    )
