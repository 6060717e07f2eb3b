"""The story of one token of a round, told when it is clicked."""

from spork_demo.charts.figure import listed, number, paragraph, probability
from spork_demo.charts.tree_words import added
from spork_demo.language import later, say
from spork_demo.settings import Settings
from spork_demo.trace import ForkScore, Node, Round, Token, Trace
from spork_demo.ui import words
from spork_demo.ui.explain import NO_ROUND
from spork_demo.ui.judged_story import refusal, refused_nodes
from spork_demo.ui.quotes import named, with_probability


def node_story(trace: Trace, round_index: int, node_index: int) -> str:
    """What happened to one clicked token: a drafted node, the target's own token or the anchor."""
    if not 0 <= round_index < len(trace.rounds):
        return say(NO_ROUND)
    round_ = trace.rounds[round_index]
    own = added(round_)
    if 0 <= node_index < len(round_.nodes):
        return _drafted_story(trace.settings, round_, node_index)
    if 0 <= node_index - len(round_.nodes) < len(own):
        return _own_story(round_, own[node_index - len(round_.nodes)])
    return say(
        "The anchor: the last committed token. It is not yet in the target's cache and is fed "
        "first in the next target call."
    )


def _drafted_story(settings: Settings, round_: Round, index: int) -> str:
    node = round_.nodes[index]
    score = next((score for score in round_.scores if score.leaf == index), None)
    return paragraph([_who(round_, index), _fate_story(settings, round_, node, score)])


def _who(round_: Round, index: int) -> str:
    """The token's place in its fork, its origin and its numbers, as far as they are known."""
    node = round_.nodes[index]
    numbers = listed(
        say("{name} {value}", name=name, value=probability(value))
        for name, value in (
            (say("draft probability"), node.draft_probability),
            (say("target probability"), node.target_probability),
            (say("confidence"), node.confidence),
            (say("threshold"), node.threshold),
        )
        if value is not None
    )
    told = {"token": named(node), "depth": _depth(round_, index)}
    if node.source:
        known = node.source in words.SOURCES
        told["source"] = say(words.SOURCES[node.source]) if known else node.source
    if numbers:
        told["numbers"] = numbers
    whole = {
        (False, False): later("{token}, drafted token {depth} of its fork."),
        (False, True): later("{token}, drafted token {depth} of its fork ({numbers})."),
        (True, False): later("{token}, drafted token {depth} of its fork, {source}."),
        (True, True): later("{token}, drafted token {depth} of its fork, {source} ({numbers})."),
    }[bool(node.source), bool(numbers)]
    return say(whole, **told)


def _depth(round_: Round, index: int) -> int:
    depth = 0
    while 0 <= index < len(round_.nodes) and depth <= len(round_.nodes):
        depth += 1
        index = round_.nodes[index].parent
    return depth


def _fate_story(settings: Settings, round_: Round, node: Node, score: ForkScore | None) -> str:
    if node.fate == "cut":
        return say("Cut: it was drafted but not sent to be judged.")
    if round_.scores:
        return _scored_story(round_, node, score)
    if node.fate == "accepted":
        return say("Accepted: the target kept it and every token before it.")
    if node in refused_nodes(round_):
        return _refused_story(settings, round_, node)
    return _passed_by(round_, node)


def _refused_story(settings: Settings, round_: Round, node: Node) -> str:
    own, why = added(round_), refusal(settings, node)
    told = {"why": why} if why else {}
    if own:
        told["token"] = named(own[-1])
    whole = {
        (False, False): later("Rejected: the target did not take it."),
        (False, True): later("Rejected: the target did not take it and wrote {token} instead."),
        (True, False): later("Rejected: the target did not take it {why}."),
        (True, True): later(
            "Rejected: the target did not take it {why} and wrote {token} instead."
        ),
    }[bool(why), bool(own)]
    return say(whole, **told)


def _passed_by(round_: Round, node: Node) -> str:
    """A token that was left behind because the kept path had already turned away from it."""
    chosen = [kept for kept in round_.nodes if kept.fate == "accepted"]
    beside = next((kept for kept in chosen if kept.parent == node.parent), None)
    if beside:
        return say("Rejected: the target went on with {token} at this place.", token=named(beside))
    return say("Rejected: a token before it in its fork was not kept, so it could not be either.")


def _scored_story(round_: Round, node: Node, score: ForkScore | None) -> str:
    limit = number(round_.accept_threshold)
    if node.fate == "accepted":
        return say("Accepted: its fork had the best score and reached τ, so it was kept whole.")
    if score is None:
        return say(
            "Rejected: no fork through it both had the best score and reached τ {limit}.",
            limit=limit,
        )
    if round_.accept_threshold is not None and score.score >= round_.accept_threshold:
        return say(
            "Rejected: its fork scored {score}, which reached τ but another fork scored higher.",
            score=number(score.score),
        )
    return say(
        "Rejected: its fork scored {score}, which stayed below τ {limit}.",
        score=number(score.score),
        limit=limit,
    )


def _own_story(round_: Round, token: Token) -> str:
    bonus = later(
        "{token}: the bonus, the target's own token after the accepted ones. It costs no extra "
        "call."
    )
    if not round_.accepted:
        bonus = later(
            "{token}: the bonus, the target's own token of a round with nothing drafted. It costs "
            "no extra call."
        )
    told = {
        "plain": later(
            "{token}: the target's own token, from a call that had nothing drafted to check."
        ),
        "bonus": bonus,
        "correction": later(
            "{token}: the correction, the target's own token where the drafted ones were refused."
        ),
        "fallback": later(
            "{token}: the fallback, the target's top-1 token, because no fork reached τ."
        ),
    }
    whole = told.get(token.fate, later("{token}: a committed token."))
    return say(whole, token=with_probability(token))
