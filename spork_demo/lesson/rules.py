"""What a verification rule does to the first token of a round, in closed form.

p is the target's distribution, q the one the draft is drawn from. The formulas are those of
`decoding.verify`, which the page runs beside them.
"""

import math
from collections.abc import Sequence

Distribution = tuple[float, ...]


def normalised(weights: Sequence[float]) -> Distribution:
    """`weights` as probabilities."""
    total = sum(weights)
    return tuple(weight / total for weight in weights)


def mixed(one: Sequence[float], other: Sequence[float], share: float) -> Distribution:
    """`share` of `other` in `one`."""
    return tuple((1 - share) * a + share * b for a, b in zip(one, other, strict=True))


def exact_acceptance(p: Sequence[float], q: Sequence[float]) -> float:
    """How often a draft is kept with probability min(1, p/q): the overlap of p and q."""
    return sum(map(min, p, q))


def article_acceptance(p: Sequence[float], q: Sequence[float]) -> float:
    """How often a draft is kept with probability p(x)."""
    return sum(a * b for a, b in zip(p, q, strict=True))


def exact_output(p: Sequence[float], q: Sequence[float]) -> Distribution:
    """Kept drafts, and what is drawn from the normalised max(0, p - q) in place of the others."""
    refused = 1 - exact_acceptance(p, q)
    rest = [max(0.0, a - b) for a, b in zip(p, q, strict=True)]
    mass = sum(rest)
    share = refused / mass if mass > 0 else 0.0
    return tuple(min(a, b) + share * c for a, b, c in zip(p, q, rest, strict=True))


def article_output(p: Sequence[float], q: Sequence[float]) -> Distribution:
    """Kept drafts, and what is drawn from p itself in place of the others."""
    refused = 1 - article_acceptance(p, q)
    return tuple(b * a + refused * a for a, b in zip(p, q, strict=True))


def total_variation(one: Sequence[float], other: Sequence[float]) -> float:
    """Half the sum of differences: the most any event's probability can differ."""
    return sum(abs(a - b) for a, b in zip(one, other, strict=True)) / 2


def chance_distance(p: Sequence[float], draws: int) -> float:
    """The distance from p that frequencies of `draws` honest draws have on average, for many."""
    spread = sum(math.sqrt(2 * a * (1 - a) / (math.pi * draws)) for a in p)
    return spread / 2
