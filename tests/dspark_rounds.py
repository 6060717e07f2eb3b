"""Rounds of exact DSpark under its three scheduling rules, written by hand: for tests only."""

from collections.abc import Sequence
from itertools import accumulate
from operator import mul
from random import Random

from spork_demo.settings import Settings
from spork_demo.trace import Node, Provenance, Round, Scheduling, Token, Trace
from tests.handmade_rounds import make_round

CALL_SECONDS = (0.040, 0.042, 0.044, 0.046, 0.058, 0.060, 0.072, 0.074)
DRAFT_SECONDS = 0.010
WORDS = (" the", " small", " boat", " goes", " down", " to", " sea", ",", " slowly", ".")
PLACE = Provenance(
    target="SmolLM2-135M-Instruct",
    draft="student-20m",
    dspark="dspark-smollm2",
    device="CPU, 2 cores",
    dtype="float32",
    date="2026-11-20T10:00:00Z",
)


def scheduled(
    confidences: Sequence[float], rule: str = "hardware", threshold: float = 0.5
) -> tuple[int, Scheduling]:
    """How many drafts are sent, and why; hardware stops at the first that does not pay."""
    survivals = tuple(accumulate(confidences, mul))
    if rule == "full":
        return len(confidences), Scheduling(rule, survivals)
    if rule == "threshold":
        places = (k for k, c in enumerate(confidences) if c < threshold)
        return next(places, len(confidences)), Scheduling(rule, survivals, threshold)
    throughputs, hopes, expected = [1 / (DRAFT_SECONDS + CALL_SECONDS[0])], [], 1.0
    for place, survival in enumerate(survivals):
        expected += survival
        throughputs.append(expected / (DRAFT_SECONDS + CALL_SECONDS[place + 1]))
        hopes.append(throughputs[-1])
        if throughputs[-1] <= throughputs[-2]:
            break
    length = len(hopes) - (throughputs[-1] <= throughputs[-2])
    why = Scheduling(
        rule, survivals, throughputs=tuple(throughputs), hopes=tuple(hopes),
        call_seconds=CALL_SECONDS, draft_seconds=DRAFT_SECONDS,
    )  # fmt: skip
    return length, why


def dspark_round(
    index: int,
    confidences: Sequence[float],
    accepted: int,
    rule: str = "hardware",
    raw: Sequence[float] | None = None,
    threshold: float = 0.5,
    words: Sequence[str] = WORDS,
    place: int = 0,
) -> Round:
    """A block of which the rule sends a part and the target keeps `accepted` or what was sent."""
    sent, why = scheduled(confidences, rule, threshold)
    accepted = min(accepted, sent)
    as_trained = [None] * len(confidences) if raw is None else raw
    nodes = tuple(
        Node(
            *_drafted(place + k, k >= accepted and accepted < sent, words), k - 1,
            "cut" if k >= sent else "accepted" if k < accepted else "rejected",
            0.8, 0.7 if k < accepted else 0.1 if k < sent else None, c,
            source="dspark", raw_confidence=as_trained[k],
        )
        for k, c in enumerate(confidences)
    )  # fmt: skip
    committed = [
        Token(n.token, n.text, "accepted", n.target_probability, 0.8, n.confidence)
        for n in nodes[:accepted]
    ]
    fate = "bonus" if accepted == sent else "correction"
    own = words[(place + accepted) % len(words)]
    committed.append(Token(100 + place + accepted, own, fate, 0.6, margin=1.2))
    return make_round(
        index, nodes, tuple(committed), draft_calls=1, scheduling=why,
        seconds=DRAFT_SECONDS + CALL_SECONDS[sent] + 0.002, draft_seconds=DRAFT_SECONDS,
        judge_seconds=CALL_SECONDS[sent], commit_seconds=0.002,
    )  # fmt: skip


def _drafted(place: int, astray: bool, words: Sequence[str]) -> tuple[int, str]:
    """The token that is committed at `place`, or another one behind a refusal."""
    return (900 + place, words[(place + 4) % len(words)]) if astray else (
        100 + place, words[place % len(words)]
    )  # fmt: skip


def dspark_lane(
    settings: Settings, prompt: str = "p", label: str = "DSpark", tokens: int = 60,
    words: Sequence[str] = WORDS, seed: int = 1,
) -> Trace:  # fmt: skip
    """A lane whose drafter is too sure before temperature scaling and about right after it."""
    chance, rounds, place = Random(seed), [], 0
    while place < tokens:
        easy = chance.random()
        confidences = [
            round(min(0.99, max(0.05, easy - 0.06 * k + 0.3 * chance.random())), 3)
            for k in range(min(settings.draft_length, len(CALL_SECONDS) - 1))
        ]
        raw = [round(c**0.45, 3) for c in confidences]
        fell = (k for k, c in enumerate(confidences) if chance.random() > c)
        accepted = min(next(fell, len(confidences)), tokens - place - 1)
        made = dspark_round(
            len(rounds), confidences, accepted, settings.schedule, raw,
            settings.confidence_threshold, words, place,
        )  # fmt: skip
        rounds.append(made)
        place += len(made.committed)
    return Trace(settings, prompt, label, 30, 0.21, tuple(rounds), "length", provenance=PLACE)
