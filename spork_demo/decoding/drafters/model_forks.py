"""Forks grown by a model: the target itself, its early layers, or a small draft model.

The three differ only in the cache they read. The target and its early layers continue the
target's own cache from the anchor; a draft model keeps a cache of its own, which between rounds
holds committed tokens only. Rows of drafted tokens are dropped when the proposal is made and the
next proposal feeds whatever was committed meanwhile in one call, so that a draft cache cannot
fall out of step, whatever was accepted.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from spork_demo.decoding.drafters.proposal import Proposal
from spork_demo.decoding.sampling import distribution, draw
from spork_demo.models.cached_model import CachedModel, Scores
from spork_demo.models.top import likeliest
from spork_demo.settings import Settings


@dataclass(slots=True)
class ForkPlan:
    """What to grow. `width` forks of at most `depth` tokens each; a policy may change both
    between rounds.

    shape: `forks` continues each first token with one child; `hierarchical` grows them half as
        deep and then goes on with the more probable half; `tree` gives every node up to `width`
        children and keeps `budget` nodes of the most probable branches.
    sample_first, sample_rest: draw the first tokens or the later ones from the draft
        distribution instead of taking the most probable.
    """

    width: int
    depth: int
    shape: str = "forks"
    budget: int = 0
    sample_first: bool = False
    sample_rest: bool = False

    @property
    def pause(self) -> int:
        """The level after which only `survivors` forks go on; 0 where there is none."""
        return (self.depth + 1) // 2 if self.shape == "hierarchical" and self.depth > 1 else 0

    @property
    def survivors(self) -> int:
        return max(1, self.width // 2)

    @property
    def nodes(self) -> int:
        """The most nodes of a proposal."""
        return self.budget if self.shape == "tree" else self.width * self.depth


@dataclass(slots=True)
class _Growing:
    """Nodes drafted so far. `rows[n]` is the pending cache row of node n once it was fed.

    joint: probability of the branch up to a node. rank: what a node is kept by under a budget; a
    drawn one ranks by its parent, since a choice by its own token would leave the kept tokens
    distributed otherwise than the q they were drawn from.
    """

    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    probabilities: list[float] = field(default_factory=list)
    sampled_from: list[Tensor | None] = field(default_factory=list)
    joint: list[float] = field(default_factory=list)
    rank: list[float] = field(default_factory=list)
    rows: list[int | None] = field(default_factory=list)

    def add(self, token: int, parent: int, probability: float, q: Tensor | None) -> int:
        above = self.joint[parent] if parent >= 0 else 1.0
        self.tokens.append(token)
        self.parents.append(parent)
        self.probabilities.append(probability)
        self.sampled_from.append(q)
        self.joint.append(above * probability)
        self.rank.append(above if q is not None else above * probability)
        self.rows.append(None)
        return len(self.tokens) - 1


class ModelForks:
    """Drafts with a causal LM. `context` is the most tokens that model may see. Nothing is
    drafted behind a stop token.

    keep_rows: leave the drafted rows pending in the target's cache, so that a score judge's
        choice can be committed without feeding it again (article SPORK).
    """

    features: tuple[int, ...] = ()

    def __init__(
        self,
        model: CachedModel,
        plan: ForkPlan,
        settings: Settings,
        generator: torch.Generator,
        *,
        source: str,
        owns_cache: bool,
        context: int,
        keep_rows: bool = False,
        stop_ids: frozenset[int] = frozenset(),
    ) -> None:
        self.model = model
        self._plan = plan
        self._settings = settings
        self._generator = generator
        self._source = source
        self._owns_cache = owns_cache
        self._context = context
        self._keep_rows = keep_rows
        self._stop_ids = stop_ids
        self._before = 0

    def propose(self, tokens: Sequence[int], limit: int) -> Proposal:
        depth = min(self._plan.depth, limit, self._context - len(tokens))
        if depth < 1:
            return Proposal(source=self._source)
        self._before = self.model.length
        scores = self.model.forward(tokens[self.model.length :], last_only=True)
        if self._owns_cache:
            self.model.commit(range(self.model.pending))
        anchor_logits = scores.logits[-1]
        grown = self._grow(anchor_logits, depth)
        kept = range(len(grown.tokens))
        if self._plan.shape == "tree":
            kept = sorted(sorted(kept, key=lambda n: -grown.rank[n])[: self._plan.budget])
        if not self._keep_rows:
            self.model.rollback()
        return self._proposal(grown, kept, anchor_logits)

    def observe(self, tokens: Sequence[int], scores: Scores | None) -> None:
        """Nothing to do: the next proposal feeds what was committed."""

    def rollback(self) -> None:
        self.model.rollback(min(self._before, self.model.length) if self._owns_cache else None)

    def _grow(self, anchor_logits: Tensor, depth: int) -> _Growing:
        grown = _Growing()
        tips = self._children(grown, -1, anchor_logits, self._plan.width, self._plan.sample_first)
        width = self._plan.width if self._plan.shape == "tree" else 1
        for level in range(1, depth):
            if level == self._plan.pause:
                tips = sorted(sorted(tips, key=lambda n: -grown.rank[n])[: self._plan.survivors])
            tips = [tip for tip in tips if grown.tokens[tip] not in self._stop_ids]
            if not tips:
                break
            logits = self._feed(grown, tips)
            fresh = [
                self._children(grown, tip, row, width, self._plan.sample_rest)
                for tip, row in zip(tips, logits, strict=True)
            ]
            tips = sorted((n for some in fresh for n in some), key=lambda n: -grown.joint[n])
            tips = sorted(tips[: self._plan.width])
        return grown

    def _feed(self, grown: _Growing, tips: Sequence[int]) -> Tensor:
        """One call over the tips of all forks; returns their logits [tips, vocabulary]."""
        anchor_row = -1 if self._owns_cache else 0
        above = [grown.parents[tip] for tip in tips]
        parents = [grown.rows[node] if node >= 0 else anchor_row for node in above]
        first = self.model.pending
        scores = self.model.forward([grown.tokens[tip] for tip in tips], parents)
        for offset, tip in enumerate(tips):
            grown.rows[tip] = first + offset
        return scores.logits

    def _children(
        self, grown: _Growing, parent: int, logits: Tensor, width: int, sample: bool
    ) -> list[int]:
        if sample and not self._settings.greedy:
            q = distribution(logits[None], self._settings)[0]
            picked = [draw(q, self._generator) for _ in range(width)]
            return [grown.add(token, parent, float(q[token]), q) for token in picked]
        ids, chances = likeliest(logits[None], width)
        pairs = zip(ids[0].tolist(), chances[0].tolist(), strict=True)
        return [grown.add(token, parent, probability, None) for token, probability in pairs]

    def _proposal(self, grown: _Growing, kept: Sequence[int], anchor_logits: Tensor) -> Proposal:
        place = {node: index for index, node in enumerate(kept)} | {-1: -1}
        return Proposal(
            tokens=tuple(grown.tokens[n] for n in kept),
            parents=tuple(place[grown.parents[n]] for n in kept),
            probabilities=tuple(grown.probabilities[n] for n in kept),
            sampled_from=tuple(grown.sampled_from[n] for n in kept),
            source=self._source,
            rows=tuple(grown.rows[n] for n in kept) if self._keep_rows else (),
            anchor_logits=anchor_logits if self._keep_rows else None,
        )
