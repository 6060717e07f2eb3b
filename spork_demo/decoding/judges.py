"""Score judges of article SPORK: each gives every fork a number in [0, 1].

Even a judge that were the target itself would not give the target's output: the mean probability
of a fork can be highest on a fork whose first token is not the target's choice.
"""

import math
from collections.abc import Sequence
from typing import Protocol

from spork_demo.decoding.drafters.proposal import Proposal
from spork_demo.models.cached_model import CachedModel
from spork_demo.trace import ForkScore


class Judge(Protocol):
    """Anything that scores forks."""

    def score(self, tokens: Sequence[int], proposal: Proposal) -> tuple[ForkScore, ...]:
        """One score per fork, in the order of `proposal.leaves()`."""
        ...


class FirstTokenJudge:
    """The drafter's probability of the fork's first token."""

    calls = 0

    def score(self, tokens: Sequence[int], proposal: Proposal) -> tuple[ForkScore, ...]:
        return tuple(
            ForkScore(leaf, proposal.probabilities[proposal.path(leaf)[0]] or 0.0)
            for leaf in proposal.leaves()
        )


class ModelJudge:
    """Mean probability of the fork's tokens under a model, in one tree-attention call.

    Article A: the target's first N layers, read out through its final norm and head, on the
    target's own cache. Article B: a small draft model with a cache of its own.
    """

    def __init__(self, model: CachedModel, *, owns_cache: bool) -> None:
        self.model = model
        self._owns_cache = owns_cache

    @property
    def calls(self) -> int:
        return self.model.calls

    def score(self, tokens: Sequence[int], proposal: Proposal) -> tuple[ForkScore, ...]:
        fresh = tokens[self.model.length :]
        below = len(fresh) - 1
        parents = [*range(-1, below), *(below + 1 + parent for parent in proposal.parents)]
        scores = self.model.forward([*fresh, *proposal.tokens], parents)
        if self._owns_cache:
            self.model.commit(range(len(fresh)))
        else:
            self.model.rollback()
        rows = [below + 1 + parent for parent in proposal.parents]
        p = scores.logits[rows].double().softmax(dim=-1)
        each = [float(p[node, token]) for node, token in enumerate(proposal.tokens)]
        return tuple(
            ForkScore(leaf, math.fsum(each[n] for n in path) / len(path))
            for leaf in proposal.leaves()
            for path in [proposal.path(leaf)]
        )
