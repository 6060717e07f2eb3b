"""The DSpark network at work in one lane: its context in step with the target's cache, its blocks.

DFlash feeds anchor + masks and predicts at the masks; DSpark predicts at the anchor's slot too,
so a block of B inputs drafts B tokens. The trained block is always run whole, shorter drafts take
its first slots: more slots, or fewer, would change what every slot predicts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from spork_demo.models.cached_model import Scores
from spork_demo.models.dspark_context import Context
from spork_demo.models.dspark_network import DSparkNetwork


class Blocks:
    """Runs the network for one lane and keeps its context in step with the target's cache.

    Between rounds the context holds, once the rows observed since are added, what the target's
    cache holds: every committed token except the anchor.
    """

    def __init__(self, network: DSparkNetwork, vocab_size: int) -> None:
        self.network = network
        self.features = network.config.feature_layers
        self.context = Context(network)
        self.calls = 0
        self._vocab_size = vocab_size
        self._waiting: list[Tensor] = []
        self._added = 0

    def observe(self, scores: Scores | None) -> None:
        """Take over the features of the rows committed in the target's last call."""
        if scores is None or not scores.features:
            return
        device, dtype = self.network.device, self.network.dtype
        rows = [scores.features[layer].to(device, dtype) for layer in self.features]
        self._waiting.append(torch.cat(rows, dim=-1))

    def rollback(self) -> None:
        """Forget an addition to the context that was never finished."""
        self.context.rollback(self._added)

    def run(self, tokens: Sequence[int], limit: int) -> "Block | None":
        """A block behind `tokens`, whose last is the anchor; None where there is no room for one.

        Raises ValueError when the features of a committed token were never observed: attending to
        a context with a hole would only show in what is accepted.
        """
        config = self.network.config
        if limit < 1 or len(tokens) - 1 + config.block_size > config.max_positions:
            return None
        while self._waiting:
            self.context.append(self._waiting[0])
            self._added += len(self._waiting.pop(0))
        if self.context.length != len(tokens) - 1:
            raise ValueError("The DSpark drafter was not told of every committed token.")
        self.calls += 1
        hidden, base = self.context.block(tokens[-1])
        confidences = self.network.slot_confidences(hidden)
        return Block(self.network, hidden, base, tokens[-1], self._vocab_size, confidences)


@dataclass(frozen=True, slots=True)
class Block:
    """One run of the network: what each slot predicts, given the token in front of it."""

    network: DSparkNetwork
    hidden: Tensor  # [slots, hidden size]
    base: Tensor  # [slots, vocabulary rows]
    anchor: int
    vocab_size: int
    confidences: list[float] | None  # what each slot's hidden state says

    def slot(self, slot: int, previous: int, state: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of a slot behind `previous`, and the sequential head's next state.

        [vocabulary], or [draft rows] for a drafter that speaks a selection of it only.
        """
        logits, state = self.network.corrected(
            self.hidden[slot], self.base[slot], self._one(previous), state
        )
        return logits[: self.vocab_size], state

    def tokens(self, rows: Sequence[int]) -> list[int]:
        """The tokens that rows of the logits stand for."""
        spoken = self.network.spoken
        return list(rows) if spoken is None else [spoken[row] for row in rows]

    def rows(self, tokens: Sequence[int]) -> list[int]:
        """The rows of the logits that stand for `tokens`, -1 for one the drafter cannot speak."""
        row_of = self.network.row_of
        return list(tokens) if row_of is None else [row_of.get(token, -1) for token in tokens]

    def spread(self, q: Tensor) -> Tensor:
        """A distribution over rows as one over the vocabulary [vocabulary]."""
        if not self.network.config.draft_rows:
            return q
        return q.new_zeros(self.vocab_size).index_copy_(0, self.network.draft_ids, q)

    def confidence(self, slot: int, previous: int) -> float | None:
        """The confidence logit of a slot; it does not depend on the slot's own token."""
        if self.confidences is None:
            return None
        by_token = self.network.token_confidences
        return self.confidences[slot] + (by_token[previous] if by_token else 0.0)

    def _one(self, token: int) -> Tensor:
        return torch.tensor(token, device=self.hidden.device)
