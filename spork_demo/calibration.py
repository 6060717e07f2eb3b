"""What a score judge's threshold lets pass: scores of forks that agree with greedy and of those
that do not.

Plain numbers. Forks are scored once, on a machine with the models; a threshold, its costs and the
charts are read off the stored scores, so that another quantile needs no new run.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from spork_demo.reliability import Prediction
from spork_demo.settings import KNOBS, Settings
from spork_demo.trace import Provenance

PROMPT_LIMIT = 24
"""Most prompts of one calibration."""

QUANTILE = 0.10
"""Share of the agreeing forks that τ gives up, where nobody chose another."""

FEW_FORKS = 100
"""Fewer agreeing, or fewer disagreeing, forks than this are too few to set a threshold by."""

BINS = 20


@dataclass(frozen=True, slots=True)
class CalibrationPlan:
    """What to calibrate: the lane whose forks are scored, and on how many prompts.

    settings: of a lane of article SPORK; its judge is the one that will be asked about first.
    """

    settings: Settings
    prompts: int = 8


@dataclass(frozen=True, slots=True)
class Fork:
    """One fork and what each judge gave it.

    place: the position it was proposed at, counted over all prompts. agrees: whether greedy
    wrote the same tokens. scores: one a judge, in the order of `Calibration.judges`.
    """

    prompt: int
    place: int
    agrees: bool
    scores: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class HeadFit:
    """The scoring head of article A on forks of prompts it was not fitted on, as AUC.

    untrained: of heads with random weights, lowest first, as the article prints it.
    mean_probability: of the mean probability of the fork's tokens, on the same forks.
    fitted_on, tried_on: how many forks.
    """

    fitted: float
    untrained: tuple[float, ...]
    mean_probability: float
    fitted_on: int
    tried_on: int


@dataclass(frozen=True, slots=True)
class Calibration:
    """Everything a run has found so far.

    settings: resolved, of the lane whose forks these are. places: positions looked at, with forks
    or without. drafts: what DSpark predicted of each sent draft and what came of it, a tuple a
    round. prompts: how many were read to their end.
    """

    pair: str
    settings: Settings
    judges: tuple[str, ...]
    forks: tuple[Fork, ...] = ()
    places: int = 0
    head: HeadFit | None = None
    drafts: tuple[tuple[Prediction, ...], ...] = ()
    prompts: int = 0
    provenance: Provenance = Provenance()


@dataclass(frozen=True, slots=True)
class CalibrationProgress:
    """How far a run is. found: the results so far, now and then; always in the last one.

    share: of the work, between 0 and 1. late: the time limit ended the run.
    """

    prompts_done: int
    prompts: int
    share: float
    seconds: float
    found: Calibration | None = None
    late: bool = False

    @property
    def seconds_left(self) -> float | None:
        """At the pace so far; None before there is one."""
        return self.seconds * (1 - self.share) / self.share if self.share > 0 else None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one judge is worth, and what a threshold for it costs.

    agreeing, disagreeing: how many forks. passing_right, passing_wrong: the shares of them that
    reach τ. kept: share of the positions with forks at which the best-scoring fork reaches τ and
    is kept whole. wrong: share of those kept forks that greedy would not have written.
    """

    judge: str
    threshold: float
    agreeing: int
    disagreeing: int
    auc: float | None
    passing_right: float | None
    passing_wrong: float | None
    kept: float | None
    wrong: float | None

    @property
    def few(self) -> bool:
        """Whether this rests on too few forks."""
        return min(self.agreeing, self.disagreeing) < FEW_FORKS


def split_scores(found: Calibration, judge: str) -> tuple[list[float], list[float]]:
    """Scores that `judge` gave forks that agree, and forks that do not."""
    place = found.judges.index(judge)
    agreeing = [fork.scores[place] for fork in found.forks if fork.agrees]
    return agreeing, [fork.scores[place] for fork in found.forks if not fork.agrees]


def verdict(found: Calibration, judge: str, quantile: float) -> Verdict:
    """τ at `quantile` of the agreeing scores of `judge`, and everything it lets pass."""
    agreeing, disagreeing = split_scores(found, judge)
    threshold = threshold_at(agreeing, quantile)
    kept, wrong = _kept(found, judge, threshold)
    return Verdict(
        judge=judge,
        threshold=threshold,
        agreeing=len(agreeing),
        disagreeing=len(disagreeing),
        auc=auc(agreeing, disagreeing),
        passing_right=passing(agreeing, threshold),
        passing_wrong=passing(disagreeing, threshold),
        kept=kept,
        wrong=wrong,
    )


def threshold_at(scores: Sequence[float], quantile: float) -> float:
    """The highest threshold of the slider that at least 1 - `quantile` of `scores` reach."""
    step = KNOBS["accept_threshold"].step
    if not scores:
        return KNOBS["accept_threshold"].default
    ordered = sorted(scores)
    given_up = min(int(quantile * len(ordered) + 1e-9), len(ordered) - 1)
    # A hair above, so that 0.29 is 29 steps and not 28.
    return round(math.floor(ordered[given_up] / step + 1e-9) * step, 10)


def passing(scores: Sequence[float], threshold: float) -> float | None:
    """Share of `scores` that reach `threshold`; None without any."""
    return sum(score >= threshold for score in scores) / len(scores) if scores else None


def auc(agreeing: Sequence[float], disagreeing: Sequence[float]) -> float | None:
    """The chance that a fork that agrees scores above one that does not, ties counted half.

    Computed from ranks. None where there is nothing on one side.
    """
    if not agreeing or not disagreeing:
        return None
    marked = sorted([(s, True) for s in agreeing] + [(s, False) for s in disagreeing])
    ranks, below = 0.0, 0
    for _, group in groupby(marked, key=lambda each: each[0]):
        tied = [right for _, right in group]
        ranks += sum(tied) * (below + (len(tied) + 1) / 2)
        below += len(tied)
    least = len(agreeing) * (len(agreeing) + 1) / 2
    return (ranks - least) / (len(agreeing) * len(disagreeing))


def histogram(scores: Sequence[float], bins: int = BINS) -> list[int]:
    """How many scores lie in each of equal parts of [0, 1]."""
    counts = [0] * bins
    for score in scores:
        counts[min(max(int(score * bins), 0), bins - 1)] += 1
    return counts


def survival(found: Calibration) -> list[tuple[int, float, float | None, float]]:
    """For each slot of a block: drafts, mean predicted survival, the same before temperature
    scaling where there was any, and the share that survived.
    """
    told = []
    for slot in range(max((len(round_) for round_ in found.drafts), default=0)):
        drafts = [round_[slot] for round_ in found.drafts if len(round_) > slot]
        before = [draft.before for draft in drafts if draft.before is not None]
        told.append(
            (
                len(drafts),
                sum(draft.after for draft in drafts) / len(drafts),
                sum(before) / len(before) if before else None,
                sum(draft.survived for draft in drafts) / len(drafts),
            )
        )
    return told


def _kept(found: Calibration, judge: str, threshold: float) -> tuple[float | None, float | None]:
    """As a lane decides: at each position the first of the best forks, if it reaches τ."""
    place = found.judges.index(judge)
    positions = kept = wrong = 0
    for _, forks in groupby(found.forks, key=lambda fork: fork.place):
        best = max(forks, key=lambda fork: fork.scores[place])
        positions += 1
        if best.scores[place] >= threshold:
            kept += 1
            wrong += not best.agrees
    if not positions:
        return None, None
    return kept / positions, wrong / kept if kept else None
