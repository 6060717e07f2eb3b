"""The small heads of the DSpark drafter: what depends on the token just drafted (float32)."""

import torch
from torch import Tensor, nn

from spork_demo.models.dspark_config import DSparkConfig


class MarkovHead(nn.Module):
    """A bias on a slot's logits that depends on the token just drafted (float32).

    vanilla looks at that token only, gated also at the slot's hidden state, rnn also at a state
    that starts at zero in every block.
    """

    def __init__(self, config: DSparkConfig) -> None:
        super().__init__()
        rank, hidden, self.type = config.markov_rank, config.hidden_size, config.markov_type
        self.markov_w1 = nn.Embedding(config.vocab_rows, rank)
        self.markov_w2 = nn.Linear(rank, config.head_rows, bias=False)
        if self.type == "gated":
            self.gate_proj = nn.Linear(hidden + rank, rank)
        if self.type == "rnn":
            self.joint_proj = nn.Linear(2 * rank + hidden, 3 * rank)

    def forward(self, hidden: Tensor, previous: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Bias [..., vocabulary] and the state after it, from hidden [..., hidden size], the
        token before the slot [...] and the state [..., rank] before it.
        """
        before = self.markov_w1(previous)
        if self.type == "gated":
            gate = self.gate_proj(torch.cat([hidden, before], dim=-1)).sigmoid()
            return self.markov_w2(gate * before), state
        if self.type == "rnn":
            joint = self.joint_proj(torch.cat([state, before, hidden], dim=-1))
            gate, fresh, out = joint.chunk(3, dim=-1)
            keep = gate.sigmoid()
            # the bias does not see the state it leaves behind
            return self.markov_w2(out.tanh()), keep * state + (1 - keep) * fresh.tanh()
        return self.markov_w2(before), state


class ConfidenceHead(nn.Module):
    """Logit of the chance that a slot's draft is accepted, given that those before it were."""

    def __init__(self, config: DSparkConfig) -> None:
        super().__init__()
        extra = config.markov_rank if config.confidence_with_markov else 0
        self.proj = nn.Linear(config.hidden_size + extra, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.proj(inputs)[..., 0]
