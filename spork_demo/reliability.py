"""Do a drafter's confidences come true? Predicted prefix survival against what really happened.

The definition of `spork_demo.decoding.calibration`, in plain Python and on recorded rounds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spork_demo.metrics import kept_path, stopped_inside
from spork_demo.trace import Round

BINS = 20
"""Bins of the error as the paper's authors compute it, over hundreds of rounds."""

CHART_BINS = 5
"""Bins for one run: its few dozen rounds would leave most of twenty bins empty."""

FEW_DRAFTS = 100
"""Fewer drafts than this, or bins with fewer than FEW_IN_BIN, are too few to judge by."""

FEW_IN_BIN = 10
NEARLY = 1e-8

Pair = tuple[float, bool]
"""A predicted survival, and whether it came true."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """One sent draft: the predicted chance that it and all before it are accepted.

    before: from the confidences before temperature scaling, None where none was applied.
    """

    after: float
    before: float | None
    survived: bool


@dataclass(frozen=True, slots=True)
class Bin:
    """Drafts whose predicted survival lies in one of equal parts of [0, 1].

    predicted, happened: mean prediction and share that survived; None where the bin is empty.
    """

    count: int
    predicted: float | None
    happened: float | None


def predictions(rounds: Sequence[Round]) -> tuple[Prediction, ...]:
    """Every sent draft of every chain that has confidences.

    A draft behind a rejected one did not survive; one behind an accepted stop token, or beyond
    the last token asked for, was never put to the test and does not count.
    """
    nodes = [node for round_ in rounds for node in round_.nodes]
    scaled = any(node.raw_confidence not in (None, node.confidence) for node in nodes)
    return tuple(found for round_ in rounds for found in _of_round(round_, scaled))


def _of_round(round_: Round, scaled: bool) -> Iterator[Prediction]:
    nodes = round_.nodes[: round_.scheduled]
    if any(node.parent != place - 1 or node.confidence is None for place, node in enumerate(nodes)):
        return
    kept = len(kept_path(nodes))
    after, before = 1.0, 1.0
    scaled = scaled and all(node.raw_confidence is not None for node in nodes)
    for place, node in enumerate(nodes[: kept if stopped_inside(round_) else None]):
        after *= node.confidence
        before *= node.raw_confidence if scaled else 1.0
        yield Prediction(after, before if scaled else None, place < kept)


def outcomes(found: Sequence[Prediction], *, scaled: bool) -> tuple[Pair, ...]:
    """Predictions after or before temperature scaling, each with what happened."""
    if scaled:
        return tuple((each.after, each.survived) for each in found)
    return tuple((each.before, each.survived) for each in found if each.before is not None)


def binned(pairs: Sequence[Pair], bins: int = CHART_BINS) -> tuple[Bin, ...]:
    """`pairs` sorted into equal bins on [0, 1], lowest first."""
    sorted_in: list[list[Pair]] = [[] for _ in range(bins)]
    for predicted, happened in pairs:
        predicted = min(max(predicted, NEARLY), 1 - NEARLY)
        sorted_in[min(int(predicted * bins), bins - 1)].append((predicted, happened))
    return tuple(_bin(each) for each in sorted_in)


def _bin(pairs: Sequence[Pair]) -> Bin:
    count = len(pairs)
    if not count:
        return Bin(0, None, None)
    return Bin(count, sum(p for p, _ in pairs) / count, sum(y for _, y in pairs) / count)


def calibration_error(pairs: Sequence[Pair], bins: int = BINS) -> float | None:
    """Expected calibration error: the mean distance between prediction and outcome, bin by bin."""
    if not pairs:
        return None
    full = [each for each in binned(pairs, bins) if each.count]
    return sum(each.count * abs(each.predicted - each.happened) for each in full) / len(pairs)
