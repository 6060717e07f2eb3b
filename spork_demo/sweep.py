"""One or two knobs swept over prompts: what each value gains in speed and costs in fidelity.

Plain data and arithmetic; a race is run by whoever has a model. Every cell is compared with a
greedy lane of its own races, so that a machine that drifts drifts for both.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from spork_demo.metrics import measure, ratio
from spork_demo.settings import Settings, SettingsError
from spork_demo.trace import Race, Trace

CELLS_A_RACE = 6
"""Lanes that race beside one greedy lane."""

CELL_LIMIT = 144
AXIS_LIMIT = 2

Run = Callable[[str, Sequence[Settings]], Race]
"""Runs lanes on a prompt and returns the finished race, its fidelity computed."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination of values and what came of it so far.

    values: the swept settings by name. greedy_seconds, greedy_tokens: of the greedy lanes this
        cell raced against. log_perplexities: summed difference of log perplexity to greedy's.
    """

    values: Mapping[str, Any]
    settings: Settings
    races: int = 0
    tokens: int = 0
    seconds: float = 0.0
    rounds: int = 0
    target_calls: int = 0
    greedy_tokens: int = 0
    greedy_seconds: float = 0.0
    identical: int = 0
    equal_tokens: float = 0.0
    log_perplexities: float = 0.0

    @property
    def speedup(self) -> float | None:
        """Decode tokens per second over greedy's."""
        ours, theirs = ratio(self.tokens, self.seconds), self.greedy_rate
        return ratio(ours, theirs) if ours is not None and theirs else None

    @property
    def greedy_rate(self) -> float | None:
        return ratio(self.greedy_tokens, self.greedy_seconds)

    def plain(self) -> dict[str, Any]:
        """A row of a table: the values, then ratios; None where there is nothing to divide by."""
        return {
            **self.values,
            "speedup": self.speedup,
            "tokens_per_second": ratio(self.tokens, self.seconds),
            "accepted_length": ratio(self.tokens, self.rounds),
            "target_calls_per_token": ratio(self.target_calls, self.tokens),
            "equal_tokens": ratio(self.equal_tokens, self.races),
            "identical": self.identical,
            "races": self.races,
            "perplexity_ratio": math.exp(self.log_perplexities / self.races)
            if self.races
            else None,
            "exact": self.settings.exact,
        }


def cells(base: Settings, axes: Mapping[str, Sequence[Any]]) -> tuple[Cell, ...]:
    """Every combination of the values of one or two settings on top of `base`.

    Raises SettingsError with a sentence for a bad value, too many axes or too many cells.
    """
    if not 1 <= len(axes) <= AXIS_LIMIT:
        raise SettingsError("A sweep is over one setting or two.")
    if any(not values for values in axes.values()):
        raise SettingsError("A swept setting needs at least one value.")
    count = math.prod(len(values) for values in axes.values())
    if count > CELL_LIMIT:
        raise SettingsError(f"A sweep has at most {CELL_LIMIT} cells; this one has {count}.")
    made = []
    for combination in itertools.product(*axes.values()):
        values = dict(zip(axes, combination, strict=True))
        settings = Settings.from_plain(base.to_plain() | values)
        if settings.method == "greedy":
            raise SettingsError("Greedy is what a sweep compares with; choose another method.")
        made.append(Cell(values, settings))
    return tuple(made)


def sweep(run: Run, prompts: Sequence[str], grid: Sequence[Cell]) -> Iterator[tuple[Cell, ...]]:
    """The grid after each race, prompt by prompt; closing the iterator keeps what is done."""
    found = list(grid)
    for prompt in prompts:
        for start in range(0, len(found), CELLS_A_RACE):
            some = found[start : start + CELLS_A_RACE]
            greedy = replace(some[0].settings, method="greedy")
            race = run(prompt, [greedy, *(cell.settings for cell in some)])
            for place, lane in enumerate(race.lanes[1:]):
                found[start + place] = _added(some[place], lane, race.lanes[0])
            yield tuple(found)


def races(prompts: Sequence[str], grid: Sequence[Cell]) -> int:
    """How many races `sweep` will run."""
    return len(prompts) * math.ceil(len(grid) / CELLS_A_RACE)


def best_exact(grid: Sequence[Cell]) -> Cell | None:
    """The fastest cell whose rules promise the target's own output."""
    exact = [cell for cell in grid if cell.settings.exact and cell.speedup is not None]
    return max(exact, key=lambda cell: cell.speedup or 0.0, default=None)


def pareto(grid: Sequence[Cell]) -> tuple[Cell, ...]:
    """Cells that no other one beats in both speedup and share of equal tokens, fastest first."""
    done = [cell for cell in grid if cell.races and cell.speedup is not None]
    done.sort(key=lambda cell: (-(cell.speedup or 0.0), -cell.equal_tokens / cell.races))
    front: list[Cell] = []
    for cell in done:
        if not front or cell.equal_tokens / cell.races > front[-1].equal_tokens / front[-1].races:
            front.append(cell)
    return tuple(front)


def _added(cell: Cell, lane: Trace, greedy: Trace) -> Cell:
    """`cell` with one more race. A lane that failed counts with what it committed."""
    ours, theirs, found = measure(lane), measure(greedy), lane.fidelity
    same = lane.ids == greedy.ids
    equal = found.equal_tokens if found and found.equal_tokens is not None else float(same)
    apart = 0.0
    if found and found.perplexity and found.greedy_perplexity:
        apart = math.log(found.perplexity / found.greedy_perplexity)
    return replace(
        cell,
        races=cell.races + 1,
        tokens=cell.tokens + ours.committed,
        seconds=cell.seconds + ours.decode_seconds,
        rounds=cell.rounds + ours.rounds,
        target_calls=cell.target_calls + ours.target_calls,
        greedy_tokens=cell.greedy_tokens + theirs.committed,
        greedy_seconds=cell.greedy_seconds + theirs.decode_seconds,
        identical=cell.identical + same,
        equal_tokens=cell.equal_tokens + equal,
        log_perplexities=cell.log_perplexities + apart,
    )
