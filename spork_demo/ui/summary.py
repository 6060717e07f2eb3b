"""What the page says about each lane in numbers and words: badges, the result strip, the origin.

Ratios come from `metrics`; here they only become text. A dash stands for what cannot be measured.
"""

from typing import Any

from spork_demo.charts.figure import clauses, counted, listed, paragraph
from spork_demo.language import later, say
from spork_demo.metrics import FEW_ROUNDS, Metrics, measure, ratio, speedup
from spork_demo.trace import Fidelity, Race, Trace
from spork_demo.ui import words
from spork_demo.ui.entry import lane_label
from spork_demo.ui.served_view import beside, served_note, served_verdict, server_words

DASH = "–"
KERNELS = {
    "compiled": later("compiled kernels"),
    "packed": later("packed kernels"),
    "stock": later("stock kernels"),
}
NEAR_TIE = 0.1
"""A top-2 logit gap under this can be tipped by rounding, where the rounding was not measured."""


def origin(race: Race) -> str:
    """Where and when the numbers were measured, in one line."""
    here = [lane for lane in race.lanes if lane.served is None] or race.lanes
    place = here[0].provenance if here else None
    if place is None:
        return ""
    models = " + ".join(name for name in (place.target, place.draft, place.dspark) if name)
    kernels = say(KERNELS[place.kernels]) if place.kernels in KERNELS else place.kernels
    app = f"spork_demo {place.app}" if place.app else ""
    parts = (models, place.device, place.dtype, place.date[:10], kernels, app)
    return " · ".join(part for part in parts if part)


def lane_head(place: int, lane: Trace) -> dict[str, Any]:
    """What stands above a lane's text. `place` counts from 1."""
    settings = lane.settings
    greedy = settings.method == "greedy"
    return {
        "name": f"{place} {say(words.METHOD_NAMES[settings.method])}",
        "rules": "" if greedy or lane.served else say(words.RULES_SHORT[settings.rules]),
        "exact": settings.exact,
        "who": _who(place, lane),
        "served": lane.served is not None,
        "asked": settings.max_new_tokens,
    }


def _who(place: int, lane: Trace) -> str:
    """Drafter and judge, and the lane's own knobs where its label tells them."""
    settings = lane.settings
    parts: list[str] = []
    if lane.served is not None:
        parts.append(server_words(lane, lane.served))
    elif settings.method == "greedy":
        parts.append(say(words.GREEDY_WHO))
    else:
        parts.append(say(words.DRAFTER_NAMES[settings.drafter]) + _model_name(lane))
    if settings.method == "spork":
        parts.append(say(words.JUDGE_NAMES[settings.judge]))
    usual = lane_label(place, settings, {}) + " "
    if lane.label.startswith(usual):
        parts.append(lane.label.removeprefix(usual))
    return listed(parts)


def _model_name(lane: Trace) -> str:
    """Which model drafts, in brackets, where it is one of its own."""
    models = {"draft_model": lane.provenance.draft, "dspark": lane.provenance.dspark}
    name = models.get(lane.settings.drafter, "")
    return f" ({name})" if name else ""


def strips(race: Race) -> list[dict[str, Any]]:
    """The result strip of every lane, in lane order."""
    return [_strip(race, lane) for lane in race.lanes]


def _strip(race: Race, lane: Trace) -> dict[str, Any]:
    figures = measure(lane)
    kind, text = exactness(race, lane)
    notes = [served_note(lane.served)] if lane.served and lane.stop_reason else []
    few = lane.stop_reason is not None and figures.rounds > 0 and figures.few_rounds
    if few:
        notes.append(_few_note(figures))
    return {
        "badge": kind,
        "verdict": text,
        "cells": [*_speed_cells(race, lane, figures), *fidelity_cells(lane, race.baseline)],
        "note": paragraph(notes),
    }


def _few_note(figures: Metrics) -> str:
    return say(
        "Rests on {rounds}; under {enough} is few.",
        rounds=counted(figures.rounds, "round"),
        enough=FEW_ROUNDS,
    )


def _speed_cells(race: Race, lane: Trace, figures: Metrics) -> list[list[str]]:
    """name, value, unit or explanation."""
    first = figures.seconds_to_first_token
    of = beside(lane.served) if lane.served else say("of the greedy lane")
    return [
        [say("speedup"), _speedup_text(race, lane), of],
        [say("decode speed"), number(figures.tokens_per_second, 1), say("tokens/s")],
        [
            say("accepted length"),
            number(figures.accepted_length, 2),
            say("tokens per round, bonus included"),
        ],
        [say("acceptance"), percent(figures.acceptance_rate), say("of judged drafts")],
        [say("target calls"), number(figures.target_calls_per_token, 2), say("per token")],
        [say("first token"), number(first, 2), say("seconds, prompt included")],
    ]


def _speedup_text(race: Race, lane: Trace) -> str:
    if lane is race.baseline:
        return "1.00×"
    value = speedup(lane, race.baseline)
    if value is None:
        return DASH
    ratio = f"{value:.2f}"
    return say("{ratio}× slower", ratio=ratio) if value < 0.995 else f"{ratio}×"


def fidelity_cells(lane: Trace, baseline: Trace | None) -> list[list[str]]:
    """Closeness to the greedy text, where it was computed and says something."""
    found = lane.fidelity
    if found is None or lane is baseline:
        return []
    quotient = None
    if found.perplexity is not None and found.greedy_perplexity:
        quotient = ratio(found.perplexity, found.greedy_perplexity)
    cells = [
        [say("equal tokens"), percent(found.equal_tokens), say("same place, same token")],
        [say("equal characters"), percent(found.equal_characters), say("same place and character")],
        [say("perplexity ratio"), number(quotient, 2), say("to greedy, under the target")],
        ["ROUGE-L", number(found.rouge_l, 2), say("against the greedy text")],
        ["BLEU", number(found.bleu, 2), say("against the greedy text")],
    ]
    return [cell for cell in cells if cell[1] != DASH]


def exactness(race: Race, lane: Trace) -> tuple[str, str]:
    """The exactness badge: its kind for the style sheet, and what it says."""
    if lane is race.baseline:
        return "baseline", say("the baseline")
    if lane.served is not None:
        return served_verdict(race, lane)
    if lane.settings.exact and not lane.settings.greedy:
        return "sampled", say("sampled: same distribution, not the same text")
    if lane.stop_reason is None:
        return "pending", say("compared at the end")
    if not lane.settings.exact:
        parts = [say("approximate by rule"), *_difference_so_far(lane, race)]
        return "approximate", clauses(parts)
    if lane.fidelity is None or race.baseline is None:
        return "unknown", say("not comparable")
    if lane.fidelity.first_difference is None:
        return "same", say("identical to greedy")
    return "differs", _difference(lane, lane.fidelity)


def _difference_so_far(lane: Trace, race: Race) -> list[str]:
    found = lane.fidelity
    if found is None or race.baseline is None or not race.baseline.settings.greedy:
        return []
    if found.first_difference is None:
        return [say("identical to greedy this time")]
    return [_difference(lane, found)]


def _difference(lane: Trace, found: Fidelity) -> str:
    place = (found.first_difference or 0) + 1
    told = {"place": place, "ours": _quoted(found.ours), "theirs": _quoted(found.theirs)}
    if found.margin is None:
        return say("differs at token {place}: {ours} instead of {theirs}", **told)
    told["margin"] = f"{found.margin:.2g}"
    noise = lane.provenance.noise
    if noise is None and found.margin < NEAR_TIE:
        return say(
            "differs at token {place}: {ours} instead of {theirs}, margin {margin} (a near-tie)",
            **told,
        )
    if noise is None or found.margin > 2 * noise:  # either of the two best may have moved so much
        return say("differs at token {place}: {ours} instead of {theirs}, margin {margin}", **told)
    return say(
        "differs at token {place}: {ours} instead of {theirs}, margin {margin} (a near-tie: one "
        "token alone and among others differ by up to {noise} here)",
        **told,
        noise=f"{noise:.2g}",
    )


def _quoted(text: str) -> str:
    visible = text.replace(" ", "␣").replace("\n", "⏎").replace("\t", "⇥")
    return say("«{token}»", token=visible[:24]) if text else say("nothing")


def number(value: float | None, digits: int) -> str:
    """`value` with that many decimals, or a dash."""
    return DASH if value is None else f"{value:.{digits}f}"


def percent(value: float | None) -> str:
    return DASH if value is None else f"{value:.0%}"
