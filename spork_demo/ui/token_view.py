"""A race as lines of JSON, one event a line: what the race view draws and replays in the browser.

The string only ever grows while a race runs, so the browser appends what is new. ASCII only: text
from models and strangers travels as JSON escapes and is put on the page as text, never as HTML.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

from spork_demo.charts.palette import FATES, fate_name
from spork_demo.language import ENGLISH, current, known, say
from spork_demo.metrics import kept_path
from spork_demo.trace import Event, Fidelity, Finished, LaneEvent, Node, Race, Round, Started, Token
from spork_demo.trace_served import Served
from spork_demo.ui import summary, words


def race_lines(race: Race) -> str:
    """A whole race: head, every event lane by lane, summary."""
    parts = [head_line(race)]
    for place, lane in enumerate(race.lanes):
        parts += [event_line(LaneEvent(place, event)) for event in lane.events()]
    return "".join([*parts, summary_line(race)])


def head_line(race: Race) -> str:
    """What is known before the first token: the lanes, the machine, the words for fates."""
    return _line(
        kind="race",
        recorded=race.recorded,
        title=known(race.title),
        prompt=race.lanes[0].prompt if race.lanes else "",
        origin=summary.origin(race),
        lanes=[summary.lane_head(place, lane) for place, lane in enumerate(race.lanes, 1)],
        fates=_fates(race),
        sources=_said(words.SOURCES),
        words=_said(words.VIEW),
    )


def _fates(race: Race) -> dict[str, dict[str, str]]:
    """The fates of the legend; `served` only where a lane is."""
    served = any(lane.served is not None for lane in race.lanes)
    return {
        name: {"glyph": FATES[name].glyph, "name": fate_name(name), "words": say(told)}
        for name, told in words.FATE_WORDS.items()
        if served or name != "served"
    }


def _said(table: Mapping[str, str]) -> dict[str, str]:
    return {name: say(told) for name, told in table.items()}


def event_line(news: LaneEvent) -> str:
    """One event of one lane. Fidelity adds no line: the summary tells it."""
    event: Event = news.event
    if isinstance(event, Started):
        return _line(
            kind="started",
            lane=news.lane,
            seconds=_number(event.prefill_seconds),
            prompt_tokens=event.prompt_tokens,
        )
    if isinstance(event, Round):
        return _line(
            kind="round",
            lane=news.lane,
            index=event.index,
            seconds=_number(event.seconds),
            committed=_all_committed(event),
            dropped=[_dropped(node) for node in event.nodes if node.fate != "accepted"],
        )
    if isinstance(event, Fidelity):
        return ""
    if isinstance(event, Served):
        return _line(kind="served", lane=news.lane, tokens=event.tokens) if event.tokens else ""
    return _finished(news.lane, event)


def summary_line(race: Race) -> str:
    """The result strip of every lane as it stands; later summaries replace earlier ones."""
    return _line(kind="summary", lanes=summary.strips(race))


def _finished(lane: int, event: Finished) -> str:
    return _line(
        kind="finished",
        lane=lane,
        reason=event.stop_reason,
        words=_why_it_ended(event),
        tail=event.tail,
    )


def _why_it_ended(event: Finished) -> str:
    """Its message, where it has one that can be said in the reader's language."""
    told = known(event.message)
    if told and (current() == ENGLISH or told != event.message):
        return told
    return say(words.STOP_WORDS[event.stop_reason])


def _all_committed(round_: Round) -> list[list[Any]]:
    """The committed tokens; the accepted ones have the source of the node they were.

    What a server sent at once is one piece, with the number of its tokens behind the rest.
    """
    if round_.committed and round_.committed[-1].fate == "served":
        return [[*_committed(round_.committed[-1], ""), len(round_.committed)]]
    sources = iter([round_.nodes[index].source for index in kept_path(round_.nodes)])
    return [
        _committed(token, next(sources, "") if token.fate == "accepted" else "")
        for token in round_.committed
    ]


def _committed(token: Token, source: str) -> list[Any]:
    """id, text, fate, target probability, draft probability, confidence, margin, source."""
    return [
        token.token,
        token.text,
        token.fate,
        _number(token.target_probability),
        _number(token.draft_probability),
        _number(token.confidence),
        _number(token.margin),
        source,
    ]


def _dropped(node: Node) -> list[Any]:
    """Like a committed token, of a drafted token that was not kept; it has no margin."""
    return [
        node.token,
        node.text,
        node.fate,
        _number(node.target_probability),
        _number(node.draft_probability),
        _number(node.confidence),
        None,
        node.source,
    ]


def _number(value: float | None) -> float | None:
    """Four significant digits are more than the page prints."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.4g}")


def _line(**fields: Any) -> str:
    text = json.dumps(fields, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c") + "\n"
