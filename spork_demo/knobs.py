"""Every number of a run that a slider can move: its default, its range, its symbol on the page."""

from dataclasses import dataclass

from spork_demo.knob_words import MEANINGS

SEED_LIMIT = 2**63 - 1
"""Seeds run from 0 to here; -1 and 2**64 would wrap or overflow inside the generator."""

FORK_NODE_LIMIT = 128
"""The most drafted tokens one round may hold, whatever K and M ask for."""


@dataclass(frozen=True, slots=True)
class Knob:
    """One number a slider can move. `symbol` is what the page prints beside the name."""

    name: str
    symbol: str
    default: float
    low: float
    high: float
    step: float
    meaning: str

    @property
    def whole(self) -> bool:
        return isinstance(self.default, int)


KNOBS = {
    row[0]: Knob(*row, MEANINGS[row[0]])
    for row in (
        ("fork_width", "K", 4, 1, 16, 1),
        ("fork_depth", "M", 5, 0, 12, 1),
        ("node_budget", "nodes", 24, 1, FORK_NODE_LIMIT, 1),
        ("draft_length", "γ", 4, 1, 16, 1),
        ("accept_threshold", "τ", 0.7, 0.0, 1.0, 0.01),
        ("min_threshold", "min", 0.1, 0.0, 1.0, 0.01),
        ("max_threshold", "max", 0.5, 0.0, 1.0, 0.01),
        ("verifier_layers", "N", 28, 1, 200, 1),
        ("temperature", "T", 0.0, 0.0, 2.0, 0.05),
        ("top_p", "top-p", 1.0, 0.01, 1.0, 0.01),
        ("top_k", "top-k", 0, 0, 1000, 1),
        ("seed", "seed", 0, 0, SEED_LIMIT, 1),
        ("max_new_tokens", "new tokens", 96, 1, 4096, 1),
        ("confidence_threshold", "c", 0.5, 0.0, 1.0, 0.01),
        ("wanted_acceptance", "α", 0.7, 0.0, 1.0, 0.05),
        ("ngram_order", "n", 5, 2, 8, 1),
    )
}
"""name, symbol, default, low, high, step."""
