"""Ratios derived from a trace, defined once so that they cannot contradict each other.

Where a ratio has no denominator it is None, which the page shows as a dash.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from spork_demo.trace import Node, Race, Round, Trace
from spork_demo.trace_served import Served

FEW_ROUNDS = 20
"""A figure that rests on fewer rounds than this says so."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """Everything the page prints about one lane. Seconds are lane seconds, interface excluded.

    accepted_length: tokens committed per round, the target's own token included.
    acceptance_rate: accepted / scheduled drafted tokens, siblings included; what a stop token
        left unjudged counts neither way. Trees and chains are not comparable by it.
    accepted_rounds: share of rounds that kept at least one drafted token.
    mean_jump: tokens committed per round that kept at least one drafted token.
    prefix_survival[k]: share of all rounds that kept at least k + 1 drafted tokens.
    conditional_acceptance[k]: among rounds that kept k and sent a token at depth k + 1, the share
        that kept it.
    """

    committed: int
    rounds: int
    drafted: int
    scheduled: int
    accepted: int
    accepted_length: float | None
    acceptance_rate: float | None
    accepted_rounds: float | None
    mean_jump: float | None
    prefix_survival: tuple[float, ...]
    conditional_acceptance: tuple[float | None, ...]
    tokens_per_second: float | None
    seconds_to_first_token: float | None
    end_to_end_tokens_per_second: float | None
    prefill_seconds: float
    decode_seconds: float
    draft_seconds: float
    judge_seconds: float
    commit_seconds: float
    other_seconds: float
    round_p50: float | None
    round_p99: float | None
    target_calls: int
    draft_calls: int
    target_calls_per_token: float | None
    wasted_share: float | None
    few_rounds: bool


def measure(trace: Trace) -> Metrics:
    """Metrics of one lane; an empty trace gives zeros and dashes, never an error."""
    figures = _measure_rounds(trace)
    return figures if trace.served is None else _from_outside(figures, trace, trace.served)


def _measure_rounds(trace: Trace) -> Metrics:
    rounds = trace.rounds
    total = _summer(rounds)
    committed = sum(len(round_.committed) for round_ in rounds)
    decode = total(lambda r: r.seconds)
    phases = [
        total(lambda r: r.draft_seconds),
        total(lambda r: r.judge_seconds),
        total(lambda r: r.commit_seconds),
    ]
    scheduled = int(total(lambda r: r.scheduled))
    accepted = int(total(lambda r: r.accepted))
    jumps = [len(round_.committed) for round_ in rounds if round_.accepted]
    first = trace.prefill_seconds + rounds[0].seconds if rounds else None
    return Metrics(
        committed=committed,
        rounds=len(rounds),
        drafted=sum(len(round_.nodes) for round_ in rounds),
        scheduled=scheduled,
        accepted=accepted,
        accepted_length=ratio(committed, len(rounds)),
        acceptance_rate=ratio(accepted, int(total(_judged))),
        accepted_rounds=ratio(len(jumps), len(rounds)) if scheduled else None,
        mean_jump=ratio(sum(jumps), len(jumps)),
        prefix_survival=prefix_survival(rounds),
        conditional_acceptance=conditional_acceptance(rounds),
        tokens_per_second=ratio(committed, decode),
        seconds_to_first_token=first,
        end_to_end_tokens_per_second=ratio(committed, decode + trace.prefill_seconds),
        prefill_seconds=trace.prefill_seconds,
        decode_seconds=decode,
        draft_seconds=phases[0],
        judge_seconds=phases[1],
        commit_seconds=phases[2],
        other_seconds=max(0.0, decode - sum(phases)),
        round_p50=percentile([round_.seconds for round_ in rounds], 0.50),
        round_p99=percentile([round_.seconds for round_ in rounds], 0.99),
        target_calls=int(total(lambda r: r.target_calls)),
        draft_calls=int(total(lambda r: r.draft_calls)),
        target_calls_per_token=ratio(total(lambda r: r.target_calls), committed),
        wasted_share=ratio(scheduled - accepted, scheduled),
        few_rounds=len(rounds) < FEW_ROUNDS,
    )


def _from_outside(figures: Metrics, trace: Trace, served: Served) -> Metrics:
    """Metrics of a lane another server decoded, whose rounds are arrivals of its stream.

    Speed is counted from the first arrival on, without its tokens: when those began is not known.
    Acceptance is the server's own count, where nobody else's tokens are in it.
    """
    tokens = figures.committed if served.tokens is None else served.tokens
    later = max(0, tokens - len(trace.rounds[0].committed)) if trace.rounds else 0
    checks = served.rounds if served.alone is not False else None
    drafted, accepted = (served.drafted, served.accepted) if checks else (None, None)
    length = None
    if checks:
        length = ratio(tokens, checks) if accepted is None else 1 + accepted / checks
    survival = tuple(kept / checks for kept in served.kept) if checks else ()
    return replace(
        figures,
        committed=tokens,
        rounds=checks or figures.rounds,
        few_rounds=(checks or figures.rounds) < FEW_ROUNDS,
        drafted=drafted or 0,
        scheduled=drafted or 0,
        accepted=accepted or 0,
        accepted_length=length,
        acceptance_rate=ratio(accepted or 0, drafted or 0),
        accepted_rounds=survival[0] if survival else None,
        mean_jump=None,
        prefix_survival=survival,
        conditional_acceptance=(None,) * len(survival),
        tokens_per_second=ratio(later, figures.decode_seconds),
        end_to_end_tokens_per_second=ratio(
            tokens, figures.decode_seconds + figures.prefill_seconds
        ),
        target_calls_per_token=None,
        wasted_share=ratio((drafted or 0) - (accepted or 0), drafted or 0),
    )


def prefix_survival(rounds: Sequence[Round]) -> tuple[float, ...]:
    """Share of all rounds whose first k drafted tokens were all kept, for k = 1, 2, ...

    Divided by every round, so it never rises, and one plus its sum is the accepted length (but
    for a last round that a stop token ended).
    """
    deepest = max((round_.accepted for round_ in rounds), default=0)
    return tuple(
        sum(round_.accepted >= k for round_ in rounds) / len(rounds) for k in range(1, deepest + 1)
    )


def conditional_acceptance(rounds: Sequence[Round]) -> tuple[float | None, ...]:
    """Share kept at depth k among rounds that kept k - 1 and sent a token at depth k after them.

    Depth is counted along the kept path. A round that a stop token ended stopped asking there:
    its later depths count neither way.
    """
    reached: list[int] = []
    kept: list[int] = []
    for round_ in rounds:
        asked = round_.accepted + _was_refused(round_)
        for depth in range(asked):
            if depth == len(reached):
                reached.append(0)
                kept.append(0)
            reached[depth] += 1
            kept[depth] += depth < round_.accepted
    return tuple(ratio(k, n) for k, n in zip(kept, reached, strict=True))


def _was_refused(round_: Round) -> bool:
    """Whether a judged token hung from the end of the kept path and was not kept."""
    if stopped_inside(round_):
        return False
    end = kept_path(round_.nodes)[-1:] or (-1,)
    return any(node.parent == end[0] and node.fate == "rejected" for node in round_.nodes)


def stopped_inside(round_: Round) -> bool:
    """Whether a stop token or the length limit ended the round within its accepted draft."""
    return bool(round_.accepted) and not round_.scores and len(round_.committed) == round_.accepted


def _judged(round_: Round) -> int:
    return round_.accepted if stopped_inside(round_) else round_.scheduled


def kept_path(nodes: Sequence[Node]) -> tuple[int, ...]:
    """Indices of the accepted nodes, from the anchor outwards."""
    return tuple(index for index, node in enumerate(nodes) if node.fate == "accepted")


def speedup(trace: Trace, baseline: Trace | None) -> float | None:
    """Decode tokens per second over the greedy lane's, of the same race.

    None for a lane another server decoded on what may be another target or device.
    """
    if baseline is None or (trace.served is not None and not trace.served.comparable):
        return None
    ours, theirs = measure(trace).tokens_per_second, measure(baseline).tokens_per_second
    return ratio(ours, theirs) if ours is not None and theirs is not None else None


def speedups(race: Race) -> tuple[float | None, ...]:
    """One speedup a lane, in lane order."""
    return tuple(speedup(lane, race.baseline) for lane in race.lanes)


def ratio(part: float, whole: float) -> float | None:
    """`part / whole`, or None when there is nothing, or next to nothing, to divide by."""
    value = part / whole if whole else math.inf
    return value if math.isfinite(value) else None


def percentile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that at least `share` of the values do not exceed (nearest rank)."""
    if not values:
        return None
    ordered = sorted(values)
    rank = max(1, -(-int(share * 1000) * len(ordered) // 1000))
    return ordered[min(rank, len(ordered)) - 1]


def _summer(rounds: Sequence[Round]) -> Callable[[Callable[[Round], float]], float]:
    return lambda value: sum(value(round_) for round_ in rounds)
