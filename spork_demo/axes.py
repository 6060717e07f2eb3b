"""What can be swept: which settings a method reads, and values as they are typed."""

import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from spork_demo.cells import CELL_LIMIT
from spork_demo.language import say
from spork_demo.settings import CHOICES, KNOBS, Settings, SettingsError, checked_number

TEXT_LIMIT = 400
NUMBER = re.compile(r"\d{0,20}(\.\d{1,20})?", re.ASCII)
BETWEEN = re.compile(r"[,;\s、，；]+")

SHAPE = ("fork_width", "fork_depth", "node_budget", "fork_shape")
COUNTED = ("drafter", "ngram_order", "verifier_layers", "policy", "temperature")
SWEPT: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("speculative", "exact"): ("draft_length", *COUNTED),
    ("speculative", "article"): ("draft_length", *COUNTED),
    ("spork", "exact"): (*SHAPE, *COUNTED),
    ("spork", "article"): ("accept_threshold", *SHAPE, *COUNTED, "wanted_acceptance"),
    ("dspark", "exact"): (
        *("draft_length", "schedule", "confidence_threshold", "drafter", "ngram_order"),
        *("policy", "temperature"),
    ),
    ("dspark", "article"): ("draft_length", "min_threshold", "max_threshold", *COUNTED),
}
"""Method and rules to the settings a sweep offers, the most telling first."""

USUAL = {
    "fork_width": "1, 2, 4, 8",
    "fork_depth": "1, 3, 5",
    "node_budget": "4, 8, 16, 24",
    "draft_length": "1, 2, 4, 6, 8",
    "accept_threshold": "0.5:0.9:0.1",
    "min_threshold": "0, 0.1, 0.2, 0.3",
    "max_threshold": "0.3, 0.5, 0.7, 0.9",
    "verifier_layers": "16, 20, 24, 28",
    "temperature": "0, 0.5, 1",
    "ngram_order": "2:6",
    "confidence_threshold": "0.2:0.8:0.2",
    "wanted_acceptance": "0.5, 0.7, 0.9",
    "fork_shape": "tree, forks, hierarchical",
    "schedule": "hardware, threshold, full",
    "policy": "fixed, adaptive",
}
"""Values to start from, as one would type them. Drafters depend on the model pair."""


def axis_values(name: str, text: Any) -> list[Any]:
    """Read `2, 4, 8`, `1:8`, `0.5:0.9:0.1` or names of choices, each once, in the order given.

    Raises SettingsError with a sentence for anything else.
    """
    if name not in KNOBS and name not in CHOICES:
        raise SettingsError(say("There is no setting called {name}.", name=repr(str(name)[:40])))
    if not isinstance(text, str) or not text.strip() or len(text) > TEXT_LIMIT:
        raise _unreadable(name)
    found: list[Any] = []
    for piece in BETWEEN.split(text.strip(" ,;、，；\n\t")):
        found += _choice(name, piece) if name in CHOICES else _numbers(name, piece)
        if len(found) > CELL_LIMIT:
            raise SettingsError(
                say("{name} has more than {limit} values.", name=name, limit=CELL_LIMIT)
            )
    return list(dict.fromkeys(found))


def unread(settings: Settings, name: str) -> bool:
    """Whether nothing of this run depends on a setting, as far as can be told without a model."""
    s = settings
    auto = s.drafter == "auto"
    scored = s.method == "spork" and s.rules == "article"
    early_judge = scored and s.judge in ("auto", "early_layers")
    read = {
        "verifier_layers": s.drafter == "early_exit" or early_judge,
        "ngram_order": s.drafter in ("ngram", "merged") or (auto and not scored),
        "node_budget": s.fork_shape == "tree",
        "confidence_threshold": s.schedule == "threshold",
        "accept_threshold": s.threshold_rule == "fixed",
        "wanted_acceptance": s.threshold_rule == "auto",
    }
    return name not in SWEPT.get((s.method, s.rules), ()) or not read.get(name, True)


def _choice(name: str, piece: str) -> list[str]:
    if piece not in CHOICES[name]:
        raise SettingsError(
            say("{name} must be one of {choices}.", name=name, choices=", ".join(CHOICES[name]))
        )
    return [piece]


def _numbers(name: str, piece: str) -> list[int | float]:
    """One number, or the numbers of `from:to` or `from:to:step`, ends included."""
    ends = [_decimal(name, part) for part in piece.split(":")]
    if len(ends) > 3:
        raise _unreadable(name)
    first, last = ends[0], ends[1] if len(ends) > 1 else ends[0]
    step = ends[2] if len(ends) > 2 else Decimal(str(KNOBS[name].step))
    if last < first or step <= 0:
        raise SettingsError(
            say("In {name}, a range goes upwards in steps above 0, as in 1:8:2.", name=name)
        )
    count = int((last - first) / step) + 1
    if count > CELL_LIMIT:
        raise SettingsError(
            say("{name} has more than {limit} values.", name=name, limit=CELL_LIMIT)
        )
    return [_checked(name, first + step * place) for place in range(count)]


def _decimal(name: str, text: str) -> Decimal:
    if not text or not NUMBER.fullmatch(text):
        raise _unreadable(name)
    try:
        return Decimal(text)
    except InvalidOperation:
        raise _unreadable(name) from None


def _checked(name: str, value: Decimal) -> int | float:
    whole = value == value.to_integral_value()
    return checked_number(KNOBS[name], int(value) if whole else float(value))


def _unreadable(name: str) -> SettingsError:
    if name in CHOICES:
        text = say("Values of {name} look like {example}.", name=name, example=CHOICES[name][0])
        return SettingsError(text)
    return SettingsError(
        say("Values of {name} look like 2, 4, 8 or, from a first to a last in steps, 1:8:2.",
            name=name)
    )  # fmt: skip
