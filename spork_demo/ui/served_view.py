"""What the page says of a lane that another server decodes: who, how close, what was counted.

Only the stream is seen from here. Its speed is another engine's, often another machine's, so it
stands beside the others' and is no speedup of a method.
"""

from spork_demo.charts.figure import counted, listed, milliseconds, paragraph
from spork_demo.language import say
from spork_demo.trace import Race, Round, Trace
from spork_demo.trace_served import Served
from spork_demo.ui.quotes import quoted

UNSEEN = "◦"
"""A token that came together with others and whose own letters are not known."""


def server_words(lane: Trace, facts: Served) -> str:
    """The server's name, its model and what its deployer says of it."""
    parts = (facts.server, facts.model, lane.provenance.device)
    return listed(dict.fromkeys(part for part in parts if part))


def beside(facts: Served) -> str:
    """What a ratio to the greedy lane would mean, under the cell that holds it."""
    if facts.comparable:
        return say("of the greedy lane; same target and device, another engine")
    return say("not the same backend")


def served_verdict(race: Race, lane: Trace) -> tuple[str, str]:
    """The exactness badge of a served lane: its kind, and what it says."""
    found, baseline = lane.fidelity, race.baseline
    if lane.stop_reason is None:
        return "pending", say("another engine; its text is compared at the end")
    if found is None or baseline is None:
        return "unknown", say("another engine; not comparable")
    if not (lane.settings.greedy and baseline.settings.greedy):
        return "sampled", say("another engine, sampled: not the same text")
    if found.first_difference is None:
        return "same", say("another engine; same text as greedy")
    return "differs", say(
        "another engine: differs at character {place}: {ours} instead of {theirs}",
        place=found.first_difference + 1,
        ours=quoted(found.ours),
        theirs=quoted(found.theirs),
    )


def served_note(facts: Served) -> str:
    """How tokens and acceptance were counted, where that is not beyond doubt."""
    sentences = []
    if facts.counted == "total":
        sentences.append(say("The server told its number of tokens only at the end."))
    elif facts.counted == "pieces" and facts.tokens is None:
        sentences.append(say("The server does not count tokens: these are pieces of text."))
    if facts.alone is False:
        sentences.append(
            say("Its acceptance is left out: the server wrote other texts at the same time.")
        )
    elif facts.counters and facts.alone is None:
        sentences.append(say("Acceptance is the server's own count, other texts included."))
    return paragraph(sentences)


def served_story(trace: Trace, round_: Round) -> str:
    """One arrival of a served lane in sentences."""
    tokens = counted(len(round_.committed), "token")
    text = quoted("".join(token.text for token in round_.committed).replace(UNSEEN, ""))
    unseen = say("How they were drafted and judged does not show from outside.")
    if round_.index == 0:
        told = say(
            "The first to arrive, {span} after the request was sent: {tokens}, {text}.",
            span=milliseconds(trace.prefill_seconds),
            tokens=tokens,
            text=text,
        )
    else:
        told = say(
            "{tokens} arrived together, {text}, {span} after those before.",
            tokens=tokens,
            text=text,
            span=milliseconds(round_.seconds),
        )
    return paragraph([told, unseen])
