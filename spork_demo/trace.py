"""The recorded events of one run: the narrow waist between decoding and drawing.

Numbers, strings and tuples only. Counts are recorded here; every ratio is computed in `metrics`.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from typing import Literal

from spork_demo.settings import Settings
from spork_demo.trace_served import Served

VERSION = 1
"""Raised whenever the meaning of a recorded field changes."""

Fate = Literal["plain", "accepted", "bonus", "correction", "fallback", "served"]
DraftFate = Literal["accepted", "rejected", "cut"]
StopReason = Literal["eos", "length", "context", "stopped", "failed"]


@dataclass(frozen=True, slots=True)
class Node:
    """One drafted token of a round's proposal tree.

    parent: index among the round's nodes; -1 hangs from the anchor.
    draft_probability: the drafter's probability of the token given its parent, if it has one.
    target_probability: the target's (temperature 1, no filter); None where it was not asked.
    confidence: the drafter's own estimate that the token will be accepted.
    raw_confidence: the same before temperature scaling, where there was any.
    threshold: the probability the token had to exceed (article DSpark).
    source: where the token came from: `target`, `early_exit`, `draft_model`, `dspark`, `table`
        (text the target wrote before), `context` (this text) or `recycled` (what the target
        thought likely after this token before). Of a mixture, the part that spoke loudest.
    """

    token: int
    text: str
    parent: int
    fate: DraftFate
    draft_probability: float | None = None
    target_probability: float | None = None
    confidence: float | None = None
    threshold: float | None = None
    source: str = ""
    raw_confidence: float | None = None


@dataclass(frozen=True, slots=True)
class Token:
    """One committed token. `text` is what it completes on screen, "" while bytes are missing.

    margin: the target's top-1 minus top-2 logit at this place; None where it was not asked.
    """

    token: int
    text: str
    fate: Fate
    target_probability: float | None = None
    draft_probability: float | None = None
    confidence: float | None = None
    margin: float | None = None


@dataclass(frozen=True, slots=True)
class ForkScore:
    """A score judge's verdict on one fork, named by its last node."""

    leaf: int
    score: float


@dataclass(frozen=True, slots=True)
class Scheduling:
    """Why as many drafted tokens were sent to be judged as were.

    rule: `full`, `threshold` or `hardware`. survivals[k]: the drafter's estimate that its drafts
        up to k + 1 are all accepted, cut ones included.
    threshold: the confidence a draft needed (`threshold`).
    throughputs[n]: expected tokens per second with n drafts sent, up to and with the first that
        was refused; hopes[k]: the best throughput in reach by sending draft k + 1, which had to
        exceed throughputs[k] (`hardware`).
    call_seconds[n]: measured seconds of a target call on n + 1 rows; draft_seconds: of drafting a
        block, spent whatever is sent (`hardware`).
    """

    rule: str
    survivals: tuple[float, ...] = ()
    threshold: float | None = None
    throughputs: tuple[float, ...] = ()
    hopes: tuple[float, ...] = ()
    call_seconds: tuple[float, ...] = ()
    draft_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """What rounds draft at most from here on: forks, and tokens a fork.

    cause: `misses` (too many rounds kept no draft), `streak` (several kept a fork whole) or
        `memory` (this round did not fit and was tried again).
    """

    cause: Literal["misses", "streak", "memory"]
    width: int
    depth: int


@dataclass(frozen=True, slots=True)
class Round:
    """Draft, judge, commit, once.

    scheduled: drafted tokens sent to be judged; they come first in `nodes`, and what comes after
        them was cut. accepted: drafted tokens kept, the target's own
        token not counted. cache_rows: rows the target's cache held for this round's anchor and
        forks before the commit. Seconds are the lane's own stopwatch, device synchronised;
        `seconds` is the whole round, the phases are parts of it.
    """

    index: int
    nodes: tuple[Node, ...]
    committed: tuple[Token, ...]
    scheduled: int
    accepted: int
    target_calls: int
    draft_calls: int
    cache_rows: int
    seconds: float
    draft_seconds: float
    judge_seconds: float
    commit_seconds: float
    scores: tuple[ForkScore, ...] = ()
    accept_threshold: float | None = None
    scheduling: Scheduling | None = None
    change: Change | None = None


@dataclass(frozen=True, slots=True)
class Started:
    """The prompt is in the cache, the clock of the first round has not begun."""

    prompt_tokens: int
    prefill_seconds: float


@dataclass(frozen=True, slots=True)
class Finished:
    """The run is over. `message` says why in words where the reason alone does not."""

    stop_reason: StopReason
    tail: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Provenance:
    """What the numbers were measured on. `date` is ISO 8601; `kernels`: compiled (CUDA
    graphs on a GPU), packed or stock.

    noise: how far a logit moved, at most, when the same token was fed alone and among others; 0
        where it cannot move, None where nobody looked.
    """

    app: str = ""
    target: str = ""
    draft: str = ""
    dspark: str = ""
    device: str = ""
    dtype: str = ""
    kernels: str = ""
    threads: int = 0
    torch: str = ""
    transformers: str = ""
    date: str = ""
    noise: float | None = None


@dataclass(frozen=True, slots=True)
class Fidelity:
    """How close a lane's text is to the greedy lane's, computed after the race.

    first_difference: index of the first differing token, None when identical. Of a served lane,
        whose tokens are not known, of the first differing character.
    ours, theirs: the two tokens there, as text. margin: the target's top-1 minus top-2 logit on
        the greedy lane at that place. perplexity: of each text under the target.
    equal_characters: share of places with the same character (served lanes).
    """

    first_difference: int | None = None
    ours: str = ""
    theirs: str = ""
    margin: float | None = None
    equal_tokens: float | None = None
    perplexity: float | None = None
    greedy_perplexity: float | None = None
    rouge_l: float | None = None
    bleu: float | None = None
    equal_characters: float | None = None


Event = Started | Round | Finished | Fidelity | Served


@dataclass(frozen=True, slots=True)
class Trace:
    """One run, whole: enough to replay it without a model."""

    settings: Settings
    prompt: str
    label: str = ""
    prompt_tokens: int = 0
    prefill_seconds: float = 0.0
    rounds: tuple[Round, ...] = ()
    stop_reason: StopReason | None = None
    tail: str = ""
    message: str = ""
    fidelity: Fidelity | None = None
    provenance: Provenance = Provenance()
    served: Served | None = None

    @property
    def tokens(self) -> tuple[Token, ...]:
        return tuple(token for round_ in self.rounds for token in round_.committed)

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(token.token for token in self.tokens)

    @property
    def text(self) -> str:
        return "".join(token.text for token in self.tokens) + self.tail

    def add(self, event: Event) -> "Trace":
        """Fold one event in; the trace itself never changes."""
        if isinstance(event, Started):
            return replace(
                self, prompt_tokens=event.prompt_tokens, prefill_seconds=event.prefill_seconds
            )
        if isinstance(event, Round):
            return replace(self, rounds=(*self.rounds, event))
        if isinstance(event, Fidelity):
            return replace(self, fidelity=event)
        if isinstance(event, Served):
            return replace(self, served=event)
        return replace(self, stop_reason=event.stop_reason, tail=event.tail, message=event.message)

    def events(self) -> Iterator[Event]:
        """The events this trace was folded from, in order."""
        yield Started(self.prompt_tokens, self.prefill_seconds)
        yield from self.rounds
        if self.served is not None:
            yield self.served
        if self.stop_reason is not None:
            yield Finished(self.stop_reason, self.tail, self.message)
        if self.fidelity is not None:
            yield self.fidelity


@dataclass(frozen=True, slots=True)
class Race:
    """Lanes that decoded the same prompt side by side. The first greedy lane is the baseline."""

    title: str
    lanes: tuple[Trace, ...]
    recorded: bool = False
    version: int = VERSION

    @property
    def baseline(self) -> Trace | None:
        """The greedy lane every ratio refers to, if the race has one."""
        return next((lane for lane in self.lanes if lane.settings.method == "greedy"), None)

    def __deepcopy__(self, _memo: object) -> "Race":
        return self  # nothing in it ever changes, so every visitor's page can hold the same one


@dataclass(frozen=True, slots=True)
class LaneEvent:
    """An event of one lane of a running race."""

    lane: int
    event: Event


def fold(trace: Trace, events: Iterable[Event]) -> Trace:
    """All of `events` added to `trace`, in order."""
    return reduce(Trace.add, events, trace)


def advance(race: Race, news: LaneEvent) -> Race:
    """`race` with one more event in the lane it belongs to."""
    lanes = list(race.lanes)
    lanes[news.lane] = lanes[news.lane].add(news.event)
    return replace(race, lanes=tuple(lanes))


def finite(value: float | None) -> float | None:
    """`value`, or None where it is not a finite number: a trace holds no NaN."""
    return value if value is not None and math.isfinite(value) else None
