"""Two drafts, two tokens: what choosing the length after seeing the drafts does to the output.

The counterexample of DSpark's appendix A (arXiv 2607.05147), every case enumerated.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spork_demo.lesson.rules import Distribution, exact_acceptance, normalised

RATES = (1.0, 0.5, 0.45)
"""Rounds per second with 0, 1 and 2 drafts sent: numbers of the example, not measured."""

Chooser = Callable[[Sequence[float]], int]
"""From the expected throughput of sending 0, 1, 2, ... drafts to how many are sent."""


@dataclass(frozen=True, slots=True)
class Toy:
    """p and q of the first token; behind[x]: the second draft's confidence if the first is x."""

    p: Distribution
    q: Distribution
    behind: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """One first draft: how often it is drawn, what sending 0, 1, 2 drafts promises, what is sent,
    and the distribution of the committed token then.
    """

    chance: float
    throughputs: tuple[float, ...]
    sent: int
    output: Distribution


def causal(throughputs: Sequence[float]) -> int:
    """Stop at the first draft that does not raise the throughput, without a look behind it."""
    sent = 0
    while sent + 1 < len(throughputs) and throughputs[sent + 1] > throughputs[sent]:
        sent += 1
    return sent


def hindsight(throughputs: Sequence[float]) -> int:
    """The best of all lengths, the confidences behind each draft known."""
    return max(range(len(throughputs)), key=lambda sent: (throughputs[sent], -sent))


def throughputs(confidences: Sequence[float], rates: Sequence[float] = RATES) -> tuple[float, ...]:
    """Expected tokens per second of sending 0, 1, 2, ... drafts."""
    survival, expected, found = 1.0, 1.0, [rates[0]]
    for confidence, rate in zip(confidences, rates[1:], strict=True):
        survival *= confidence
        expected += survival
        found.append(expected * rate)
    return tuple(found)


def cases(toy: Toy, choose: Chooser) -> tuple[Case, ...]:
    """What happens after each first draft."""
    first = exact_acceptance(toy.p, toy.q)
    found = []
    for token, (chance, second) in enumerate(zip(toy.q, toy.behind, strict=True)):
        promised = throughputs((first, second))
        sent = choose(promised)
        found.append(Case(chance, promised, sent, _verified(toy, token) if sent else toy.p))
    return tuple(found)


def output(toy: Toy, choose: Chooser) -> Distribution:
    """The distribution of the first committed token, all cases together."""
    found = cases(toy, choose)
    return tuple(
        sum(case.chance * case.output[token] for case in found) for token in range(len(toy.p))
    )


def _verified(toy: Toy, token: int) -> Distribution:
    """The exact rule on one given draft: kept with min(1, p/q), else the residual is drawn."""
    kept = min(1.0, toy.p[token] / toy.q[token]) if toy.q[token] else 0.0
    rest = [max(0.0, a - b) for a, b in zip(toy.p, toy.q, strict=True)]
    residual = normalised(rest) if sum(rest) else toy.p
    return tuple(kept * (x == token) + (1 - kept) * residual[x] for x in range(len(toy.p)))
