"""What calls cost, as the lesson uses it: measured here and now, or read from recorded races.

Nothing is made up: where neither a measurement nor enough recorded rounds exist, there is none.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from spork_demo.host import MachineCosts
from spork_demo.trace import Provenance, Race, Round, Trace

FEWEST_ROUNDS = 5
"""Recorded rounds of one size below which their median is not used."""

Drafter = Literal["block", "chain", "free"]
DRAFTERS: tuple[Drafter, ...] = ("block", "chain", "free")


@dataclass(frozen=True, slots=True)
class Curve:
    """Seconds of target calls and of drafting.

    rows, seconds: the measured sizes, rising, and the seconds of a call of each; they never fall.
    block_seconds: drafting a whole block in one pass, of `block_size` tokens at most.
    chain_seconds: one token of a draft model. None where it was not measured.
    recorded: whether this comes from recorded races rather than from this machine now.
    """

    rows: tuple[int, ...]
    seconds: tuple[float, ...]
    place: Provenance
    block_seconds: float | None = None
    block_size: int = 0
    chain_seconds: float | None = None
    recorded: bool = False
    context: int = 0
    rounds: int = 0

    @property
    def most_rows(self) -> int:
        return self.rows[-1]

    def call(self, rows: int) -> float:
        """Seconds of a call on `rows` rows, linear between measured sizes. ValueError beyond."""
        if not self.rows[0] <= rows <= self.rows[-1]:
            raise ValueError(f"Calls on {rows} rows were not measured.")
        above = next(place for place, size in enumerate(self.rows) if size >= rows)
        if self.rows[above] == rows:
            return self.seconds[above]
        low, high = self.rows[above - 1], self.rows[above]
        share = (rows - low) / (high - low)
        return self.seconds[above - 1] * (1 - share) + self.seconds[above] * share

    def draft(self, drafter: Drafter, drafts: int) -> float | None:
        """Seconds of drafting `drafts` tokens, None where that was not measured or cannot be."""
        if drafts == 0 or drafter == "free":
            return 0.0
        if drafter == "block":
            return self.block_seconds if drafts <= self.block_size else None
        return None if self.chain_seconds is None else self.chain_seconds * drafts


def curve_of(costs: MachineCosts) -> Curve:
    """The curve of a live measurement."""
    rows = costs.rows
    return Curve(
        rows=rows,
        seconds=tuple(costs.call_seconds[size - 1] for size in rows),
        place=costs.place,
        block_seconds=costs.block_seconds,
        block_size=costs.block_size,
        chain_seconds=costs.chain_seconds,
        context=costs.context,
    )


def recorded_curve(races: Sequence[Race]) -> Curve | None:
    """The median judge time of recorded rounds by their size; None where there are too few.

    Only rounds of one machine count: that of the first race.
    """
    lanes = [lane for race in races for lane in race.lanes]
    if not lanes:
        return None
    place = lanes[0].provenance
    lanes = [lane for lane in lanes if _same_machine(lane.provenance, place)]
    judged = _judge_seconds(lanes)
    if 1 not in judged or len(judged) < 2:
        return None
    rows = tuple(sorted(judged))
    medians = [median(judged[size]) for size in rows]
    blocks, chains = list(_drafting(lanes, "block")), list(_drafting(lanes, "chain"))
    return Curve(
        rows=rows,
        seconds=tuple(min(medians[at:]) for at in range(len(medians))),
        place=place,
        block_seconds=median(r.draft_seconds for r in blocks) if blocks else None,
        block_size=max((len(r.nodes) for r in blocks), default=0),
        chain_seconds=median(r.draft_seconds / r.draft_calls for r in chains) if chains else None,
        recorded=True,
        rounds=sum(map(len, judged.values())),
    )


def _judge_seconds(lanes: Sequence[Trace]) -> dict[int, list[float]]:
    """Judge times by rows of the call, sizes with enough rounds only."""
    judged: dict[int, list[float]] = defaultdict(list)
    for lane in lanes:
        for round_ in lane.rounds:
            if lane.settings.exact and round_.target_calls == 1:
                judged[round_.scheduled + 1].append(round_.judge_seconds)
    return {rows: found for rows, found in judged.items() if len(found) >= FEWEST_ROUNDS}


def _drafting(lanes: Sequence[Trace], drafter: Drafter) -> Iterator[Round]:
    """Rounds that drafted with a DSpark block, or with a draft model token by token."""
    names = {"block": ("dspark", "merged"), "chain": ("draft_model",)}[drafter]
    for lane in lanes:
        if lane.settings.method == "spork" or lane.settings.drafter not in names:
            continue
        yield from (r for r in lane.rounds if r.nodes and r.draft_calls)


def _same_machine(one: Provenance, other: Provenance) -> bool:
    fields = ("target", "device", "dtype", "kernels", "threads")
    return all(getattr(one, field) == getattr(other, field) for field in fields)
