"""Names and numbers of a sweep's cells, in words: for charts, tables and sentences."""

from collections.abc import Sequence
from typing import Any

from spork_demo.cells import Cell, best_exact
from spork_demo.charts.figure import number, paragraph
from spork_demo.language import later, say
from spork_demo.metrics import FEW_ROUNDS
from spork_demo.settings import KNOBS

CHOICE_NAMES = {
    "drafter": later("drafter"),
    "fork_shape": later("fork shape"),
    "schedule": later("schedule"),
    "policy": later("policy"),
}
MEASURE_NAMES = {
    "equal_tokens": later("equal tokens"),
    "perplexity_ratio": later("perplexity ratio"),
    "rouge_l": later("ROUGE-L"),
    "bleu": later("BLEU"),
}
NOTHING = later("Nothing has been measured yet.")
NO_BEST = later("No cell with exact rules has been measured.")
BEST = later(
    "Fastest with the target's own output: {cell}, {speedup} greedy, from {tokens} tokens in "
    "{rounds} rounds."
)
NO_GAIN = later(
    "No exact setting of this sweep is faster than greedy. The closest: {cell}, {speedup} greedy, "
    "from {tokens} tokens in {rounds} rounds."
)
RANGE = later("Its {races} races lay between {low} and {high}.")
FEW = later("That is fewer than {enough} rounds: chance may have decided it.")
BEST_OF_MANY = later(
    "It is the best of {count}, so part of its lead may be chance: load it and race it again."
)
UNEVEN = later("Not every cell has raced as often as the others, so they compare badly.")
SAMPLED = later(
    "Above temperature 0 a text is a sample and need not equal greedy's; exact rules keep its "
    "distribution, and only the perplexity ratio is shown."
)
ALIKE = later("Every text here equals greedy's, so speed alone tells these cells apart.")
FAILED = later("A lane that failed counts with what it had committed, and is never called best.")


def short_name(setting: str) -> str:
    """A knob's symbol, or the name of a choice."""
    return KNOBS[setting].symbol if setting in KNOBS else say(CHOICE_NAMES[setting])


def value_text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def cell_name(cell: Cell) -> str:
    """As in `K 8, M 3`."""
    return ", ".join(
        f"{short_name(name)} {value_text(value)}" for name, value in cell.values.items()
    )


def times(value: float | None) -> str:
    """A ratio to greedy, as in `1.42×`."""
    return number(value, 2, "" if value is None else "×")


def measure_text(name: str, value: float | None) -> str:
    if name == "equal_tokens" and value is not None:
        return f"{value:.0%}"
    return number(value, 2)


def best_sentence(grid: Sequence[Cell]) -> str:
    """The fastest exact cell, with what that rests on."""
    best = best_exact(grid)
    if best is None:
        return say(NO_BEST)
    told = say(
        BEST if (best.speedup or 0) > 1 else NO_GAIN,
        cell=cell_name(best),
        speedup=times(best.speedup),
        tokens=best.tokens,
        rounds=best.rounds,
    )
    low, high = map(times, best.spread or (None, None))
    rivals = sum(cell.settings.exact and bool(cell.rounds) for cell in grid)
    notes = [
        (say(RANGE, races=best.races, low=low, high=high), best.spread is not None),
        (say(FEW, enough=FEW_ROUNDS), best.few_rounds),
        (say(BEST_OF_MANY, count=rivals), rivals > 1),
        (say(UNEVEN), len({cell.races for cell in grid}) > 1),
    ]
    return paragraph([told, *(note for note, holds in notes if holds)])


def remarks(grid: Sequence[Cell]) -> str:
    """What a reader of the figures must know about these cells."""
    equal = {cell.fidelity("equal_tokens") for cell in grid if cell.compared}
    notes = [
        (say(ALIKE), equal == {1.0}),
        (say(SAMPLED), any(not cell.settings.greedy for cell in grid)),
        (say(FAILED), any(cell.failed for cell in grid)),
    ]
    return paragraph(note for note, holds in notes if holds)
