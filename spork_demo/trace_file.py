"""Races to and from JSON. Reading is strict: an uploaded file is data from a stranger."""

import dataclasses
import json
import math
import types
import typing
from pathlib import Path
from typing import Any

from spork_demo.language import say
from spork_demo.settings import FORK_NODE_LIMIT, KNOBS, SCHEDULES, SERVED, SettingsError
from spork_demo.trace import VERSION, Node, Race, Round, Scheduling, Token, Trace

BYTE_LIMIT = 16_000_000
TEXT_LIMIT = 200_000
LIST_LIMIT = 20_000
LANE_LIMIT = 4
ROUND_LIMIT = int(KNOBS["max_new_tokens"].high)
"""Rounds of a lane, each of which commits a token at least."""

SPARE = 128
"""Tokens a server may have sent beyond those it was asked for."""

NAME_LIMIT = 1000
"""Characters of whatever is no text of a model, a prompt or a message."""

TEXTS = ("prompt", "text", "tail", "message", "ours", "theirs")
LARGEST = 1e30
"""No number of a run comes near it, and sums and products of such numbers are still numbers."""

DEEPEST = max(KNOBS["draft_length"].high, 1 + KNOBS["fork_depth"].high)
ROUNDING = 1e-6
"""How far beyond 1 sums of floats may carry a probability."""


class TraceError(ValueError):
    """The file is not a race this version can replay. The message is one sentence."""


def dumps(race: Race) -> str:
    """Compact JSON of a race, always encodable; `loads` gives an equal race back, but for lone
    surrogates in a visitor's prompt, which no file can hold.
    """
    text = json.dumps(_plain(race), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace").decode()


def loads(text: str | bytes) -> Race:
    """Read a race. Raises TraceError on anything but a well-formed trace of this version."""
    if len(text) > BYTE_LIMIT:
        raise TraceError(say("The file is larger than {limit} MB.", limit=BYTE_LIMIT // 1_000_000))
    try:
        data = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise TraceError(say("The file is not valid JSON.")) from error
    if not isinstance(data, dict) or "lanes" not in data:
        raise TraceError(say("The file is not a spork_demo race."))
    if data.get("version") != VERSION:
        raise TraceError(
            say(
                "The file is not of trace version {version}, which this page reads.",
                version=VERSION,
            )
        )
    race = _read(Race, data, "race")
    if not 1 <= len(race.lanes) <= LANE_LIMIT:
        raise TraceError(say("A race has 1 to {limit} lanes.", limit=LANE_LIMIT))
    for lane in race.lanes:
        _check_size(lane)
        for index, round_ in enumerate(lane.rounds):
            _check_round(round_, index)
        _check_served(lane)
    return race


def read_races(folder: Path) -> tuple[Race, ...]:
    """The recorded races in `folder`, in file order. Raises TraceError when one is not readable."""
    return tuple(loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json")))


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _read(kind: Any, value: Any, where: str) -> Any:
    """`value` as `kind`: a dataclass, tuple[T, ...], Literal, union with None, or a plain type."""
    origin = typing.get_origin(kind)
    if dataclasses.is_dataclass(kind):
        return _read_record(kind, value, where)
    if origin is tuple:
        if not isinstance(value, list) or len(value) > LIST_LIMIT:
            raise TraceError(
                say(
                    "{where} must be a list of at most {limit} entries.",
                    where=where,
                    limit=LIST_LIMIT,
                )
            )
        item = typing.get_args(kind)[0]
        return tuple(_read(item, entry, where) for entry in value)
    if origin is typing.Literal:
        if not isinstance(value, str) or value not in typing.get_args(kind):
            raise TraceError(say("{where} has a value this page does not know.", where=where))
        return value
    if origin in (typing.Union, types.UnionType):
        if value is None:
            return None
        return _read(typing.get_args(kind)[0], value, where)
    return _read_plain(kind, value, where)


def _read_record(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise TraceError(say("{where} must be an object.", where=where))
    hints = typing.get_type_hints(kind)
    unknown = set(value) - set(hints)
    if unknown:
        raise TraceError(say("{where} has a field this page does not know.", where=where))
    fields = {name: _read(hints[name], entry, name) for name, entry in value.items()}
    try:
        return kind(**fields)
    except SettingsError as error:
        raise TraceError(
            say("The settings in the file are not valid: {error}", error=error)
        ) from error
    except TypeError as error:
        raise TraceError(say("{where} lacks a field.", where=where)) from error


def _read_plain(kind: type, value: Any, where: str) -> Any:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = _as_float(value, where)
    if type(value) is not kind:
        raise TraceError(say("{where} must be of type {kind}.", where=where, kind=kind.__name__))
    limit = TEXT_LIMIT if where in TEXTS else NAME_LIMIT
    if kind is str and len(value) > limit:
        raise TraceError(
            say("{where} is longer than {limit} characters.", where=where, limit=limit)
        )
    if kind is str and not _encodable(value):
        raise TraceError(say("{where} holds characters that no text can have.", where=where))
    if kind is float and not math.isfinite(value):
        raise TraceError(say("{where} must be a finite number.", where=where))
    if (kind is int and abs(value) > 2**63) or (kind is float and abs(value) > LARGEST):
        raise TraceError(say("{where} is too large a number.", where=where))
    return value


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _as_float(value: int, where: str) -> float:
    try:
        return float(value)
    except OverflowError as error:
        raise TraceError(say("{where} is too large a number.", where=where)) from error


def _check_size(lane: Trace) -> None:
    """No larger than a run can be: what draws a race takes time for every round and token."""
    committed = sum(len(round_.committed) for round_ in lane.rounds)
    if len(lane.rounds) > ROUND_LIMIT + SPARE or committed > ROUND_LIMIT + SPARE:
        raise TraceError(
            say("A lane has at most {limit} rounds, and as many tokens.", limit=ROUND_LIMIT)
        )
    drafted = max((max(len(r.nodes), len(r.scores)) for r in lane.rounds), default=0)
    if drafted > FORK_NODE_LIMIT:
        raise TraceError(say("A round drafts at most {limit} tokens.", limit=FORK_NODE_LIMIT))


def _check_round(round_: Round, index: int) -> None:
    """What the drawing code relies on: order, parents before children, counts that fit."""
    if round_.index != index:
        raise TraceError(say("The rounds of a lane must be numbered 0, 1, 2, ..."))
    if any(not -1 <= node.parent < place for place, node in enumerate(round_.nodes)):
        raise TraceError(say("A drafted token must come after its parent."))
    if not 0 <= round_.accepted <= round_.scheduled <= len(round_.nodes):
        raise TraceError(say("The counts of a round do not fit its drafted tokens."))
    if any(not 0 <= score.leaf < len(round_.nodes) for score in round_.scores):
        raise TraceError(say("A fork's score names a drafted token that is not there."))
    spans = (round_.seconds, round_.draft_seconds, round_.judge_seconds, round_.commit_seconds)
    if min(spans) < 0:
        raise TraceError(say("Seconds cannot be negative."))
    if round_.change and not (1 <= round_.change.width <= KNOBS["fork_width"].high):
        raise TraceError(say("A round changed the width of its forks to one that cannot be."))
    if round_.change and not (0 <= round_.change.depth <= DEEPEST):
        raise TraceError(say("A round changed the depth of its forks to one that cannot be."))
    _check_shares(round_)
    if round_.scheduling is not None:
        _check_scheduling(round_, round_.scheduling)


def _check_served(lane: Trace) -> None:
    """A served lane and no other has facts of its server; what was counted is possible."""
    facts, outside = lane.served, lane.settings.method == SERVED
    fates = {token.fate for token in lane.tokens}
    drafts = any(round_.nodes for round_ in lane.rounds)
    if (facts is not None) != outside or ("served" in fates) != (outside and bool(fates)):
        raise TraceError(say("A served lane, and no other, holds what a server sent."))
    if facts is None:
        return
    counts = (facts.tokens, facts.rounds, facts.drafted, facts.accepted, *facts.kept)
    if drafts or len(fates) > 1 or any(count is not None and count < 0 for count in counts):
        raise TraceError(
            say("What a server counted cannot be negative, nor can its drafts be known.")
        )
    steps = (facts.rounds or 0, *facts.kept)
    falling = all(low <= high for high, low in zip(steps, steps[1:], strict=False))
    if not falling or (facts.accepted or 0) > (facts.drafted or 0):
        raise TraceError(say("A server cannot have accepted more drafts than it checked."))


def _check_shares(round_: Round) -> None:
    """What is a probability lies between 0 and 1."""
    shares = [value for item in (*round_.nodes, *round_.committed) for value in _shares(item)]
    shares += [node.raw_confidence for node in round_.nodes]
    shares += [node.threshold for node in round_.nodes]
    if any(share is not None and not 0 <= share <= 1 + ROUNDING for share in shares):
        raise TraceError(say("A probability, confidence or threshold must be between 0 and 1."))


def _shares(item: Node | Token) -> tuple[float | None, ...]:
    return item.target_probability, item.draft_probability, item.confidence


def _check_scheduling(round_: Round, why: Scheduling) -> None:
    """One survival a draft, and the throughputs of the lengths that were considered."""
    if why.rule not in SCHEDULES:
        raise TraceError(say("A round was scheduled by a rule this page does not know."))
    shares = (*why.survivals, *(() if why.threshold is None else (why.threshold,)))
    if any(not 0 <= share <= 1 + ROUNDING for share in shares):
        raise TraceError(say("A survival or threshold must be between 0 and 1."))
    measured = (*why.throughputs, *why.hopes, *why.call_seconds, why.draft_seconds or 0.0)
    if min(measured) < 0:
        raise TraceError(say("Throughputs and seconds of a schedule cannot be negative."))
    considered = len(why.throughputs)
    fits = len(why.survivals) == len(round_.nodes)
    fits = fits and all(node.confidence is not None for node in round_.nodes)
    if why.rule == "threshold":
        fits = fits and why.threshold is not None
    if why.rule == "hardware":
        fits = fits and considered in (round_.scheduled + 1, round_.scheduled + 2)
        fits = fits and len(why.hopes) == considered - 1 <= len(round_.nodes)
        fits = fits and considered <= len(why.call_seconds) and why.draft_seconds is not None
    if not fits:
        raise TraceError(
            say("The numbers of a schedule do not fit the drafted tokens of its round.")
        )
