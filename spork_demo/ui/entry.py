"""From what the widgets hold to what a run needs. Everything is checked again here.

Sliders, menus and the API let NaN, null, text and huge numbers through, so nothing is trusted:
every refusal is an EntryError with one sentence.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spork_demo.host import PairInfo
from spork_demo.language import say
from spork_demo.settings import (
    CHOICES,
    FORK_NODE_LIMIT,
    KNOBS,
    METHODS,
    RULES,
    SERVED,
    Settings,
    SettingsError,
)
from spork_demo.spacefile import Limits, Preset
from spork_demo.trace_file import LANE_LIMIT
from spork_demo.ui import words

FEWEST_LANES = 2
LANE_PARTS = ("method", "rules", "preset", "own")
LANE_FIELDS = {"method": ("method",), "rules": ("rules",), "preset": ("drafter", "judge", "server")}
SHARED_FIELDS = (*KNOBS, "fork_shape", "fork_sampling", "schedule", "policy", "threshold_rule")
"""Settings that one widget sets for every lane. With LANE_FIELDS they are all of Settings."""

OWN_TEXT_LIMIT = 200
SYMBOLS = {knob.symbol: knob.name for knob in KNOBS.values()}


class EntryError(ValueError):
    """What the visitor asked for cannot run. The message is one sentence."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One run as asked for: everything the host needs."""

    prompt: str
    lanes: tuple[Settings, ...]
    labels: tuple[str, ...]
    pair: str = ""


def most_lanes(limits: Limits) -> int:
    """Lanes the page offers: what the deployment allows and a trace file can hold."""
    return max(FEWEST_LANES, min(limits.lanes, LANE_LIMIT))


def read_entry(values: Mapping[str, Any], limits: Limits, presets: Sequence[Preset]) -> Entry:
    """Check `values` (parameter name to widget value) and return the run they describe."""
    prompt = checked_prompt(values.get("prompt"), limits)
    count = _lane_count(values.get("lanes"), limits)
    shared = {name: no_giant(values[name]) for name in SHARED_FIELDS if name in values}
    lanes = []
    labels = []
    for place in range(1, count + 1):
        picks = {part: values.get(f"lane{place}_{part}") for part in LANE_PARTS}
        try:
            own = own_knobs(picks["own"])
            lane = lane_settings(picks, {**shared, **own}, presets)
            within_limits(lane, limits)
        except (EntryError, SettingsError) as error:
            raise EntryError(say("Lane {place}: {error}", place=place, error=error)) from error
        lanes.append(lane)
        labels.append(lane_label(place, lane, own))
    pair = values.get("pair") or ""
    if not isinstance(pair, str):
        raise EntryError(say(words.UNKNOWN_PAIR))
    return Entry(prompt, tuple(lanes), tuple(labels), pair)


def lane_settings(
    picks: Mapping[str, Any], knobs: Mapping[str, Any], presets: Sequence[Preset]
) -> Settings:
    """One lane's Settings from its method, rules and preset and everybody's knobs."""
    method, rules = picks["method"], picks["rules"]
    if method not in (*METHODS, SERVED) or rules not in RULES:
        raise EntryError(say("Choose a method and rules from the menus."))
    if method == SERVED:
        return Settings(**{**knobs, "method": method, "server": find_server(presets, picks)})
    preset = find_preset(presets, method, rules, picks.get("preset"))
    return Settings(
        **{
            **knobs,
            "method": method,
            "rules": rules,
            "drafter": preset.drafter,
            "judge": preset.judge,
        }
    )


def presets_for(presets: Sequence[Preset], method: str, rules: str) -> tuple[str, ...]:
    """Preset names on offer for a method and rules; `automatic` is first but for servers."""
    if method == SERVED:
        return tuple(preset.name for preset in presets if preset.method == SERVED)
    fitting = (p.name for p in presets if p.method == method and p.rules == rules)
    return (words.AUTOMATIC, *(fitting if method != "greedy" else ()))


def offered(presets: Sequence[Preset], pairs: Sequence[PairInfo]) -> tuple[Preset, ...]:
    """Presets that at least one of the pairs can serve."""
    can = {
        "draft_model": any(pair.has_draft_model for pair in pairs),
        "dspark": any(pair.has_dspark for pair in pairs),
    }

    def serves(preset: Preset) -> bool:
        exact_dspark = preset.method == "dspark" and preset.rules == "exact"
        needs = {preset.drafter, preset.judge, *(["dspark"] if exact_dspark else [])}
        return all(can.get(name, True) for name in needs)

    return tuple(preset for preset in presets if serves(preset))


def find_server(presets: Sequence[Preset], picks: Mapping[str, Any]) -> str:
    """The name of a server this page offers: the one picked, or the first. Never an address."""
    names = presets_for(presets, SERVED, "exact")
    name = picks.get("preset")
    if name in (None, "", words.AUTOMATIC):
        name = names[0] if names else None
    if name not in names:
        raise EntryError(say(words.UNKNOWN_SERVER))
    return name


def find_preset(presets: Sequence[Preset], method: str, rules: str, name: Any) -> Preset:
    """The preset called `name`; nothing and `automatic` leave the choice to the model pair."""
    if name in (None, "", words.AUTOMATIC):
        return Preset(words.AUTOMATIC, method, rules)
    for preset in presets:
        if (preset.name, preset.method, preset.rules) == (name, method, rules):
            return preset
    raise EntryError(say(words.UNKNOWN_PRESET))


def own_knobs(text: Any) -> dict[str, int | float | str]:
    """Read `fork_width=8 draft_length=2`: names or symbols of knobs, values of their kind."""
    if text is None or text == "":
        return {}
    if not isinstance(text, str) or len(text) > OWN_TEXT_LIMIT:
        raise EntryError(say(words.OWN_KNOBS_KIND))
    found: dict[str, int | float | str] = {}
    for word in text.replace(",", " ").split():
        name, equals, value = word.partition("=")
        if not equals or not name or not value:
            raise EntryError(say(words.OWN_KNOBS_KIND))
        name = SYMBOLS.get(name, name)
        if name not in SHARED_FIELDS:
            raise EntryError(say(words.OWN_KNOBS_UNKNOWN, name=repr(name[:40])))
        if name in found:
            raise EntryError(say(words.OWN_KNOBS_TWICE, name=name))
        found[name] = value if name in CHOICES else _number(name, value)
    return found


def lane_label(place: int, lane: Settings, own: Mapping[str, Any]) -> str:
    """A short name no other lane of the race has, as in `2 SPORK exact K=8`.

    It is kept in the trace, so it is English; `charts.figure.lane_name` says it to the reader.
    """
    parts = [str(place), words.METHOD_NAMES[lane.method]]
    if lane.method == SERVED:
        parts.append(lane.server)
    elif lane.method != "greedy":
        parts.append(words.RULES_SHORT[lane.rules])
    parts += [f"{KNOBS[n].symbol if n in KNOBS else n}={v}" for n, v in own.items()]
    return " ".join(parts)


def no_giant(value: Any) -> Any:
    """A whole number too large for a float becomes infinity, which the settings refuse."""
    giant = isinstance(value, int) and abs(value) > 2**64
    return math.inf if giant else value


def checked_prompt(value: Any, limits: Limits) -> str:
    if value is None:
        raise EntryError(say(words.EMPTY_PROMPT))
    if not isinstance(value, str):
        raise EntryError(say(words.PROMPT_KIND))
    if len(value) > limits.prompt_characters:
        raise EntryError(
            say(words.PROMPT_TOO_LONG, length=len(value), limit=limits.prompt_characters)
        )
    if not value.strip():
        raise EntryError(say(words.EMPTY_PROMPT))
    return value.encode("utf-8", "replace").decode("utf-8")


def _lane_count(value: Any, limits: Limits) -> int:
    most = most_lanes(limits)
    whole = isinstance(value, int | float) and not isinstance(value, bool)
    if not whole or value != value or value not in range(FEWEST_LANES, most + 1):
        raise EntryError(say(words.LANES_KIND, limit=most))
    return int(value)


def within_limits(lane: Settings, limits: Limits) -> None:
    if lane.max_new_tokens > limits.new_tokens:
        raise EntryError(
            say(words.TOO_MANY_TOKENS, asked=lane.max_new_tokens, limit=limits.new_tokens)
        )
    nodes = most_drafted(lane)
    if nodes > min(limits.fork_nodes, FORK_NODE_LIMIT):
        raise EntryError(say(words.TOO_MANY_NODES, asked=nodes, limit=limits.fork_nodes))


def most_drafted(lane: Settings) -> int:
    """Tokens a round of this lane may draft."""
    if lane.method == "spork":
        return lane.node_budget if lane.fork_shape == "tree" else lane.plain_nodes
    return 0 if lane.method in ("greedy", SERVED) else lane.draft_length


def _number(name: str, value: str) -> int | float:
    if re.fullmatch(r"\d{1,20}", value, re.ASCII):
        return int(value)
    if not KNOBS[name].whole and re.fullmatch(r"\d{0,20}\.\d{1,20}", value, re.ASCII):
        return float(value)
    raise EntryError(say(words.OWN_KNOBS_VALUE, name=name, example=f"{KNOBS[name].default:g}"))
