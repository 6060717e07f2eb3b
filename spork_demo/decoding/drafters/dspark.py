"""DSpark as a drafter: a chain of which a prefix is scheduled, and forks for SPORK.

Either can be mixed with counts: the sequential head of DSpark may be any function of the tokens
already drafted, and a backoff n-gram is one.
"""

import heapq
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from spork_demo.decoding.calibration import scaled
from spork_demo.decoding.drafters.blocks import Block, Blocks
from spork_demo.decoding.drafters.mixture import Mixture, Part
from spork_demo.decoding.drafters.model_forks import ForkPlan
from spork_demo.decoding.drafters.proposal import Proposal
from spork_demo.decoding.node_budget import NodeBudget
from spork_demo.decoding.sampling import draw
from spork_demo.decoding.schedule import Scheduler
from spork_demo.models.cached_model import Scores
from spork_demo.settings import KNOBS, Settings

SOURCE = "dspark"
CONTEXT = KNOBS["ngram_order"].high - 1
"""Tokens of context that any counts look at."""


class _BlockDrafter:
    """What both drafters are made of: blocks, settings, a generator, maybe a mixture."""

    def __init__(
        self,
        blocks: Blocks,
        settings: Settings,
        generator: torch.Generator,
        *,
        mixture: Mixture | None = None,
        stop_ids: frozenset[int] = frozenset(),
    ) -> None:
        self.features = blocks.features
        self._blocks = blocks
        self._settings = settings
        self._generator = generator
        self._mixture = mixture
        self._stop_ids = stop_ids

    def observe(self, tokens: Sequence[int], scores: Scores | None) -> None:
        self._blocks.observe(scores)
        if self._mixture is not None:
            self._mixture.observe(tokens, scores)

    def rollback(self) -> None:
        self._blocks.rollback()

    def _part(self, block: Block, logits: Tensor, context: Sequence[int]) -> Part:
        """What the network, or the mixture, says about the token after `context`."""
        if self._mixture is None:
            return Part(block, logits)
        return self._mixture.part(block, logits, context)


class DSparkChain(_BlockDrafter):
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
        schedule: Scheduler,
        *,
        mixture: Mixture | None = None,
        stop_ids: frozenset[int] = frozenset(),
    ) -> None:
        super().__init__(blocks, settings, generator, mixture=mixture, stop_ids=stop_ids)
        self._schedule = schedule

    @torch.inference_mode()
    def propose(self, tokens: Sequence[int], limit: int) -> Proposal:
        block = self._blocks.run(tokens, limit)
        if block is None:
            return Proposal(source=SOURCE)
        config = block.network.config
        chain = self._draw(
            block, tokens, min(limit, self._settings.draft_length, config.block_size)
        )
        count = len(chain.tokens)
        confidences, as_trained = [], []
        scheduled, scheduling = None, None
        if chain.logits:
            raw = torch.tensor(chain.logits)
            temperatures = config.confidence_temperatures
            if self._mixture is not None:
                temperatures = self._mixture.config.temperatures
            confidences = scaled(raw, temperatures).tolist()
            as_trained = raw.sigmoid().tolist()
            scheduled, scheduling = self._schedule(confidences)
        return Proposal(
            tokens=tuple(chain.tokens),
            parents=tuple(range(-1, count - 1)),
            probabilities=tuple(chain.probabilities),
            sampled_from=tuple(chain.sampled_from),
            source=SOURCE,
            sources=tuple(chain.sources),
            confidences=tuple(confidences),
            raw_confidences=tuple(as_trained),
            scheduled=scheduled,
            scheduling=scheduling,
        )

    def _draw(self, block: Block, tokens: Sequence[int], length: int) -> "_Chain":
        chain, state, context = _Chain(), block.network.first_state(), list(tokens[-CONTEXT:])
        for slot in range(length):
            confidence = block.confidence(slot, context[-1])
            logits, state = block.slot(slot, context[-1], state)
            part = self._part(block, logits, context)
            token, probability, source = part.likeliest(1)[0]
            if confidence is not None:
                if self._mixture is not None:
                    confidence = self._mixture.confidence(confidence, probability)
                chain.logits.append(confidence)
            if self._settings.greedy:
                q = None
            else:
                q = part.distribution(self._settings)
                token = draw(q, self._generator)
                probability, source = float(q[token]), part.source(token, q)
            chain.tokens.append(token)
            chain.probabilities.append(probability)
            chain.sampled_from.append(q)
            chain.sources.append(source)
            context.append(token)
            if token in self._stop_ids:
                break
        return chain


@dataclass(slots=True)
class _Chain:
    tokens: list[int] = field(default_factory=list)
    probabilities: list[float] = field(default_factory=list)
    sampled_from: list[Tensor | None] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    logits: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A node that may join the tree. `token` is None where it is drawn only when it does."""

    parent: int
    context: tuple[int, ...]
    slot: int
    token: int | None
    probability: float
    joint: float
    source: str
    part: Part
    q: Tensor | None
    state: Tensor


class DSparkForks(_BlockDrafter):
    """Forks from one block: the most probable tokens of each slot behind each kept node.

    The tree grows best-first by joint draft probability under the plan's budget, and `worth` says
    how many of its nodes are worth a row of the target's call. With `sample_rest` the tokens
    behind the first are drawn instead: such a node takes its place in the queue, and joins the
    tree, before its token is drawn, because a choice among drawn tokens would leave them
    distributed otherwise than the q that is kept with them.
    """

    def __init__(
        self,
        blocks: Blocks,
        plan: ForkPlan,
        settings: Settings,
        generator: torch.Generator,
        *,
        mixture: Mixture | None = None,
        worth: NodeBudget | None = None,
        stop_ids: frozenset[int] = frozenset(),
    ) -> None:
        super().__init__(blocks, settings, generator, mixture=mixture, stop_ids=stop_ids)
        self._plan = plan
        self._worth = worth
        samples = (plan.sample_first or plan.sample_rest) and not settings.greedy
        self._weighs = worth is not None and plan.shape == "tree" and not samples

    @torch.inference_mode()
    def propose(self, tokens: Sequence[int], limit: int) -> Proposal:
        block = self._blocks.run(tokens, limit)
        if block is None:
            return Proposal(source=SOURCE)
        grown = self._grow(
            block, tokens, min(limit, self._plan.depth, block.network.config.block_size)
        )
        if self._weighs:
            grown = grown[: self._worth.nodes([node.joint for node in grown])]
        return Proposal(
            tokens=tuple(node.token for node in grown),
            parents=tuple(node.parent for node in grown),
            probabilities=tuple(node.probability for node in grown),
            sampled_from=tuple(node.q for node in grown),
            source=SOURCE,
            sources=tuple(node.source for node in grown),
        )

    def _grow(self, block: Block, tokens: Sequence[int], depth: int) -> list[_Candidate]:
        order = itertools.count()
        grown: list[_Candidate] = []
        joints: list[float] = []
        waiting: list[tuple[float, int, _Candidate]] = []
        paused: list[tuple[float, int, _Candidate]] = []

        def offer(parent: int, slot: int, context: tuple[int, ...], joint: float, state: Tensor):
            for one in self._children(block, parent, slot, context, joint, state):
                heapq.heappush(waiting, (-one.joint, next(order), one))

        offer(-1, 0, tuple(tokens[-CONTEXT:]), 1.0, block.network.first_state())
        while (waiting or paused) and len(grown) < self._plan.nodes:
            if not waiting:  # the forks that are to go on, all at the same level
                for _, place, node in heapq.nsmallest(self._plan.survivors, paused):
                    behind = (*node.context, node.token)
                    offer(place, node.slot + 1, behind, node.joint, node.state)
                paused = []
                continue
            node = self._drawn(heapq.heappop(waiting)[2])
            grown.append(node)
            joints.append(node.joint)
            if self._weighs and self._worth.hopeless(joints, self._plan.nodes):
                break
            if node.slot + 1 == depth or node.token in self._stop_ids:
                continue
            if node.slot + 1 == self._plan.pause:
                paused.append((-node.joint, len(grown) - 1, node))
            else:
                behind = (*node.context, node.token)
                offer(len(grown) - 1, node.slot + 1, behind, node.joint, node.state)
        return grown

    def _drawn(self, node: _Candidate) -> _Candidate:
        """`node` with its token; a drawn one waited with its parent's joint probability."""
        if node.token is not None:
            return node
        token = draw(node.q, self._generator)
        probability = float(node.q[token])
        return replace(
            node,
            token=token,
            probability=probability,
            joint=node.joint * probability,
            source=node.part.source(token, node.q),
        )

    def _children(
        self,
        block: Block,
        parent: int,
        slot: int,
        context: tuple[int, ...],
        joint: float,
        state: Tensor,
    ) -> list[_Candidate]:
        """What may follow `context`, whose last token is the parent's."""
        logits, state = block.slot(slot, context[-1], state)
        part = self._part(block, logits, context)
        width = self._plan.width if self._plan.shape == "tree" or slot == 0 else 1
        common = {"parent": parent, "context": context, "slot": slot, "part": part, "state": state}
        if (self._plan.sample_rest if slot else self._plan.sample_first) and (
            not self._settings.greedy
        ):
            q = part.distribution(self._settings)
            unknown = {"token": None, "probability": 0.0, "source": SOURCE}
            return [_Candidate(joint=joint, q=q, **unknown, **common) for _ in range(width)]
        return [
            _Candidate(
                token=token,
                probability=probability,
                joint=joint * probability,
                source=source,
                q=None,
                **common,
            )
            for token, probability, source in part.likeliest(width)
        ]
