"""What a round costs on this machine: seconds of drafting and of target calls by rows."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CostTable:
    """Median seconds at one context length.

    call_seconds[n]: a target call on n + 1 rows. It never falls with n: where a call of more rows
        was measured faster, the shorter one is taken to cost no more, since the rows could be
        filled up. draft_seconds: drafting a DSpark block, spent however much of it is sent;
        chain_seconds: a call of the draft model on one row; 0 where the pair has no such drafter.
    """

    context: int
    draft_seconds: float
    call_seconds: tuple[float, ...]
    chain_seconds: float = 0.0

    def steps_per_second(self, rows: int) -> float:
        """Rounds per second when the target is fed `rows` rows, the anchor included."""
        return 1.0 / (self.draft_seconds + self.seconds(rows))

    def seconds(self, rows: int) -> float:
        """Seconds of a target call on `rows` rows, beyond the measured ones by the last slope."""
        known = self.call_seconds
        if rows <= len(known):
            return known[rows - 1]
        slope = (known[-1] - known[len(known) // 2]) / max(1, len(known) - 1 - len(known) // 2)
        return known[-1] + slope * (rows - len(known))
