"""What a recorded round would have come to under another threshold or length.

Told from the numbers of its trace alone, by the rules of the decoders. Where these numbers do not
decide, because a draw was never made or a token never judged, the answer says that it is open.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from spork_demo.metrics import kept_path, stopped_inside
from spork_demo.settings import Settings
from spork_demo.trace import Fate, Node, Round, Token, Trace

Question = Literal["score", "thresholds", "length"]

CERTAINLY_BEST = 0.5
"""A token with a larger probability than this is the most probable one, whatever the others."""


@dataclass(frozen=True, slots=True)
class Supposed:
    """What would have followed.

    kept: drafted tokens kept for certain, from the anchor outwards. refused: the one behind them
        that would have been refused. open: the one behind them whose fate the trace does not tell;
        nothing after it is known. chance: how probable it is that the open one is kept, if known.
    fate: how the target's own token behind them comes to be; None where there is none, or where
        that is open. own: that token, where the trace tells which it is.
    """

    kept: tuple[int, ...]
    refused: int | None = None
    open: int | None = None
    chance: float | None = None
    fate: Fate | None = None
    own: Token | None = None

    @property
    def committed(self) -> int | None:
        """Tokens the round would have committed; None where that is open."""
        return None if self.open is not None else len(self.kept) + (self.fate is not None)


def question(trace: Trace, place: int) -> Question | None:
    """Which number decided this round, so that it can be changed; None where none did."""
    round_ = trace.rounds[place]
    if not round_.nodes:
        return None
    if round_.scores:
        return "score"
    if not _is_chain(round_.nodes):
        return None
    sent = round_.nodes[: round_.scheduled]
    if any(node.threshold is not None for node in sent):
        asked = all(node.threshold is not None and node.confidence is not None for node in sent)
        return "thresholds" if asked else None
    return "length" if trace.settings.method in ("speculative", "dspark") else None


def recorded(round_: Round) -> Supposed:
    """The verdict the trace holds, in the same form."""
    own = own_token(round_)
    kept, refused = kept_path(round_.nodes), None
    if own is not None and own.fate == "correction":
        end = kept[-1] if kept else -1
        refused = next((n for n, node in enumerate(round_.nodes) if _refused(node, end)), None)
    return Supposed(kept, refused, fate=own.fate if own else None, own=own)


def own_token(round_: Round) -> Token | None:
    """The token the target added to the kept ones, if it added any."""
    last = round_.committed[-1] if round_.committed else None
    return last if last is not None and last.fate != "accepted" else None


def recorded_is_judged(settings: Settings) -> bool:
    """Whether the recorded probabilities are the judged ones: temperature 1 and no filter."""
    return settings.temperature == 1 and settings.top_p == 1 and settings.top_k == 0


def with_score_limit(trace: Trace, place: int, limit: float) -> Supposed:
    """The verdict on a round of scored forks had τ been `limit`."""
    round_ = trace.rounds[place]
    best = max(round_.scores, key=lambda score: score.score)
    kept = kept_path(round_.nodes)
    if best.score >= limit:
        return Supposed(kept or _cut(trace, place, _path(round_.nodes, best.leaf)))
    own = _top_choice(round_) if kept else own_token(round_)
    return Supposed((), fate="fallback", own=own)


def fallen(confidence: float, low: float, high: float) -> float:
    """Article DSpark's threshold of a draft: it falls from `high` to `low` as confidence grows."""
    return min(high, max(low, high - confidence * (high - low)))


def with_thresholds(trace: Trace, place: int, low: float, high: float) -> Supposed:
    """The verdict on a round of article DSpark had the thresholds run from `high` to `low`."""
    round_ = trace.rounds[place]
    sent = round_.nodes[: round_.scheduled]
    limits = [fallen(node.confidence, low, high) for node in sent]
    for at, limit in enumerate(limits):
        if stopped_inside(round_) and at == round_.accepted:
            return Supposed(tuple(range(at)))
        decided = _decided(trace.settings, round_, at, limit)
        if decided is True:
            continue
        if decided is not False:
            return Supposed(tuple(range(at)), open=at, chance=decided)
        own = _own_after(trace.settings, round_, at, limit)
        return Supposed(tuple(range(at)), refused=at, fate="correction", own=own)
    if stopped_inside(round_):
        return Supposed(tuple(range(len(sent))))
    own = own_token(round_) if round_.accepted == len(sent) else None
    return Supposed(tuple(range(len(sent))), fate="bonus", own=own)


def with_length(trace: Trace, place: int, length: int) -> Supposed:
    """The verdict on a chain had its first `length` drafts been sent to the target."""
    round_ = trace.rounds[place]
    length = max(0, min(length, len(round_.nodes)))
    if round_.accepted < min(length, round_.scheduled) or length == round_.scheduled:
        return recorded(round_)
    if stopped_inside(round_) and length >= round_.accepted:
        return recorded(round_)
    if length > round_.scheduled:
        return _longer(trace, place, length)
    if not trace.settings.greedy:
        return Supposed(tuple(range(length)), fate="bonus")
    own = own_token(round_) if length == round_.accepted else _as_token(round_.nodes[length])
    return Supposed(tuple(range(length)), fate="bonus", own=_as(own, "bonus"))


def supposed_round(round_: Round, supposed: Supposed, **changed: float | tuple) -> Round:
    """`round_` with the fates of `supposed`, for drawing: what is open looks as if cut.

    changed: `accept_threshold`, or `thresholds`, one a node.
    """
    limits = changed.pop("thresholds", ())
    kept, ends = set(supposed.kept), supposed.open
    nodes = []
    for place, node in enumerate(round_.nodes):
        unknown = ends is not None and place >= ends
        fate = "accepted" if place in kept else "cut" if unknown else "rejected"
        limit = limits[place] if place < len(limits) else node.threshold
        nodes.append(replace(node, fate=fate, threshold=limit))
    return replace(round_, nodes=tuple(nodes), **changed)


def _is_chain(nodes: Sequence[Node]) -> bool:
    return all(node.parent == place - 1 for place, node in enumerate(nodes))


def _refused(node: Node, parent: int) -> bool:
    return node.parent == parent and node.fate == "rejected"


def _path(nodes: Sequence[Node], leaf: int) -> tuple[int, ...]:
    found: list[int] = []
    while leaf >= 0:
        found.append(leaf)
        leaf = nodes[leaf].parent
    return tuple(reversed(found))


def _cut(trace: Trace, place: int, path: tuple[int, ...]) -> tuple[int, ...]:
    """`path` as far as the run would have kept it: up to a stop token and to the asked length."""
    before = sum(len(round_.committed) for round_ in trace.rounds[:place])
    path = path[: trace.settings.max_new_tokens - before]
    stop = trace.tokens[-1].token if trace.stop_reason == "eos" else None
    nodes = trace.rounds[place].nodes
    ends = (at for at, node in enumerate(path) if nodes[node].token == stop)
    return path[: next(ends, len(path)) + 1]


def _top_choice(round_: Round) -> Token | None:
    """The target's most probable token of a round that kept a fork, where the trace tells it."""
    first = round_.committed[0]
    if (first.target_probability or 0.0) > CERTAINLY_BEST:
        return _as(first, "fallback")
    roots = [node for node in round_.nodes if node.parent == -1]
    if any(node.source != "target" or node.draft_probability is None for node in roots):
        return None
    best = max(roots, key=lambda node: node.draft_probability)
    return Token(best.token, best.text, "fallback", best.draft_probability)


def _decided(settings: Settings, round_: Round, at: int, limit: float) -> bool | float | None:
    """Whether draft `at` is kept at a threshold; its chance where a draw was never made; None
    where that is open.
    """
    if settings.greedy:
        return _greedy_decision(round_, at, limit)
    return _sampled_decision(round_, at, limit, judged=recorded_is_judged(settings))


def _greedy_decision(round_: Round, at: int, limit: float) -> bool | None:
    """At temperature 0 the judged probability is 1 for the most probable token, else 0."""
    node, own = round_.nodes[at], own_token(round_)
    if at < round_.accepted:
        best = True
    elif at == round_.accepted and own is not None:
        best = node.token == own.token
    elif (node.target_probability or 0.0) > CERTAINLY_BEST:
        best = True
    else:
        return None
    return best and limit < 1


def _sampled_decision(round_: Round, at: int, limit: float, *, judged: bool) -> bool | float | None:
    """A draft is kept when its probability exceeds the threshold and a random number does not."""
    node = round_.nodes[at]
    p = node.target_probability if judged else None
    if at < round_.accepted:
        if limit <= node.threshold:
            return True
        return None if p is None else p > limit
    if at == round_.accepted:
        if limit >= node.threshold:
            return False
        if p is None:
            return None
        return False if p <= limit or p > node.threshold else p
    return p if p is None or p > limit else False


def _own_after(settings: Settings, round_: Round, at: int, limit: float) -> Token | None:
    """The token drawn where draft `at` is refused, where that draw would have been the same."""
    own = own_token(round_)
    if settings.greedy:
        if at == round_.accepted:
            return own
        return _as(_as_token(round_.nodes[at]), "correction") if at < round_.accepted else None
    if at != round_.accepted:
        return None
    node = round_.nodes[at]
    if limit == node.threshold:
        return own
    p = node.target_probability if recorded_is_judged(settings) else None
    drawn_before = p is not None and p > node.threshold
    drawn_now = p is not None and p > limit
    return own if p is not None and drawn_before == drawn_now else None


def _longer(trace: Trace, place: int, length: int) -> Supposed:
    """More drafts than were sent, all of which were kept.

    At temperature 0 the text that follows is what the target says there, and so judges them.
    """
    round_ = trace.rounds[place]
    sent = round_.scheduled
    if not trace.settings.greedy:
        return Supposed(tuple(range(sent)), open=sent)
    later = trace.rounds[place + 1 : place + 1 + length]
    said = [own_token(round_), *(token for next_ in later for token in next_.committed)]
    last = trace.tokens[-1] if trace.stop_reason == "eos" else None
    for at in range(sent, length):
        if at - sent >= len(said):
            return Supposed(tuple(range(at)), open=at)
        token = said[at - sent]
        if token.token != round_.nodes[at].token:
            own = _as(token, "correction")
            return Supposed(tuple(range(at)), refused=at, fate="correction", own=own)
        if token is last:
            return Supposed(tuple(range(at + 1)))
    own = said[length - sent] if length - sent < len(said) else None
    return Supposed(tuple(range(length)), fate="bonus", own=_as(own, "bonus"))


def _as_token(node: Node) -> Token:
    return Token(node.token, node.text, "accepted", node.target_probability)


def _as(token: Token | None, fate: Fate) -> Token | None:
    return None if token is None else replace(token, fate=fate)
