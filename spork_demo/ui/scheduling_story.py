"""Why a round sent as many drafts as it did, in sentences and with its own numbers."""

from itertools import pairwise

from spork_demo.charts.figure import counted, milliseconds, number, paragraph
from spork_demo.language import later, say
from spork_demo.trace import Round

SENT_FULL = later(
    "The rule is to send the whole block: all {drafts}, though the last, draft {last}, is expected "
    "to survive with probability {survival} only."
)
SENT_ALL_ABOVE = later(
    "The rule is to stop before the first draft below c. There was none: the lowest confidence of "
    "the {drafts}, {lowest}, reaches c {limit}, so all were sent."
)
SENT_UP_TO = later(
    "The rule is to stop before the first draft below c. Draft {first} has confidence "
    "{confidence}, below c {limit}, so {cut}."
)
EXPECTED = later(
    "Sending {drafts} is expected to commit {total} in {draft} of drafting and {call} of "
    "target call, as measured on the machine of this run: Θ = {rate} tokens/s."
)
NOTHING_REFUSED = later(
    "Every further draft raised Θ, from {rate} with none sent, so all were sent."
)
NOTHING_REFUSED_STEPS = later(
    "Not every draft raised Θ by itself, but each brought a higher one in reach, from {rate} with "
    "none sent, so all were sent."
)
NO_CHANCE = later("Draft {first} has no chance of surviving, so the search ended there.")
REFUSED = later(
    "Draft {first}, expected to survive with probability {survival}, would change Θ to {rate}, no "
    "more than {chosen}, so {cut}."
)
REFUSED_STAIR = later(
    "Draft {first}, expected to survive with probability {survival}, would change Θ to {rate}; "
    "even if the drafts behind it, which cost hardly more, were accepted as often as it, at most "
    "{hope} is in reach, no more than {chosen}, so {cut}."
)
WAS_CUT = later("it was cut")
WERE_CUT = later("it and all behind it, {count} in all, were cut")


def scheduling_story(round_: Round) -> str:
    """The decision of a round's scheduler; empty where none decided."""
    if round_.scheduling is None or not round_.nodes:
        return ""
    tell = {"full": _full, "threshold": _threshold, "hardware": _hardware}
    return tell[round_.scheduling.rule](round_)


def _full(round_: Round) -> str:
    last = round_.scheduling.survivals[-1]
    return say(
        SENT_FULL,
        drafts=counted(len(round_.nodes), "draft"),
        survival=number(last),
        last=len(round_.nodes),
    )


def _threshold(round_: Round) -> str:
    limit, sent = number(round_.scheduling.threshold), round_.scheduled
    confidences = [node.confidence or 0.0 for node in round_.nodes]
    if sent == len(round_.nodes):
        return say(
            SENT_ALL_ABOVE,
            drafts=counted(sent, "draft"),
            lowest=number(min(confidences)),
            limit=limit,
        )
    return say(
        SENT_UP_TO,
        first=sent + 1,
        confidence=number(confidences[sent]),
        limit=limit,
        cut=_cut(round_),
    )


def _hardware(round_: Round) -> str:
    why, sent = round_.scheduling, round_.scheduled
    chances = why.survivals[:sent]
    call = why.call_seconds[sent]
    terms = " + ".join(["1", *(number(chance) for chance in chances)])
    total = say("{total} token", total=terms)
    if chances:
        total = say("{total} tokens", total=f"{terms} = {number(1 + sum(chances))}")
    expected = say(
        EXPECTED,
        drafts=counted(sent, "draft") if sent else say("no draft"),
        total=total,
        draft=milliseconds(why.draft_seconds),
        call=milliseconds(call),
        rate=number(why.throughputs[sent], 1),
    )
    return paragraph([expected, _stop(round_)])


def _stop(round_: Round) -> str:
    """What ended the search for a longer prefix."""
    why, sent = round_.scheduling, round_.scheduled
    if len(why.throughputs) == sent + 1:
        if sent == len(round_.nodes):
            rose = all(a < b for a, b in pairwise(why.throughputs))
            told = NOTHING_REFUSED if rose else NOTHING_REFUSED_STEPS
            return say(told, rate=number(why.throughputs[0], 1))
        return say(NO_CHANCE, first=sent + 1)
    hope = why.hopes[sent]
    told = {
        "first": sent + 1,
        "survival": number(why.survivals[sent]),
        "rate": number(why.throughputs[sent + 1], 1),
        "hope": number(hope, 1),
        "chosen": number(why.throughputs[sent], 1),
        "cut": _cut(round_),
    }
    stairs = hope > why.throughputs[sent + 1]
    return say(REFUSED_STAIR if stairs else REFUSED, **told)


def _cut(round_: Round) -> str:
    cut = len(round_.nodes) - round_.scheduled
    return say(WAS_CUT) if cut == 1 else say(WERE_CUT, count=cut)
