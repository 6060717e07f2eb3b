"""Score judges of article SPORK: each gives every fork a number in [0, 1].

Even a judge that were the target itself would not give the target's output: the mean probability
of a fork can be highest on a fork whose first token is not the target's choice.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

from torch import Tensor

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

    states: with `keeps_states`, what the last layer gave each fork's last token in the last call,
        [forks, hidden size], before the final norm.
    """

    def __init__(self, model: CachedModel, *, owns_cache: bool, keeps_states: bool = False) -> None:
        self.model = model
        self.states: Tensor | None = None
        self._owns_cache = owns_cache
        self._features = (model.depth - 1,) if keeps_states else ()

    @property
    def calls(self) -> int:
        return self.model.calls

    def score(self, tokens: Sequence[int], proposal: Proposal) -> tuple[ForkScore, ...]:
        fresh = tokens[self.model.length :]
        below = len(fresh) - 1
        parents = [*range(-1, below), *(below + 1 + parent for parent in proposal.parents)]
        scores = self.model.forward([*fresh, *proposal.tokens], parents, features=self._features)
        if self._owns_cache:
            self.model.commit(range(len(fresh)))
        else:
            self.model.rollback()
        for layer in self._features:
            self.states = scores.features[layer][[below + 1 + n for n in proposal.leaves()]]
        rows = [below + 1 + parent for parent in proposal.parents]
        p = scores.logits[rows].double().softmax(dim=-1)
        each = [float(p[node, token]) for node, token in enumerate(proposal.tokens)]
        return tuple(
            ForkScore(leaf, math.fsum(each[n] for n in path) / len(path))
            for leaf in proposal.leaves()
            for path in [proposal.path(leaf)]
        )


class Panel:
    """Several judges on the same forks. The first one's scores are the round's; `heard` has those
    of all, one tuple a judge, of the last proposal.
    """

    def __init__(self, judges: Mapping[str, Judge]) -> None:
        self.judges = judges
        self.heard: tuple[tuple[ForkScore, ...], ...] = ()

    def score(self, tokens: Sequence[int], proposal: Proposal) -> tuple[ForkScore, ...]:
        self.heard = tuple(judge.score(tokens, proposal) for judge in self.judges.values())
        return self.heard[0]
