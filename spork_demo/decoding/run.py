"""What every decoder shares: the run's limits, its stop tokens, its one generator, its record."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from spork_demo.decoding.drafters.proposal import Drafter, Proposal
from spork_demo.decoding.stopwatch import Stopwatch
from spork_demo.language import later
from spork_demo.models.cached_model import CachedModel
from spork_demo.settings import Settings
from spork_demo.trace import (
    Change,
    DraftFate,
    Fate,
    Finished,
    ForkScore,
    Node,
    Round,
    Started,
    Token,
    finite,
)


class Text(Protocol):
    """Ids to text, one run's worth."""

    def push(self, token: int) -> str:
        """The text this committed token completes; "" while its bytes are incomplete."""
        ...

    def flush(self) -> str:
        """What an incomplete last character is shown as."""
        ...

    def piece(self, token: int) -> str:
        """How a single drafted token is shown."""
        ...


@dataclass(slots=True)
class Run:
    """One lane's run. `context`: the most tokens the target may hold, prompt included."""

    settings: Settings
    prompt: Sequence[int]
    target: CachedModel
    stop_ids: frozenset[int]
    context: int
    generator: torch.Generator
    watch: Stopwatch
    text: Text
    rounds: int = 0
    committed: int = 0
    stopped: bool = field(default=False)

    def room(self) -> int:
        """Tokens that may still be committed; 0 once a stop token was."""
        used = len(self.prompt) + self.committed
        left = min(self.settings.max_new_tokens - self.committed, self.context - used)
        return 0 if self.stopped else max(0, left)

    def cut(self, tokens: Sequence[int]) -> list[int]:
        """`tokens` up to the first stop token, which is kept, and no more than there is room."""
        for place, token in enumerate(tokens[: self.room()]):
            if token in self.stop_ids:
                return list(tokens[: place + 1])
        return list(tokens[: self.room()])

    def finished(self) -> Finished:
        """Why the run is over; a stop token that also fills the budget counts as `eos`."""
        tail = self.text.flush()
        if self.stopped:
            return Finished("eos", tail)
        if self.committed >= self.settings.max_new_tokens:
            return Finished("length", tail)
        told = later("The model's context of {context} tokens is full.", context=self.context)
        return Finished("context", tail, told)


def prefill(run: Run, drafter: Drafter | None = None) -> tuple[list[int], Started]:
    """Feed the prompt except its last token, the first anchor. Returns the committed tokens.

    The first round is then like any other: the drafter is told of the prompt before it is asked.
    """
    tokens = list(run.prompt)
    with run.watch.running("prefill"):
        features = drafter.features if drafter is not None else ()
        scores = run.target.forward(tokens[:-1], last_only=True, features=features)
        run.target.commit(range(run.target.pending))
        if drafter is not None:
            drafter.observe(tokens, scores)
    return tokens, Started(len(tokens), run.watch.lap()["prefill"])


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a round decided, before it is written down.

    target_rows: for each committed token the row of `logits` that predicts it, None where the
        target was not asked. logits: [rows, vocabulary] of the target's judging call.
    """

    proposal: Proposal
    committed: Sequence[int]
    path: Sequence[int]
    last_fate: Fate
    logits: Tensor | None
    target_rows: Sequence[int | None]
    calls: tuple[int, int]
    cache_rows: int
    confidences: tuple[float, ...] = ()
    thresholds: tuple[float, ...] = ()
    scores: tuple[ForkScore, ...] = ()
    judged_all: bool = True
    accept_threshold: float | None = None
    change: Change | None = None


def record(run: Run, outcome: Outcome) -> Round:
    """Write the round down. Not on the stopwatch: these figures are for the reader."""
    lap = run.watch.lap()
    accepted = min(len(outcome.path), len(outcome.committed))
    kept = set(outcome.path[:accepted])
    proposal = outcome.proposal
    nodes = _nodes(run, outcome, kept)
    committed = _tokens(run, outcome, accepted)
    run.committed += len(committed)
    run.stopped = bool(committed) and committed[-1].token in run.stop_ids
    run.rounds += 1
    return Round(
        index=run.rounds - 1,
        nodes=nodes,
        committed=committed,
        scheduled=len(proposal.sent().tokens),
        accepted=accepted,
        target_calls=outcome.calls[0],
        draft_calls=outcome.calls[1],
        cache_rows=outcome.cache_rows,
        seconds=lap["round"],
        draft_seconds=lap["draft"],
        judge_seconds=lap["judge"],
        commit_seconds=lap["commit"],
        scores=outcome.scores,
        accept_threshold=outcome.accept_threshold if outcome.scores else None,
        scheduling=proposal.scheduling,
        change=outcome.change,
    )


def _nodes(run: Run, outcome: Outcome, kept: set[int]) -> tuple[Node, ...]:
    proposal, sent = outcome.proposal, outcome.proposal.sent()
    seen: list[float | None] = [None] * len(proposal.tokens)
    if outcome.logits is not None and outcome.judged_all and sent.tokens:
        rows = [parent + 1 for parent in sent.parents]
        p = outcome.logits[rows].softmax(dim=-1)
        chosen = torch.tensor(sent.tokens, device=p.device)[:, None]
        seen[: len(rows)] = p.gather(-1, chosen)[:, 0].tolist()
    judged: list[DraftFate] = ["accepted" if n in kept else "rejected" for n in range(len(seen))]
    fates = [*judged[: len(sent.tokens)], *["cut"] * (len(seen) - len(sent.tokens))]
    return tuple(
        Node(
            token=token,
            text=run.text.piece(token),
            parent=proposal.parents[n],
            fate=fates[n],
            draft_probability=_chance(proposal.probabilities[n]),
            target_probability=seen[n],
            confidence=outcome.confidences[n] if outcome.confidences else None,
            threshold=outcome.thresholds[n] if outcome.thresholds else None,
            source=proposal.sources[n] if proposal.sources else proposal.source,
            raw_confidence=proposal.raw_confidences[n] if proposal.raw_confidences else None,
        )
        for n, token in enumerate(proposal.tokens)
    )


def _chance(probability: float | None) -> float | None:
    """A sum of shares may come out above 1 by rounding; a trace holds chances only."""
    return None if probability is None else min(1.0, probability)


def _tokens(run: Run, outcome: Outcome, accepted: int) -> tuple[Token, ...]:
    seen = _target_view(outcome)
    tokens = []
    for place, token in enumerate(outcome.committed):
        node = outcome.path[place] if place < accepted else None
        probability, margin = seen[place]
        tokens.append(
            Token(
                token=token,
                text=run.text.push(token),
                fate="accepted" if node is not None else outcome.last_fate,
                target_probability=probability,
                draft_probability=None
                if node is None
                else _chance(outcome.proposal.probabilities[node]),
                confidence=outcome.confidences[node]
                if node is not None and outcome.confidences
                else None,
                margin=margin,
            )
        )
    return tuple(tokens)


def _target_view(outcome: Outcome) -> list[tuple[float | None, float | None]]:
    """Probability and margin the target gave each committed token, where it was asked."""
    asked = [(i, row) for i, row in enumerate(outcome.target_rows) if row is not None]
    view: list[tuple[float | None, float | None]] = [(None, None)] * len(outcome.committed)
    if outcome.logits is None or not asked:
        return view
    logits = outcome.logits[[row for _, row in asked]]
    chosen = torch.tensor([outcome.committed[i] for i, _ in asked], device=logits.device)
    p = logits.softmax(dim=-1).gather(-1, chosen[:, None])[:, 0].tolist()
    top = logits.topk(min(2, logits.shape[-1]), dim=-1).values
    margins = (top[:, 0] - top[:, -1]).tolist()
    for (i, _), probability, margin in zip(asked, p, margins, strict=True):
        view[i] = (finite(probability), finite(margin))
    return view
