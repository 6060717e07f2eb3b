"""One round told in plain sentences, from the numbers its trace recorded and nothing else."""

from collections import Counter

from spork_demo.charts.figure import (
    counted,
    listed,
    milliseconds,
    paragraph,
)
from spork_demo.charts.palette import source_name
from spork_demo.charts.rounds import greedy_seconds
from spork_demo.charts.tree_words import added, sources
from spork_demo.language import later, say
from spork_demo.settings import Settings
from spork_demo.trace import Change, Round, Trace
from spork_demo.ui.judged_story import judged_sentence
from spork_demo.ui.quotes import joined, probable, written
from spork_demo.ui.served_view import served_story

NO_ROUND = later("There is no such round in this lane.")
PROPOSERS = {
    "target": later("The target itself"),
    "early_exit": later("The target's first {layers} layers"),
    "draft_model": later("The draft model"),
    "ngram": later("The n-gram drafter"),
    "recycle": later("Token recycling"),
    "dspark": later("The DSpark drafter"),
    "merged": later("All drafters together"),
    "table": later("The table of text the target wrote earlier"),
    "context": later("The counts over this text"),
    "recycled": later("Token recycling"),
}
CAUSES = {
    "misses": later("Too many of the last rounds kept no draft"),
    "streak": later("The last rounds kept a fork whole"),
    "memory": later("Memory did not suffice, and the round was done again with less"),
}


def verdict(trace: Trace, round_index: int, baseline: Trace | None = None) -> str:
    """What was proposed, how it was judged, what was kept and why, and what it cost."""
    if not 0 <= round_index < len(trace.rounds):
        return say(NO_ROUND)
    round_ = trace.rounds[round_index]
    if trace.served is not None:
        return served_story(trace, round_)
    if not round_.nodes:
        sentences = [_nothing_drafted(trace, round_)]
    else:
        sentences = [_proposed(trace.settings, round_), judged_sentence(trace, round_)]
    if round_.change:
        sentences.append(change_sentence(trace.settings, round_.change))
    return paragraph([*sentences, cost_sentence(trace, round_index, baseline)])


def cost_sentence(trace: Trace, round_index: int, baseline: Trace | None = None) -> str:
    """The round's seconds against the greedy lane's for as many tokens."""
    if not 0 <= round_index < len(trace.rounds):
        return say(NO_ROUND)
    round_ = trace.rounds[round_index]
    count = len(round_.committed)
    told = {
        "tokens": counted(count, "token"),
        "span": milliseconds(round_.seconds),
        "calls": counted(round_.target_calls, "target call"),
    }
    for_as_many = (greedy_seconds(baseline) or 0.0) * count
    if baseline is trace or not round_.seconds or not for_as_many:
        return say("It committed {tokens} in {span} with {calls}.", **told)
    gain = for_as_many / round_.seconds
    told |= {"price": milliseconds(for_as_many), "gain": f"{gain:.2f}"}
    if gain >= 1:
        return say(
            "It committed {tokens} in {span} with {calls}; the greedy lane pays {price} for as "
            "many: {gain}× as fast.",
            **told,
        )
    return say(
        "It committed {tokens} in {span} with {calls}; the greedy lane pays {price} for as many: "
        "slower, {gain}× its speed.",
        **told,
    )


def change_sentence(settings: Settings, change: Change) -> str:
    """Why rounds draft less, or more, from this one on."""
    cause = say(CAUSES[change.cause])
    if not change.depth:
        return say("{cause}: from here on rounds draft nothing.", cause=cause)
    told = {"cause": cause, "tokens": counted(change.depth, "token")}
    if settings.method == "spork":
        forks = counted(change.width, "fork")
        return say(
            "{cause}: from here on rounds draft at most {forks} of {tokens}.", **told, forks=forks
        )
    return say("{cause}: from here on rounds draft at most {tokens}.", **told)


def _proposer(settings: Settings, round_: Round) -> str:
    """Who drafted: the drafter of the lane, else the source of what was drafted."""
    who = settings.drafter if settings.drafter in PROPOSERS else "".join(sources(round_)[:1])
    told = PROPOSERS[who] if who in PROPOSERS else later("The drafter")
    return say(told, layers=settings.verifier_layers)


def _nothing_drafted(trace: Trace, round_: Round) -> str:
    settings, own = trace.settings, added(round_)
    token = probable(written(trace, round_), own[-1]) if own else ""
    if settings.method != "greedy":
        who = _proposer(settings, round_)
        if not own:
            return say(
                "{who} had nothing to propose, so one plain target call gave nothing.", who=who
            )
        return say(
            "{who} had nothing to propose, so one plain target call gave {token}.",
            who=who,
            token=token,
        )
    if not own:
        return say("One target call gave nothing; nothing was drafted.")
    if settings.greedy:
        return say("One target call gave {token}; nothing was drafted.", token=token)
    return say(
        "One target call gave {token}, drawn at temperature {temperature}; nothing was drafted.",
        token=token,
        temperature=f"{settings.temperature:g}",
    )


def _proposed(settings: Settings, round_: Round) -> str:
    nodes = round_.nodes
    leaves = len(nodes) - len({node.parent for node in nodes} - {-1})
    if leaves == 1:
        tokens = counted(len(nodes), "token")
        what = say("a chain of {tokens}, {quote}", tokens=tokens, quote=joined(nodes))
    else:
        what = say("{forks} forks, {tokens} tokens in all", forks=leaves, tokens=len(nodes))
    if origins := _origins(round_):
        what = say("{what}: {origins}", what=what, origins=origins)
    who = _proposer(settings, round_)
    if round_.scheduled == len(nodes):
        return say("{who} proposed {what}.", who=who, what=what)
    return say(
        "{who} proposed {what}; {sent} were sent to be judged and {cut} cut.",
        who=who,
        what=what,
        sent=round_.scheduled,
        cut=len(nodes) - round_.scheduled,
    )


def _origins(round_: Round) -> str:
    """How many tokens came from where, once there is more than one origin."""
    counts = Counter(node.source for node in round_.nodes if node.source)
    if len(counts) < 2:
        return ""
    return listed(
        say("{count} from {source}", count=count, source=source_name(source))
        for source, count in counts.most_common()
    )
