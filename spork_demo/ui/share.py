"""The settings of the page as a link's query and back: what a visitor sends to somebody else.

A query holds only what differs from a freshly opened page. Reading trusts nothing: what is not
known or cannot be is named as a problem, and the rest holds.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

from spork_demo.settings import (
    CHOICES,
    KNOBS,
    METHODS,
    RULES,
    SEED_LIMIT,
    SERVED,
    Settings,
    checked_number,
)
from spork_demo.spacefile import Limits
from spork_demo.ui.entry import FEWEST_LANES, SHARED_FIELDS, EntryError, most_lanes, own_knobs
from spork_demo.ui.lane_picker import DEFAULT_COUNT, DEFAULT_LANES

LONGEST = 8000
"""Characters of a query: servers and proxies on the way refuse more."""

NAME_LIMIT = 80
"""Characters of the name of a preset or a model pair."""

NAMED = ("tab", "step")
"""What is open by its name: a tab, and a step of the lesson."""

NAME = re.compile(r"[a-z]{1,20}")
SHOWN = ("recording", "lane", "round", "stage")
"""What is on show, counted from 1: a recorded race, a lane of it, a round of that, the stage."""

FOREIGN = "__"
"""What Gradio and its host add to a link begins with this."""

LARGEST_PLACE = 100_000


@dataclass(frozen=True, slots=True)
class Link:
    """What a query asks for.

    values: parameter names of a run to values, those that differ from a fresh page. shown: places
    of SHOWN, and NAMED. problems: names in the query that are unknown or have a bad value.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    shown: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        return not (self.values or self.shown or self.problems)


def fresh_values(limits: Limits) -> dict[str, Any]:
    """Every parameter of a run but the prompt, as a freshly opened page has it."""
    usual = Settings()
    values: dict[str, Any] = {"pair": "", "lanes": min(DEFAULT_COUNT, most_lanes(limits))}
    for place in range(1, most_lanes(limits) + 1):
        method, rules = DEFAULT_LANES[place - 1]
        values |= {f"lane{place}_method": method, f"lane{place}_rules": rules}
        values |= {f"lane{place}_preset": "", f"lane{place}_own": ""}
    for name in SHARED_FIELDS:
        value = getattr(usual, name)
        values[name] = min(value, _highest(name, limits)) if name in KNOBS else value
    return values


def write_query(
    values: Mapping[str, Any], limits: Limits, shown: Mapping[str, Any] | None = None
) -> str:
    """The query of a page that holds `values`. What no link can hold is left out.

    A prompt that makes the query longer than LONGEST is left out too: see `holds_prompt`.
    """
    fresh = fresh_values(limits)
    count = values.get("lanes")
    parts: dict[str, str] = {}
    for name in fresh:
        value = values.get(name)
        lane = _lane_of(name)
        hidden = lane and isinstance(count, int) and lane > count
        if hidden or value is None or value == fresh[name]:
            continue
        text = _written(value)
        if _read(name, text, limits) == value:
            parts[name] = text
    parts |= {name: str(value) for name, value in (shown or {}).items() if _shown(name, str(value))}
    prompt = values.get("prompt")
    whole = {"prompt": prompt, **parts} if isinstance(prompt, str) and prompt else parts
    return _encoded(whole) or _encoded(parts)


def holds_prompt(query: str) -> bool:
    """Whether a written query carries the prompt."""
    return query.startswith("prompt=")


def read_query(query: Mapping[str, Any], limits: Limits) -> Link:
    """Read what a browser sent. Never raises; see Link."""
    fresh = fresh_values(limits)
    values: dict[str, Any] = {}
    shown: dict[str, Any] = {}
    problems: list[str] = []
    for name, text in query.items():
        if name.startswith(FOREIGN):
            continue
        known = _shown(name, text)
        if known is not None:
            shown[name] = known
            continue
        value = _read(name, text, limits) if name in fresh or name == "prompt" else None
        if value is None:
            problems.append(name)
        elif value != fresh.get(name):
            values[name] = value
    return Link(values, shown, tuple(problems))


def _read(name: str, text: Any, limits: Limits) -> Any:
    """The value of a parameter of a run, None where the text does not give one."""
    if not isinstance(text, str):
        return None
    part = name.partition("_")[2] if _lane_of(name) else name
    if name in SHARED_FIELDS:
        return _setting(name, text, limits)
    if part == "prompt":
        return text if len(text) <= limits.prompt_characters and _sendable(text) else None
    if part == "lanes":
        counts = {str(n): n for n in range(FEWEST_LANES, most_lanes(limits) + 1)}
        return counts.get(text)
    if part == "own":
        return text if _own(text, limits) else None
    if part in ("preset", "pair"):
        return text if text.isprintable() and len(text) <= NAME_LIMIT else None
    allowed = {"method": (*METHODS, SERVED), "rules": RULES}.get(part, ())
    return text if text in allowed else None


def _setting(name: str, text: str, limits: Limits) -> Any:
    """One knob or choice, read as a lane's own knobs are."""
    if not re.fullmatch(r"[\w.]{1,40}", text, re.ASCII):
        return None
    try:
        return _checked(name, own_knobs(f"{name}={text}")[name], limits)
    except ValueError:
        return None


def _checked(name: str, value: Any, limits: Limits) -> Any:
    """The value as a widget can hold it. Raises ValueError."""
    if name in CHOICES:
        if value not in CHOICES[name]:
            raise EntryError(name)
        return value
    number = checked_number(KNOBS[name], value)
    if number > _highest(name, limits):
        raise EntryError(name)
    return number


def _own(text: str, limits: Limits) -> bool:
    try:
        return all(
            _checked(name, value, limits) is not None for name, value in own_knobs(text).items()
        )
    except ValueError:
        return False


def _highest(name: str, limits: Limits) -> float:
    """The most a slider of this deployment goes to."""
    own = {"max_new_tokens": limits.new_tokens, "node_budget": limits.fork_nodes}
    return min(KNOBS[name].high, own.get(name, KNOBS[name].high))


def _shown(name: str, text: Any) -> Any:
    if name in NAMED:
        return text if isinstance(text, str) and NAME.fullmatch(text) else None
    if name not in SHOWN or not isinstance(text, str) or not text.isascii():
        return None
    place = int(text) if text.isdigit() and len(text) < 9 else 0
    return place if 1 <= place <= LARGEST_PLACE else None


def _lane_of(name: str) -> int:
    """The lane a parameter belongs to, 0 for those that all lanes share."""
    head, _, part = name.partition("_")
    number = head.removeprefix("lane")
    return int(number) if part and number in ("1", "2", "3", "4") and head != number else 0


def _written(value: Any) -> str:
    """A value as a query holds it; numbers without exponents."""
    if isinstance(value, float):
        return format(Decimal(repr(value)), "f")
    fits = isinstance(value, str) or (isinstance(value, int) and 0 <= value <= SEED_LIMIT)
    return str(value) if fits else ""


def _sendable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _encoded(parts: Mapping[str, str]) -> str:
    try:
        text = urlencode(parts)
    except UnicodeEncodeError:
        return ""
    return text if len(text) <= LONGEST else ""
