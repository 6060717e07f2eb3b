"""The story of one token of a round, told when it is clicked."""

from spork_demo.charts.figure import number, probability
from spork_demo.charts.tree_words import added
from spork_demo.settings import Settings
from spork_demo.trace import ForkScore, Node, Round, Token, Trace
from spork_demo.ui import words
from spork_demo.ui.explain import NO_ROUND, named, refusal, refused_nodes, with_probability


def node_story(trace: Trace, round_index: int, node_index: int) -> str:
    """What happened to one clicked token: a drafted node, the target's own token or the anchor."""
    if not 0 <= round_index < len(trace.rounds):
        return NO_ROUND
    round_ = trace.rounds[round_index]
    own = added(round_)
    if 0 <= node_index < len(round_.nodes):
        return _drafted_story(trace.settings, round_, node_index)
    if 0 <= node_index - len(round_.nodes) < len(own):
        return _own_story(round_, own[node_index - len(round_.nodes)])
    return (
        "The anchor: the last committed token. It is not yet in the target's cache and is fed "
        "first in the next target call."
    )


def _drafted_story(settings: Settings, round_: Round, index: int) -> str:
    node = round_.nodes[index]
    depth = _depth(round_, index)
    text = f"{named(node)}, drafted token {depth} of its fork"
    if node.source:
        text += f", {words.SOURCES.get(node.source, node.source)}"
    parts = [
        f"{name} {probability(value)}"
        for name, value in (
            ("draft probability", node.draft_probability),
            ("target probability", node.target_probability),
            ("confidence", node.confidence),
            ("threshold", node.threshold),
        )
        if value is not None
    ]
    text += f" ({', '.join(parts)}). " if parts else ". "
    score = next((score for score in round_.scores if score.leaf == index), None)
    return text + _fate_story(settings, round_, node, score)


def _depth(round_: Round, index: int) -> int:
    depth = 0
    while 0 <= index < len(round_.nodes) and depth <= len(round_.nodes):
        depth += 1
        index = round_.nodes[index].parent
    return depth


def _fate_story(settings: Settings, round_: Round, node: Node, score: ForkScore | None) -> str:
    if node.fate == "cut":
        return "Cut: it was drafted but not sent to be judged."
    if round_.scores:
        return _scored_story(round_, node, score)
    if node.fate == "accepted":
        return "Accepted: the target kept it and every token before it."
    if node in refused_nodes(round_):
        own = added(round_)
        instead = f" and wrote {named(own[-1])} instead" if own else ""
        return f"Rejected: the target did not take it{refusal(settings, node)}{instead}."
    return _passed_by(round_, node)


def _passed_by(round_: Round, node: Node) -> str:
    """A token that was left behind because the kept path had already turned away from it."""
    chosen = [kept for kept in round_.nodes if kept.fate == "accepted"]
    beside = next((kept for kept in chosen if kept.parent == node.parent), None)
    if beside:
        return f"Rejected: the target went on with {named(beside)} at this place."
    return "Rejected: a token before it in its fork was not kept, so it could not be either."


def _scored_story(round_: Round, node: Node, score: ForkScore | None) -> str:
    limit = number(round_.accept_threshold)
    if node.fate == "accepted":
        return "Accepted: its fork had the best score and reached τ, so it was kept whole."
    if score is None:
        return f"Rejected: no fork through it both had the best score and reached τ {limit}."
    reached = round_.accept_threshold is not None and score.score >= round_.accept_threshold
    why = "reached τ but another fork scored higher" if reached else f"stayed below τ {limit}"
    return f"Rejected: its fork scored {number(score.score)}, which {why}."


def _own_story(round_: Round, token: Token) -> str:
    start = f"{named(token)}{with_probability(token)}: "
    after = "after the accepted ones" if round_.accepted else "of a round with nothing drafted"
    return start + {
        "plain": "the target's own token, from a call that had nothing drafted to check.",
        "bonus": f"the bonus, the target's own token {after}. It costs no extra call.",
        "correction": "the correction, the target's own token where the drafted ones were refused.",
        "fallback": "the fallback, the target's top-1 token, because no fork reached τ.",
    }.get(token.fate, "a committed token.")
