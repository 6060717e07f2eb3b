"""The DSpark network and counts, position by position: one distribution of both."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from spork_demo.decoding.drafters.blocks import Block
from spork_demo.decoding.drafters.counts import Forecast, NgramCounts
from spork_demo.decoding.sampling import distribution
from spork_demo.models.cached_model import Scores
from spork_demo.models.dspark_config import MixtureConfig
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
        network = self.logits.softmax(dim=-1)
        top = network.topk(min(width, len(network)))
        said = zip(self.block.tokens(top.indices), top.values.tolist(), strict=True)
        if not self.forecast:
            return [(token, probability, NETWORK) for token, probability in said]
        share = self.network_share
        both = {token: share * probability for token, probability in said}
        both |= self._network_says(network, [token for token in self.forecast if token not in both])
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

    def _network_says(self, network: Tensor, tokens: list[int]) -> dict[int, float]:
        rows = self.block.rows(tokens)
        spoken = network[rows.clamp_min(0)].masked_fill(rows < 0, 0.0) * self.network_share
        return dict(zip(tokens, spoken.tolist(), strict=True))


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

    def confidence(self, logit: Tensor, part: Part) -> Tensor:
        """Logit of the chance that the draft is accepted, from the network's own logit."""
        constant, own, best = self.config.confidence
        surest = torch.tensor(part.likeliest(1)[0][1]).clamp(NEARLY, 1 - NEARLY)
        return constant + own * logit + best * surest.logit().to(logit.device)
