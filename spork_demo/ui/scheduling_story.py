"""Why a round sent as many drafts as it did, in sentences and with its own numbers."""

from itertools import pairwise

from spork_demo.charts.figure import counted, milliseconds, number
from spork_demo.trace import Round
from spork_demo.ui import words


def scheduling_story(round_: Round) -> str:
    """The decision of a round's scheduler; empty where none decided."""
    if round_.scheduling is None or not round_.nodes:
        return ""
    tell = {"full": _full, "threshold": _threshold, "hardware": _hardware}
    return tell[round_.scheduling.rule](round_)


def _full(round_: Round) -> str:
    last = round_.scheduling.survivals[-1]
    return words.SENT_FULL.format(
        drafts=counted(len(round_.nodes), "draft"), survival=number(last), last=len(round_.nodes)
    )


def _threshold(round_: Round) -> str:
    limit, sent = number(round_.scheduling.threshold), round_.scheduled
    confidences = [node.confidence or 0.0 for node in round_.nodes]
    if sent == len(round_.nodes):
        return words.SENT_ALL_ABOVE.format(
            drafts=counted(sent, "draft"), lowest=number(min(confidences)), limit=limit
        )
    return words.SENT_UP_TO.format(
        first=sent + 1,
        confidence=number(confidences[sent]),
        limit=limit,
        cut=_cut(round_),
    )


def _hardware(round_: Round) -> str:
    why, sent = round_.scheduling, round_.scheduled
    chances = why.survivals[:sent]
    call = why.call_seconds[sent]
    expected = words.EXPECTED.format(
        drafts=counted(sent, "draft") if sent else "no draft",
        total=" + ".join(["1", *(number(chance) for chance in chances)])
        + (f" = {number(1 + sum(chances))}" if chances else ""),
        tokens="token" if not chances else "tokens",
        draft=milliseconds(why.draft_seconds),
        call=milliseconds(call),
        seconds=milliseconds(why.draft_seconds + call),
        rate=number(why.throughputs[sent], 1),
    )
    return f"{expected} {_stop(round_)}"


def _stop(round_: Round) -> str:
    """What ended the search for a longer prefix."""
    why, sent = round_.scheduling, round_.scheduled
    if len(why.throughputs) == sent + 1:
        if sent == len(round_.nodes):
            rose = all(a < b for a, b in pairwise(why.throughputs))
            told = words.NOTHING_REFUSED if rose else words.NOTHING_REFUSED_STEPS
            return told.format(rate=number(why.throughputs[0], 1))
        return words.NO_CHANCE.format(first=sent + 1)
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
    return (words.REFUSED_STAIR if stairs else words.REFUSED).format(**told)


def _cut(round_: Round) -> str:
    cut = len(round_.nodes) - round_.scheduled
    return words.WAS_CUT if cut == 1 else words.WERE_CUT.format(count=cut)
