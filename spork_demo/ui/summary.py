"""What the page says about each lane in numbers and words: badges, the result strip, the origin.

Ratios come from `metrics`; here they only become text. A dash stands for what cannot be measured.
"""

from typing import Any

from spork_demo.metrics import FEW_ROUNDS, Metrics, measure, speedup
from spork_demo.trace import Fidelity, Race, Trace
from spork_demo.ui import words
from spork_demo.ui.entry import lane_label

DASH = "–"
NEAR_TIE = 0.1
"""A top-2 logit gap under this can be tipped by rounding, where the rounding was not measured."""


def origin(race: Race) -> str:
    """Where and when the numbers were measured, in one line."""
    place = race.lanes[0].provenance if race.lanes else None
    if place is None:
        return ""
    models = " + ".join(name for name in (place.target, place.draft, place.dspark) if name)
    return " · ".join(part for part in (models, place.device, place.dtype, place.date[:10]) if part)


def lane_head(place: int, lane: Trace) -> dict[str, Any]:
    """What stands above a lane's text. `place` counts from 1."""
    settings = lane.settings
    greedy = settings.method == "greedy"
    return {
        "name": f"{place} {words.METHOD_NAMES[settings.method]}",
        "rules": "" if greedy else words.RULES_SHORT[settings.rules],
        "exact": settings.exact,
        "who": _who(place, lane),
        "asked": settings.max_new_tokens,
    }


def _who(place: int, lane: Trace) -> str:
    """Drafter and judge, and the lane's own knobs where its label tells them."""
    settings = lane.settings
    parts = []
    if settings.method == "greedy":
        parts.append(words.GREEDY_WHO)
    else:
        parts.append(words.DRAFTER_NAMES[settings.drafter] + _model_name(lane))
    if settings.method == "spork":
        parts.append(words.JUDGE_NAMES[settings.judge])
    usual = lane_label(place, settings, {}) + " "
    if lane.label.startswith(usual):
        parts.append(lane.label.removeprefix(usual))
    return ", ".join(parts)


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
    few = lane.stop_reason is not None and figures.rounds > 0 and figures.few_rounds
    return {
        "badge": kind,
        "verdict": text,
        "cells": [*_speed_cells(race, lane, figures), *_fidelity_cells(race, lane)],
        "note": f"Rests on {figures.rounds} rounds; under {FEW_ROUNDS} is few." if few else "",
    }


def _speed_cells(race: Race, lane: Trace, figures: Metrics) -> list[list[str]]:
    """name, value, unit or explanation."""
    first = figures.seconds_to_first_token
    return [
        ["speedup", _speedup_text(race, lane), "of the greedy lane"],
        ["decode speed", number(figures.tokens_per_second, 1), "tokens/s"],
        [
            "accepted length",
            number(figures.accepted_length, 2),
            "tokens per round, bonus included",
        ],
        ["acceptance", percent(figures.acceptance_rate), "of judged drafts"],
        ["target calls", number(figures.target_calls_per_token, 2), "per token"],
        ["first token", number(first, 2), "seconds, prompt included"],
    ]


def _speedup_text(race: Race, lane: Trace) -> str:
    if lane is race.baseline:
        return "1.00×"
    value = speedup(lane, race.baseline)
    if value is None:
        return DASH
    return f"{value:.2f}×" + (" slower" if value < 0.995 else "")


def _fidelity_cells(race: Race, lane: Trace) -> list[list[str]]:
    """Closeness to the greedy text, where it was computed and says something."""
    found = lane.fidelity
    if found is None or lane is race.baseline:
        return []
    quotient = None
    if found.perplexity is not None and found.greedy_perplexity:
        quotient = found.perplexity / found.greedy_perplexity
    cells = [
        ["equal tokens", percent(found.equal_tokens), "same place, same token"],
        ["perplexity ratio", number(quotient, 2), "to greedy, under the target"],
        ["ROUGE-L", number(found.rouge_l, 2), "against the greedy text"],
        ["BLEU", number(found.bleu, 2), "against the greedy text"],
    ]
    return [cell for cell in cells if cell[1] != DASH]


def exactness(race: Race, lane: Trace) -> tuple[str, str]:
    """The exactness badge: its kind for the style sheet, and what it says."""
    if lane is race.baseline:
        return "baseline", "the baseline"
    if lane.settings.exact and not lane.settings.greedy:
        return "sampled", "sampled: same distribution, not the same text"
    if lane.stop_reason is None:
        return "pending", "compared at the end"
    if not lane.settings.exact:
        return "approximate", "approximate by rule" + _then_difference(lane, race)
    if lane.fidelity is None or race.baseline is None:
        return "unknown", "not comparable"
    if lane.fidelity.first_difference is None:
        return "same", "identical to greedy"
    return "differs", _difference(lane, lane.fidelity)


def _then_difference(lane: Trace, race: Race) -> str:
    found = lane.fidelity
    if found is None or race.baseline is None or not race.baseline.settings.greedy:
        return ""
    if found.first_difference is None:
        return "; identical to greedy this time"
    return "; " + _difference(lane, found)


def _difference(lane: Trace, found: Fidelity) -> str:
    place = (found.first_difference or 0) + 1
    text = f"differs at token {place}: {_quoted(found.ours)} instead of {_quoted(found.theirs)}"
    if found.margin is None:
        return text
    text += f", margin {found.margin:.2g}"
    noise = lane.provenance.noise
    if noise is None:
        return text + (" (a near-tie)" if found.margin < NEAR_TIE else "")
    if found.margin <= 2 * noise:  # either of the two best may have moved by so much
        text += f" (a near-tie: one token alone and among others differ by up to {noise:.2g} here)"
    return text


def _quoted(text: str) -> str:
    visible = text.replace(" ", "␣").replace("\n", "⏎").replace("\t", "⇥")
    return f"«{visible[:24]}»" if text else "nothing"


def number(value: float | None, digits: int) -> str:
    """`value` with that many decimals, or a dash."""
    return DASH if value is None else f"{value:.{digits}f}"


def percent(value: float | None) -> str:
    return DASH if value is None else f"{value:.0%}"
