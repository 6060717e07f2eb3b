"""Cells of a sweep: one combination of values each, and what races brought it.

Plain data and arithmetic. Every cell is compared with the greedy lane of its own races, so that a
machine that drifts drifts for both.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spork_demo.language import say
from spork_demo.metrics import FEW_ROUNDS, ratio
from spork_demo.settings import Settings, SettingsError
from spork_demo.trace import Fidelity

CELL_LIMIT = 144
AXIS_LIMIT = 2

TEXT_MEASURES = ("equal_tokens", "rouge_l", "bleu")
MEASURES = (*TEXT_MEASURES, "perplexity_ratio")
"""How close a cell's texts are to greedy's. Of the last, less is better."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one race gave one cell, beside its greedy lane.

    over: the lane ran to its end. fidelity: None until it is computed.
    """

    settings: Settings
    tokens: int
    seconds: float
    rounds: int
    target_calls: int
    greedy_tokens: int
    greedy_seconds: float
    fidelity: Fidelity | None = None
    over: bool = True
    identical: bool = False
    failed: bool = False

    @property
    def speedup(self) -> float | None:
        """Decode tokens per second over greedy's."""
        return _quotient(
            ratio(self.tokens, self.seconds), ratio(self.greedy_tokens, self.greedy_seconds)
        )


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination of values and what came of it so far. values: swept settings by name."""

    values: Mapping[str, Any]
    settings: Settings
    outcomes: tuple[Outcome, ...] = ()

    @property
    def races(self) -> int:
        """Races that ran to their end."""
        return self._sum("over")

    @property
    def rounds(self) -> int:
        return self._sum("rounds")

    @property
    def tokens(self) -> int:
        return self._sum("tokens")

    @property
    def speedup(self) -> float | None:
        """Decode tokens per second over greedy's, all races together."""
        theirs = ratio(self._sum("greedy_tokens"), self._sum("greedy_seconds"))
        return _quotient(ratio(self.tokens, self._sum("seconds")), theirs)

    @property
    def spread(self) -> tuple[float, float] | None:
        """The lowest and the highest speedup of a whole race; None of fewer than two."""
        found = [o.speedup for o in self.outcomes if o.over and o.speedup is not None]
        return (min(found), max(found)) if len(found) > 1 else None

    @property
    def few_rounds(self) -> bool:
        return self.rounds < FEW_ROUNDS

    @property
    def failed(self) -> bool:
        return any(outcome.failed for outcome in self.outcomes)

    @property
    def compared(self) -> tuple[Fidelity, ...]:
        """What is known of the texts of races that are over."""
        return tuple(o.fidelity for o in self.outcomes if o.fidelity is not None)

    @property
    def resolved(self) -> Settings:
        """The settings as they ran, without `auto`; those asked for before the first race."""
        return self.outcomes[-1].settings if self.outcomes else self.settings

    def fidelity(self, measure_: str) -> float | None:
        """The mean of one of MEASURES. A sample has no text it should equal, so only the ratio of
        perplexities, geometric mean, says something of it.
        """
        if measure_ == "perplexity_ratio":
            logs = [_log_perplexities(found) for found in self.compared]
            mean = _mean(logs)
            return None if mean is None else math.exp(mean)
        if not self.settings.greedy:
            return None
        return _mean([getattr(found, measure_) for found in self.compared])

    def plain(self) -> dict[str, Any]:
        """A row of a table: the values, then ratios; None where there is nothing to divide by."""
        low, high = self.spread or (None, None)
        return {
            **self.values,
            "speedup": self.speedup,
            "speedup_low": low,
            "speedup_high": high,
            "tokens_per_second": ratio(self.tokens, self._sum("seconds")),
            "accepted_length": ratio(self.tokens, self.rounds),
            "target_calls_per_token": ratio(self._sum("target_calls"), self.tokens),
            **{name: self.fidelity(name) for name in MEASURES},
            "identical": self._sum("identical") if self.settings.greedy else None,
            "compared": len(self.compared),
            "races": self.races,
            "rounds": self.rounds,
            "tokens": self.tokens,
            "failed": self.failed,
            "exact": self.settings.exact,
        }

    def _sum(self, name: str) -> Any:
        return sum(getattr(outcome, name) for outcome in self.outcomes)


def cells(base: Settings, axes: Mapping[str, Sequence[Any]]) -> tuple[Cell, ...]:
    """Every combination of the values of one or two settings on top of `base`.

    Raises SettingsError with a sentence for a bad value, too many axes or too many cells.
    """
    made, refusals = possible_cells(base, axes)
    if refusals:
        raise SettingsError(refusals[0])
    return made


def possible_cells(
    base: Settings, axes: Mapping[str, Sequence[Any]], limit: int = CELL_LIMIT
) -> tuple[tuple[Cell, ...], tuple[str, ...]]:
    """Like `cells`, but combinations that contradict themselves are left out: a sentence each."""
    if not 1 <= len(axes) <= AXIS_LIMIT:
        raise SettingsError(say("A sweep is over one setting or two."))
    if any(not values for values in axes.values()):
        raise SettingsError(say("A swept setting needs at least one value."))
    count = math.prod(len(values) for values in axes.values())
    if count > limit:
        raise SettingsError(
            say(
                "A sweep has at most {limit} cells; this one has {count}. Sweep fewer values.",
                limit=limit,
                count=count,
            )
        )
    made, refusals = [], []
    for combination in itertools.product(*axes.values()):
        values = dict(zip(axes, combination, strict=True))
        try:
            settings = Settings.from_plain(base.to_plain() | values)
        except SettingsError as error:
            refusals.append(str(error))
            continue
        if settings.method == "greedy":
            raise SettingsError(say("Greedy is what a sweep compares with; choose another method."))
        made.append(Cell(values, settings))
    return tuple(made), tuple(refusals)


def best_exact(grid: Sequence[Cell]) -> Cell | None:
    """The fastest cell whose rules promise the target's own output and that met no error."""
    exact = [c for c in grid if c.settings.exact and c.speedup is not None and not c.failed]
    return max(exact, key=lambda cell: cell.speedup or 0.0, default=None)


def pareto(grid: Sequence[Cell], measure_: str = "equal_tokens") -> tuple[Cell, ...]:
    """Cells that no other one beats in both speedup and fidelity, fastest first."""
    sign = -1 if measure_ == "perplexity_ratio" else 1
    known = [
        (cell.speedup, sign * value, cell)
        for cell in grid
        if cell.speedup is not None and (value := cell.fidelity(measure_)) is not None
    ]
    known.sort(key=lambda found: (-found[0], -found[1]))
    front: list[tuple[float, float, Cell]] = []
    for found in known:
        if not front or found[1] > front[-1][1]:
            front.append(found)
    return tuple(cell for _, _, cell in front)


def _log_perplexities(found: Fidelity) -> float | None:
    """How much less probable the target finds our text than greedy's."""
    if not found.perplexity or not found.greedy_perplexity:
        return None
    return math.log(found.perplexity / found.greedy_perplexity)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _quotient(ours: float | None, theirs: float | None) -> float | None:
    return ratio(ours, theirs) if ours is not None and theirs else None
