"""DSpark as a drafter: a chain of which a prefix is scheduled, and forks for SPORK.

DFlash feeds anchor + masks and predicts at the masks; DSpark predicts at the anchor's slot too,
so a block of B inputs drafts B tokens. The trained block is always run whole, shorter drafts take
its first slots: more slots, or fewer, would change what every slot predicts.
"""

import heapq
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from spork_demo.decoding.calibration import scaled
from spork_demo.decoding.drafters.model_forks import ForkPlan
from spork_demo.decoding.drafters.proposal import Proposal
from spork_demo.decoding.sampling import distribution, draw
from spork_demo.models.cached_model import Scores
from spork_demo.models.dspark_context import Context
from spork_demo.models.dspark_network import DSparkNetwork
from spork_demo.settings import Settings
from spork_demo.trace import Scheduling

SOURCE = "dspark"


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

    def observe(self, scores: Scores | None) -> None:
        """Take over the features of the rows committed in the target's last call."""
        if scores is None or not scores.features:
            return
        device, dtype = self.network.device, self.network.dtype
        rows = [scores.features[layer].to(device, dtype) for layer in self.features]
        self._waiting.append(torch.cat(rows, dim=-1))

    def run(self, tokens: Sequence[int], limit: int) -> "Block | None":
        """A block behind `tokens`, whose last is the anchor; None where there is no room for one.

        Raises ValueError when the features of a committed token were never observed: attending to
        a context with a hole would only show in what is accepted.
        """
        config = self.network.config
        if limit < 1 or len(tokens) - 1 + config.block_size > config.max_positions:
            return None
        for rows in self._waiting:
            self.context.append(rows)
        self._waiting.clear()
        if self.context.length != len(tokens) - 1:
            raise ValueError("The DSpark drafter was not told of every committed token.")
        self.calls += 1
        hidden = self.context.block(tokens[-1])
        return Block(
            self.network, hidden, self.network.base_logits(hidden), tokens[-1], self._vocab_size
        )


@dataclass(frozen=True, slots=True)
class Block:
    """One run of the network: what each slot predicts, given the token in front of it."""

    network: DSparkNetwork
    hidden: Tensor  # [slots, hidden size]
    base: Tensor  # [slots, vocabulary rows]
    anchor: int
    vocab_size: int

    def slot(self, slot: int, previous: int, state: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of a slot behind `previous`, and the sequential head's next state.

        [vocabulary], or [draft rows] for a drafter that speaks a selection of it only.
        """
        logits, state = self.network.corrected(
            self.hidden[slot], self.base[slot], self._one(previous), state
        )
        return logits[: self.vocab_size], state

    def token(self, row: int) -> int:
        """The token a row of the logits stands for."""
        return int(self.network.draft_ids[row]) if self.network.config.draft_rows else row

    def spread(self, q: Tensor) -> Tensor:
        """A distribution over rows as one over the vocabulary [vocabulary]."""
        if not self.network.config.draft_rows:
            return q
        return q.new_zeros(self.vocab_size).index_copy_(0, self.network.draft_ids, q)

    def confidence(self, slot: int, previous: int) -> Tensor | None:
        """The confidence logit of a slot; it does not depend on the slot's own token."""
        return self.network.confidence_logit(self.hidden[slot], self._one(previous))

    def _one(self, token: int) -> Tensor:
        return torch.tensor(token, device=self.hidden.device)


class DSparkChain:
    """Drafts one chain a block, left to right, and lets `schedule` decide how much of it is sent.

    Above temperature 0 each token is drawn from the very q that is kept for the ratio; at 0 it is
    the most probable one. Without a confidence head there is nothing to schedule by, and the
    whole draft is sent. Nothing is drafted behind a stop token.
    """

    def __init__(
        self,
        blocks: Blocks,
        settings: Settings,
        generator: torch.Generator,
        schedule: Callable[[Sequence[float]], tuple[int, Scheduling]],
        *,
        stop_ids: frozenset[int] = frozenset(),
    ) -> None:
        self.features = blocks.features
        self._blocks = blocks
        self._settings = settings
        self._generator = generator
        self._schedule = schedule
        self._stop_ids = stop_ids

    def observe(self, tokens: Sequence[int], scores: Scores | None) -> None:
        self._blocks.observe(scores)

    @torch.inference_mode()
    def propose(self, tokens: Sequence[int], limit: int) -> Proposal:
        block = self._blocks.run(tokens, limit)
        if block is None:
            return Proposal(source=SOURCE)
        config = block.network.config
        chain = self._draw(block, min(limit, self._settings.draft_length, config.block_size))
        count = len(chain.tokens)
        confidences, as_trained = [], []
        scheduled, scheduling = None, None
        if chain.logits:
            raw = torch.stack(chain.logits)
            confidences = scaled(raw, config.confidence_temperatures).tolist()
            as_trained = raw.sigmoid().tolist()
            scheduled, scheduling = self._schedule(confidences)
        return Proposal(
            tokens=tuple(chain.tokens),
            parents=tuple(range(-1, count - 1)),
            probabilities=tuple(chain.probabilities),
            sampled_from=tuple(chain.sampled_from),
            source=SOURCE,
            confidences=tuple(confidences),
            raw_confidences=tuple(as_trained),
            scheduled=scheduled,
            scheduling=scheduling,
        )

    def _draw(self, block: Block, length: int) -> "_Chain":
        chain, state, previous = _Chain(), block.network.first_state(), block.anchor
        for slot in range(length):
            confidence = block.confidence(slot, previous)
            if confidence is not None:
                chain.logits.append(confidence)
            logits, state = block.slot(slot, previous, state)
            if self._settings.greedy:
                previous, q = int(logits.argmax()), None
                probability = float(logits.softmax(dim=-1)[previous])
            else:
                q = distribution(logits[None], self._settings)[0]
                previous = draw(q, self._generator)
                probability = float(q[previous])
            chain.tokens.append(previous)
            chain.probabilities.append(probability)
            chain.sampled_from.append(q)
            if previous in self._stop_ids:
                break
        return chain


@dataclass(slots=True)
class _Chain:
    tokens: list[int] = field(default_factory=list)
    probabilities: list[float] = field(default_factory=list)
    sampled_from: list[Tensor | None] = field(default_factory=list)
    logits: list[Tensor] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A node that may join the tree. `token` is None where it is drawn only when it does."""

    parent: int
    slot: int
    token: int | None
    q: Tensor
    joint: float
    state: Tensor


class DSparkForks:
    """Forks from one block: the most probable tokens of each slot behind each kept node.

    The tree grows best-first by joint draft probability under the plan's budget. With
    `sample_rest` the tokens behind the first are drawn instead: such a node takes its place in
    the queue, and joins the tree, before its token is drawn, because a choice among drawn tokens
    would leave them distributed otherwise than the q that is kept with them.
    """

    def __init__(
        self,
        blocks: Blocks,
        plan: ForkPlan,
        settings: Settings,
        generator: torch.Generator,
        *,
        stop_ids: frozenset[int] = frozenset(),
    ) -> None:
        self.features = blocks.features
        self._blocks = blocks
        self._plan = plan
        self._settings = settings
        self._generator = generator
        self._stop_ids = stop_ids

    def observe(self, tokens: Sequence[int], scores: Scores | None) -> None:
        self._blocks.observe(scores)

    @torch.inference_mode()
    def propose(self, tokens: Sequence[int], limit: int) -> Proposal:
        block = self._blocks.run(tokens, limit)
        if block is None:
            return Proposal(source=SOURCE)
        depth = min(limit, self._plan.depth, block.network.config.block_size)
        tree = self._plan.shape == "tree"
        budget = self._plan.budget if tree else self._plan.width * depth
        order = itertools.count()
        grown: list[tuple[int, _Candidate, float]] = []
        waiting = [
            (-one.joint, next(order), one)
            for one in self._children(block, -1, 0, block.anchor, 1.0, block.network.first_state())
        ]
        heapq.heapify(waiting)
        while waiting and len(grown) < budget:
            _, _, node = heapq.heappop(waiting)
            token = draw(node.q, self._generator) if node.token is None else node.token
            probability = float(node.q[token])
            grown.append((token, node, probability))
            if node.slot + 1 == depth or token in self._stop_ids:
                continue
            joint = node.joint * (probability if node.token is None else 1.0)
            for child in self._children(
                block, len(grown) - 1, node.slot + 1, token, joint, node.state
            ):
                heapq.heappush(waiting, (-child.joint, next(order), child))
        return Proposal(
            tokens=tuple(token for token, _, _ in grown),
            parents=tuple(node.parent for _, node, _ in grown),
            probabilities=tuple(probability for _, _, probability in grown),
            sampled_from=tuple(node.q if node.token is None else None for _, node, _ in grown),
            source=SOURCE,
        )

    def _children(
        self, block: Block, parent: int, slot: int, previous: int, joint: float, state: Tensor
    ) -> list[_Candidate]:
        """What may follow `previous`. A drawn child waits with its parent's joint probability."""
        logits, state = block.slot(slot, previous, state)
        width = self._plan.width if self._plan.shape == "tree" or slot == 0 else 1
        sample = self._plan.sample_rest if slot else self._plan.sample_first
        if sample and not self._settings.greedy:
            q = distribution(logits[None], self._settings)[0]
            return [_Candidate(parent, slot, None, q, joint, state) for _ in range(width)]
        q = logits.softmax(dim=-1)
        top = q.topk(min(width, len(q)))
        return [
            _Candidate(parent, slot, token, q, joint * probability, state)
            for token, probability in zip(top.indices.tolist(), top.values.tolist(), strict=True)
        ]
