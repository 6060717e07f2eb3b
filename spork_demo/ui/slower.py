"""Why a lane is slower than greedy, from its own recorded numbers."""

from spork_demo.charts.figure import milliseconds, number
from spork_demo.charts.rounds import greedy_seconds
from spork_demo.language import say
from spork_demo.metrics import Metrics, measure, speedup
from spork_demo.trace import Trace

DEAR_DRAFT = 0.35
RARE = 0.5


def reasons(trace: Trace, baseline: Trace | None) -> tuple[str, ...]:
    """Sentences that account for a speedup below 1; empty when there is none to account for."""
    ratio = speedup(trace, baseline)
    price = greedy_seconds(baseline)
    outside = trace is baseline or trace.served is not None
    if ratio is None or ratio >= 1 or not price or outside:
        return ()
    metrics = measure(trace)
    found = [_break_even(metrics, price), _own_forks(trace, metrics), _draft_cost(metrics, price)]
    found += [
        _judge_cost(metrics, price),
        _fallbacks(trace, metrics),
        _empty_rounds(trace, metrics),
    ]
    return tuple(sentence for sentence in found if sentence)


def _break_even(metrics: Metrics, price: float) -> str:
    cost = metrics.decode_seconds / metrics.rounds
    return say(
        "A round costs {cost}, as much as {many} greedy tokens, but commits only {length}.",
        cost=milliseconds(cost),
        many=number(cost / price),
        length=number(metrics.accepted_length),
    )


def _own_forks(trace: Trace, metrics: Metrics) -> str:
    sources = {node.source for round_ in trace.rounds for node in round_.nodes}
    if "target" not in sources and trace.settings.drafter != "target":
        return ""
    return say(
        "The target proposes its own forks: every level of a fork is a target call already "
        "({calls} calls a token here), and its best fork is the greedy path. This variant cannot "
        "beat greedy.",
        calls=number(metrics.target_calls_per_token, 1),
    )


def _draft_cost(metrics: Metrics, price: float) -> str:
    share = metrics.draft_seconds / metrics.decode_seconds
    if share < DEAR_DRAFT:
        return ""
    return say(
        "Drafting takes {share} of the time, {drafting} a round against {price} for one greedy "
        "token; forks pay only where they are cheap.",
        share=f"{share:.0%}",
        drafting=milliseconds(metrics.draft_seconds / metrics.rounds),
        price=milliseconds(price),
    )


def _judge_cost(metrics: Metrics, price: float) -> str:
    judging = metrics.judge_seconds / metrics.rounds
    if judging < 1.3 * price:
        return ""
    return say(
        "Judging {count} tokens a round takes {judging}, more than the {price} of one greedy "
        "token.",
        count=number(metrics.scheduled / metrics.rounds, 1),
        judging=milliseconds(judging),
        price=milliseconds(price),
    )


def _fallbacks(trace: Trace, metrics: Metrics) -> str:
    fell = sum(
        any(token.fate == "fallback" for token in round_.committed) for round_ in trace.rounds
    )
    if fell < RARE * metrics.rounds:
        return ""
    return say(
        "In {count} of {rounds} rounds no fork reached τ and one token was all it got.",
        count=fell,
        rounds=metrics.rounds,
    )


def _empty_rounds(trace: Trace, metrics: Metrics) -> str:
    bare = sum(not round_.nodes for round_ in trace.rounds)
    if bare < RARE * metrics.rounds:
        return ""
    return say(
        "In {count} of {rounds} rounds the drafter had nothing to propose.",
        count=bare,
        rounds=metrics.rounds,
    )
