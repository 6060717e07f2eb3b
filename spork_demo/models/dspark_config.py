"""Sizes of a DSpark drafter (arXiv 2607.05147)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MixtureConfig:
    """How a drafter is mixed with n-gram counts, fitted on text kept apart from training.

    weight: of the counts. confidence: constant, and weights of the network's confidence logit and
    of the log-odds of the mixture's best token. temperatures: one a slot, empty: all 1.
    """

    weight: float = 0.5
    confidence: tuple[float, float, float] = (0.0, 1.0, 0.0)
    temperatures: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class DSparkConfig:
    """Sizes and taps of a drafter.

    vocab_rows: ids that may be read. draft_rows: ids that may be drafted, the checkpoint's own
        selection; 0 where every id may.
    block_size: slots, which is also the most tokens a block drafts: the anchor's own slot
        predicts too. mixture: None where the drafter was never fitted to be merged with counts.
        feature_layers: 0-based target layers whose outputs are the context.
    markov_rank: 0 for a drafter without sequential head. qk_norm: Qwen3 has it, Llama has not.
    confidence_temperatures: one a slot, fitted by sequential temperature scaling; empty: all 1.
    """

    vocab_rows: int
    hidden_size: int
    intermediate_size: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    norm_eps: float
    rope_theta: float
    max_positions: int
    block_size: int
    mask_token: int
    feature_layers: tuple[int, ...]
    target_layers: int
    qk_norm: bool = True
    markov_rank: int = 0
    markov_type: str = "vanilla"
    confidence: bool = False
    confidence_with_markov: bool = False
    confidence_temperatures: tuple[float, ...] = ()
    draft_rows: int = 0
    mixture: MixtureConfig | None = None

    @property
    def head_rows(self) -> int:
        """Rows of the tables that speak: logits of a slot."""
        return self.draft_rows or self.vocab_rows
