"""When drafting pays: arithmetic on measured costs, with one acceptance probability for all drafts.

A draft is accepted with probability a if those before it were, so a round of γ drafts commits
1 + a + a² + ... + a^γ tokens, the target's own included (Leviathan et al., arXiv 2211.17192).
"""

from collections.abc import Sequence

from spork_demo.lesson.costs import Curve, Drafter

BISECTIONS = 40


def expected_tokens(acceptance: float, drafts: int) -> float:
    """Tokens a round of `drafts` drafts commits on average."""
    if acceptance == 1.0:
        return drafts + 1.0
    return (1 - acceptance ** (drafts + 1)) / (1 - acceptance)


def round_seconds(curve: Curve, drafter: Drafter, drafts: int) -> float | None:
    """Seconds of drafting and of the target call on the drafts and the anchor."""
    drafting = curve.draft(drafter, drafts)
    return None if drafting is None else drafting + curve.call(drafts + 1)


def speedup(curve: Curve, drafter: Drafter, acceptance: float, drafts: int) -> float | None:
    """Tokens per second over those of one call a token. None where a cost was not measured."""
    seconds = round_seconds(curve, drafter, drafts)
    if seconds is None:
        return None
    return expected_tokens(acceptance, drafts) * curve.call(1) / seconds


def speedups(curve: Curve, drafter: Drafter, acceptance: float) -> tuple[float, ...]:
    """Speedups of 0, 1, 2, ... drafts, as far as costs were measured."""
    found = []
    for drafts in range(curve.most_rows):
        ratio = speedup(curve, drafter, acceptance, drafts)
        if ratio is None:
            break
        found.append(ratio)
    return tuple(found)


def best_length(ratios: Sequence[float]) -> int:
    """The draft length of the highest speedup; the shortest where several tie."""
    return max(range(len(ratios)), key=lambda drafts: (ratios[drafts], -drafts))


def needed_acceptance(curve: Curve, drafter: Drafter, drafts: int) -> float | None:
    """The acceptance at which `drafts` drafts break even; None where they never do."""
    seconds = round_seconds(curve, drafter, drafts)
    if seconds is None or drafts == 0 or (drafts + 1) * curve.call(1) < seconds:
        return None
    low, high = 0.0, 1.0
    if curve.call(1) >= seconds:
        return low
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        pays = expected_tokens(middle, drafts) * curve.call(1) >= seconds
        low, high = (low, middle) if pays else (middle, high)
    return high


def calls_per_token(kept_share: float, depth: int) -> float:
    """Target calls a token when the target itself proposes forks of 1 + `depth` tokens.

    Every level of the forks is a call, whatever the judge says afterwards; a round then commits
    the fork, or one token. `kept_share`: of rounds that keep a fork.
    """
    return (1 + depth) / (1 + kept_share * depth)
