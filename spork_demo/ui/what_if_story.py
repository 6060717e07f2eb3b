"""What a round would have come to, in sentences: what would be kept, why, and what stays open."""

from spork_demo.charts.figure import counted, milliseconds, number, paragraph, probability
from spork_demo.charts.judged import fork_text
from spork_demo.language import say
from spork_demo.trace import Round, Token, Trace
from spork_demo.ui.quotes import named, quoted
from spork_demo.what_if import (
    Supposed,
    fallen,
    recorded,
    recorded_is_judged,
    with_length,
    with_score_limit,
    with_thresholds,
)


def score_story(trace: Trace, place: int, limit: float) -> str:
    """A round of scored forks had τ been `limit`."""
    round_ = trace.rounds[place]
    told = with_score_limit(trace, place, limit)
    best = max(round_.scores, key=lambda score: score.score)
    numbers = {
        "limit": number(limit),
        "fork": quoted(fork_text(round_, best.leaf)),
        "score": number(best.score, 3),
    }
    if told.kept:
        verdict = say(
            "The best fork, {fork}, scores {score}, at least τ {limit}: it is kept whole.",
            **numbers,
        )
        return paragraph([verdict, _compared(round_, told)])
    verdict = say(
        "The best fork, {fork}, scores {score}, below τ {limit}: no fork is kept.", **numbers
    )
    if told.own is None:
        own = say("The target's top-1 token follows; the trace does not tell which it is.")
    else:
        own = say("The target's top-1 token, {token}, is taken instead.", token=named(told.own))
    return paragraph([verdict, own, _compared(round_, told)])


def thresholds_story(trace: Trace, place: int, low: float, high: float) -> str:
    """A round of article DSpark had the thresholds run from `high` down to `low`."""
    round_ = trace.rounds[place]
    told = with_thresholds(trace, place, low, high)
    sent = round_.nodes[: round_.scheduled]
    limits = [fallen(node.confidence, low, high) for node in sent]
    parts = [_kept(told, len(sent))]
    if told.refused is not None:
        parts.append(_refused(trace, round_, told.refused, limits[told.refused]))
    if told.open is not None:
        parts.append(_open(round_, told, limits[told.open]))
    return paragraph([*parts, _own(told), _compared(round_, told)])


def length_story(trace: Trace, place: int, length: int) -> str:
    """A chain had its first `length` drafts been sent to the target."""
    round_ = trace.rounds[place]
    told = with_length(trace, place, length)
    parts = [_kept(told, length) if length else say("With no draft sent, the round is greedy.")]
    if told.refused is not None:
        parts.append(say("The target refuses {token}.", token=named(round_.nodes[told.refused])))
    if told.open is not None:
        parts.append(
            say(
                "Draft {number}, {token}, was never judged, so the trace does not tell whether it "
                "is kept.",
                number=told.open + 1,
                token=named(round_.nodes[told.open]),
            )
        )
    unjudged = length > round_.scheduled and max(told.kept, default=-1) + 1 >= round_.scheduled
    if unjudged and told.open is None:
        parts.append(
            say(
                "Drafts after number {sent} were not sent; the text that followed tells what the "
                "target says there.",
                sent=round_.scheduled,
            )
        )
    return paragraph([*parts, _own(told), _compared(round_, told), _worth(round_, told, length)])


def _kept(told: Supposed, sent: int) -> str:
    count = len(told.kept)
    if count == sent and told.open is None:
        return say("Every draft is kept.") if sent > 1 else say("The draft is kept.")
    if not count:
        return say("No draft is kept.") if told.open is None else say("No draft is kept for sure.")
    if told.open is not None:
        return say("{drafts} kept for sure.", drafts=counted(count, "draft"))
    return say("{drafts} kept.", drafts=counted(count, "draft"))


def _refused(trace: Trace, round_: Round, place: int, limit: float) -> str:
    """Why a draft does not pass, as far as the recorded numbers tell."""
    node = round_.nodes[place]
    told = {
        "token": named(node),
        "limit": number(limit, 3),
        "p": probability(node.target_probability),
    }
    if trace.settings.greedy:
        if limit >= 1:
            return say("{token} needs more than {limit}, which no probability is.", **told)
        return say("{token} is not the target's most probable token: no threshold helps.", **told)
    if not recorded_is_judged(trace.settings) or node.target_probability is None:
        return say("{token} does not pass its threshold {limit}.", **told)
    if node.target_probability <= limit:
        return say("{token} has p {p}, not above its threshold {limit}.", **told)
    return say("{token} passes its threshold {limit}, but its recorded draw fails.", **told)


def _open(round_: Round, told: Supposed, limit: float) -> str:
    token, shown = named(round_.nodes[told.open]), number(limit, 3)
    if told.chance is None:
        return say(
            "Whether {token} passes its threshold {limit} the trace does not tell.",
            token=token,
            limit=shown,
        )
    return say(
        "{token} passes its threshold {limit}; the draw that decides was never made. It is kept "
        "with probability {p}, and what follows is open.",
        token=token,
        limit=shown,
        p=probability(told.chance),
    )


def _own(told: Supposed) -> str:
    if told.fate is None:
        return ""
    if told.own is None:
        return say("The target's own token is drawn anew, so the trace does not tell which it is.")
    if told.fate == "bonus":
        return say("The target adds {token} (bonus).", token=named(told.own))
    return say("The target writes {token} instead (correction).", token=named(told.own))


def _compared(round_: Round, told: Supposed) -> str:
    """Against the recorded verdict."""
    was = recorded(round_)
    if told.committed is None:
        return say(
            "How many tokens the round commits is open; it did commit {recorded}.",
            recorded=counted(len(round_.committed), "token"),
        )
    if told.kept == was.kept and _id(told.own) == _id(was.own):
        return say("This is the recorded verdict.")
    if told.committed == was.committed:
        return say(
            "That is {tokens}, as many as recorded.", tokens=counted(told.committed, "token")
        )
    return say(
        "That is {tokens}; the recorded round has {recorded}.",
        tokens=counted(told.committed, "token"),
        recorded=counted(was.committed, "token"),
    )


def _id(token: Token | None) -> int | None:
    return None if token is None else token.token


def _worth(round_: Round, told: Supposed, length: int) -> str:
    """The speed of such a round by the measured costs the scheduler had, with hindsight."""
    why = round_.scheduling
    if why is None or length >= len(why.call_seconds) or told.committed is None:
        return ""
    seconds = (why.draft_seconds or 0.0) + why.call_seconds[length]
    if not seconds:
        return ""
    return say(
        "By the costs measured on that machine it takes {span}: {rate} tokens/s with hindsight, "
        "where {expected} were expected.",
        span=milliseconds(seconds),
        rate=number(told.committed / seconds, 1),
        expected=number((1 + sum(why.survivals[:length])) / seconds, 1),
    )
