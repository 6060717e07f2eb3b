"""The DSpark network and counts, position by position: one distribution of both."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from spork_demo.decoding.drafters.blocks import Block
from spork_demo.decoding.drafters.counts import Forecast, NgramCounts
from spork_demo.decoding.sampling import distribution
from spork_demo.models.cached_model import Scores
from spork_demo.models.dspark_config import MixtureConfig
from spork_demo.models.top import likeliest
from spork_demo.settings import Settings

NETWORK = "dspark"
NEARLY = 1e-6


@dataclass(frozen=True, slots=True)
class Part:
    """What is said about one token: q = (1 - weight * mass) * network + weight * forecast.

    logits: the network's, [rows] of the block. forecast: from counts, mass: what its
    probabilities sum to, so that q always sums to 1.
    """

    block: Block
    logits: Tensor
    forecast: Forecast = field(default_factory=dict)
    weight: float = 0.0

    @property
    def network_share(self) -> float:
        return 1.0 - self.weight * sum(probability for probability, _ in self.forecast.values())

    def likeliest(self, width: int) -> list[tuple[int, float, str]]:
        """The `width` likeliest tokens at temperature 1: (token, q, main source)."""
        ids, chances = likeliest(self.logits[None], width)
        best, most = ids[0].tolist(), chances[0].tolist()
        said = dict(zip(self.block.tokens(best), most, strict=True))
        if not self.forecast:
            return [(token, probability, NETWORK) for token, probability in said.items()]
        share = self.network_share
        both = {token: share * probability for token, probability in said.items()}
        others = [token for token in self.forecast if token not in both]
        # a probability is its logit's distance from that of the best, whose own is known
        both |= self._network_says(others, float(self.logits[best[0]]), share * most[0])
        mixed = []
        for token, own in both.items():
            counted, source = self.forecast.get(token, (0.0, NETWORK))
            counted *= self.weight
            mixed.append((token, own + counted, source if counted > own else NETWORK))
        return sorted(mixed, key=lambda each: (-each[1], each[0]))[:width]

    def distribution(self, settings: Settings) -> Tensor:
        """q [vocabulary] at the run's temperature; counts have none of their own."""
        q = distribution(self.logits[None], settings)[0]
        if not self.forecast:
            return self.block.spread(q)
        ids = torch.tensor(list(self.forecast), device=q.device)
        counted = torch.tensor([p for p, _ in self.forecast.values()], device=q.device)
        whole = self.block.spread(q * self.network_share)
        return whole.index_add_(0, ids, self.weight * counted)

    def source(self, token: int, q: Tensor) -> str:
        """Which of the two gave most of q(token)."""
        counted, source = self.forecast.get(token, (0.0, NETWORK))
        return source if 2 * self.weight * counted > float(q[token]) else NETWORK

    def _network_says(self, tokens: list[int], logit: float, known: float) -> dict[int, float]:
        """The network's part of `tokens`, `known` being that of a token with this logit."""
        rows = self.block.rows(tokens)
        logits = self.logits[[max(0, row) for row in rows]].tolist()
        spoken = zip(tokens, rows, logits, strict=True)
        return {t: known * math.exp(own - logit) if row >= 0 else 0.0 for t, row, own in spoken}


class Mixture:
    """Counts of one lane beside the network, as fitted for a pair.

    The confidence that a draft is accepted may use all that was known before it was drawn: the
    network's own confidence, and how sure of its best token the mixture is.
    """

    def __init__(self, counts: NgramCounts, config: MixtureConfig) -> None:
        self.counts = counts
        self.config = config

    def observe(self, tokens: Sequence[int], scores: Scores | None) -> None:
        self.counts.observe(tokens, scores)

    def part(self, block: Block, logits: Tensor, context: Sequence[int]) -> Part:
        forecast = self.counts.forecast(context[-self.counts.reach :])
        return Part(block, logits, forecast, self.config.weight)

    def confidence(self, logit: float, surest: float) -> float:
        """Logit of the chance that the draft is accepted, from the network's own logit and the
        probability of the mixture's likeliest token.
        """
        constant, own, best = self.config.confidence
        surest = min(1 - NEARLY, max(NEARLY, surest))
        return constant + own * logit + best * math.log(surest / (1 - surest))
