"""What a lane of the benchmark did."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Tally:
    """One lane over all prompts. Seconds are wall-clock with prefill, for everyone; target_calls
    counts the prefill too. rounds: calls that added tokens after it.
    """

    ids: list[tuple[int, ...]] = field(default_factory=list)
    whole_seconds: list[float] = field(default_factory=list)
    target_calls: int = 0
    rounds: int = 0

    @property
    def tokens(self) -> int:
        return sum(len(ids) for ids in self.ids)

    def rates(self) -> list[float]:
        """Tokens per second of each prompt."""
        return [len(ids) / s for ids, s in zip(self.ids, self.whole_seconds, strict=True)]


Lane = Callable[[Sequence[int], Tally], None]
"""Decodes after prompt ids and adds to the tally."""
