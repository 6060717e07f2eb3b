"""How a round was judged, in sentences: the rule, what was kept, and what the target wrote."""

from collections.abc import Sequence

from spork_demo.charts.figure import clauses, number, probability
from spork_demo.charts.judged import fork_text
from spork_demo.charts.palette import fate_name
from spork_demo.charts.tree_words import added
from spork_demo.language import later, say
from spork_demo.metrics import kept_path
from spork_demo.settings import Settings
from spork_demo.trace import Node, Round, Trace
from spork_demo.ui.quotes import joined, named, quoted, written
from spork_demo.what_if import recorded_is_judged

SCORERS = {
    "early_layers": later("The target's first {layers} layers"),
    "draft_model": later("The draft model"),
    "first_token": later("The drafter's probability of the first token"),
}


def judged_sentence(trace: Trace, round_: Round) -> str:
    """How a round was judged, what was kept, and what the target wrote."""
    if round_.scores:
        return _scored(trace.settings, round_)
    kept = [round_.nodes[index] for index in kept_path(round_.nodes)]
    checked = _checked(trace.settings, round_)
    if not kept:
        told = say("{checked} and kept none", checked=checked)
    else:
        told = say("{checked} and kept {kept}", checked=checked, kept=_amount(kept, round_))
    return _ended(trace, round_, told) if not added(round_) else _went_on(trace, round_, told)


def _checked(settings: Settings, round_: Round) -> str:
    alone, once = len(round_.nodes) == 1, round_.target_calls == 1
    told = {
        (True, True): later("The target checked it in one pass {rule}"),
        (True, False): later("The target checked it {rule}"),
        (False, True): later("The target checked them all in one pass {rule}"),
        (False, False): later("The target checked them all {rule}"),
    }[alone, once]
    return say(told, rule=_rule(settings))


def _rule(settings: Settings) -> str:
    """How the target decided, in a few words."""
    if settings.greedy:
        return say("against its own most probable tokens")
    if settings.method == "dspark" and not settings.exact:
        return say("(a token needs p above its threshold and a random number below p)")
    if not settings.exact:
        return say("(a token stays when a random number falls below p)")
    chain = settings.method == "speculative" and settings.drafter == "draft_model"
    if chain or settings.method == "dspark":
        return say("(a token stays with probability min(1, p/q))")
    return say("by drawing from its own distribution")


def _amount(kept: Sequence[Node], round_: Round) -> str:
    quote, count = joined(kept), len(kept)
    if count == len(round_.nodes):
        return say("{quote}, every drafted token", quote=quote) if count > 1 else quote
    parents = [node.parent for node in round_.nodes]
    forked = len(set(parents)) < len(parents)
    if count == 1:
        told = later("the first token, {quote}")
        return say(later("the first token of a fork, {quote}") if forked else told, quote=quote)
    told = later("the first {count} tokens, {quote}")
    told = later("the first {count} tokens of a fork, {quote}") if forked else told
    return say(told, count=count, quote=quote)


def _went_on(trace: Trace, round_: Round, told: str) -> str:
    """What the target wrote after the kept tokens, and what it wrote it instead of."""
    token = added(round_)[-1]
    p, fate = token.target_probability, fate_name(token.fate)
    own = {"token": written(trace, round_), "fate": fate}
    if p is None:
        wrote = say("{token} ({fate})", **own)
    else:
        wrote = say("{token} ({fate}, p {p})", **own, p=probability(p))
    refused = refused_nodes(round_)
    if not refused:
        kept = any(node.fate == "accepted" for node in round_.nodes)
        then = later("{told}, then added {token}.")
        return say(then if kept else later("{told} and added {token}."), told=told, token=wrote)
    names = say(" or ").join(named(node) for node in refused[:3])
    if len(refused) > 3:
        names = say("{names} or {count} more", names=names, count=len(refused) - 3)
    why = refusal(trace.settings, refused[0]) if len(refused) == 1 else ""
    place = {"refused": names, "token": wrote}
    if why:
        there = say("where {refused} stood {why} it wrote {token}", **place, why=why)
    else:
        there = say("where {refused} stood it wrote {token}", **place)
    return say("{told}.", told=clauses([told, there]))


def _ended(trace: Trace, round_: Round, told: str) -> str:
    """Why the target wrote nothing after what was kept."""
    last = round_.index == len(trace.rounds) - 1
    if last and trace.stop_reason == "eos":
        why = say("a stop token inside the draft ended the run, so the target added none")
    elif last and trace.stop_reason in ("length", "context"):
        why = say("the run reached its limit inside the draft, so the target added none")
    else:
        why = say("the target added none")
    return say("{told}.", told=clauses([told, why]))


def refused_nodes(round_: Round) -> list[Node]:
    """Judged tokens that hung from the end of the kept path and were not kept."""
    end = (kept_path(round_.nodes)[-1:] or (-1,))[0]
    return [node for node in round_.nodes if node.parent == end and node.fate == "rejected"]


def refusal(settings: Settings, node: Node) -> str:
    """Why the target refused a token, in brackets, as far as the recorded numbers tell."""
    if node.target_probability is None:
        return ""
    p, limit = probability(node.target_probability), node.threshold
    if settings.greedy or limit is None or not recorded_is_judged(settings):
        return say("(p {p})", p=p)
    missed = node.target_probability <= limit
    told = later("(p {p} passed its threshold {limit}, but the draw did not)")
    told = later("(p {p}, not above its threshold {limit})") if missed else told
    return say(told, p=p, limit=number(limit))


def _scored(settings: Settings, round_: Round) -> str:
    best = max(round_.scores, key=lambda score: score.score)
    own = added(round_)
    told = {
        (True, True): later(
            "{who} scored it; it got {score}, below τ {limit}, so no fork was kept and the "
            "target's top-1 token {token} was taken instead (fallback)."
        ),
        (True, False): later(
            "{who} scored it; it got {score}, at least τ {limit}, so it was kept whole; the "
            "target had no say."
        ),
        (False, True): later(
            "{who} scored every fork; the best, {fork}, got {score}, below τ {limit}, so no fork "
            "was kept and the target's top-1 token {token} was taken instead (fallback)."
        ),
        (False, False): later(
            "{who} scored every fork; the best, {fork}, got {score}, at least τ {limit}, so it "
            "was kept whole; the target had no say."
        ),
    }[len(round_.scores) == 1, bool(own)]
    scorer = SCORERS[settings.judge] if settings.judge in SCORERS else later("The judge")
    return say(
        told,
        who=say(scorer, layers=settings.verifier_layers),
        fork=quoted(fork_text(round_, best.leaf)),
        score=number(best.score),
        limit=number(round_.accept_threshold),
        token=named(own[-1]) if own else "",
    )
