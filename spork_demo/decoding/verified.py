"""The loop of every method whose drafts the target itself judges, in one call a round.

Classic speculative decoding (exact and article), SPORK exact (tree attention) and DSpark (exact
and article) differ only in who drafts and in the rule that reads the target's rows. A drafter may
send a part of its proposal only: what it cuts is recorded and never fed to the target.
"""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from torch import Tensor

from spork_demo.decoding.drafters.model_forks import ForkPlan
from spork_demo.decoding.drafters.proposal import Drafter, Proposal
from spork_demo.decoding.policy import Policy, within_memory
from spork_demo.decoding.run import Outcome, Run, prefill, record
from spork_demo.decoding.sampling import distribution
from spork_demo.decoding.verify import (
    Verdict,
    confidence_thresholds,
    verify_article,
    verify_exact,
    verify_greedy,
)
from spork_demo.models.cached_model import Scores
from spork_demo.models.top import best_tokens
from spork_demo.settings import Settings
from spork_demo.trace import Event


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict with the numbers it was reached by, one a node, where the rule has them."""

    verdict: Verdict
    confidences: tuple[float, ...] = ()
    thresholds: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Rows:
    """Distributions of the rows a rule looks at, and of no others: filtering is costly."""

    logits: Tensor
    settings: Settings

    def __call__(self, row: int) -> Tensor:
        return distribution(self.logits[row : row + 1], self.settings)[0]

    def best(self) -> list[int]:
        return best_tokens(self.logits)


Rule = Callable[[Run, Rows, Proposal], Judged]


def exact_rule(run: Run, row: Rows, proposal: Proposal) -> Judged:
    """Lossless at every temperature."""
    if run.settings.greedy:
        return Judged(verify_greedy(row.best(), proposal))
    return Judged(verify_exact(row, proposal, run.generator))


def article_rule(run: Run, row: Rows, proposal: Proposal) -> Judged:
    """Classic speculative decoding as the article has it."""
    return Judged(verify_article(row, proposal, run.generator))


def confidence_rule(run: Run, row: Rows, proposal: Proposal) -> Judged:
    """Article DSpark: a threshold that falls with the draft's confidence."""
    settings = run.settings
    confidences, thresholds = confidence_thresholds(
        proposal, settings.min_threshold, settings.max_threshold
    )
    verdict = verify_article(row, proposal, run.generator, thresholds)
    return Judged(verdict, confidences, thresholds)


def verified(
    run: Run,
    drafter: Drafter,
    rule: Rule,
    draft_calls: Callable[[], int] = lambda: 0,
    policy: Policy | None = None,
) -> Iterator[Event]:
    """Draft, judge with the target, commit; until a stop token or a limit.

    policy: how much is drafted, unbounded and fixed where there is none.

    Invariant: between rounds the target's cache holds every committed token except the anchor,
    the last one, which is fed first in the next call.
    """
    target = run.target
    policy = policy or Policy(ForkPlan(1, run.context))
    tokens, started = prefill(run, drafter)
    yield started
    attempt = functools.partial(_draft_and_judge, run, drafter, rule, policy, tokens)

    while run.room():
        calls = target.calls, draft_calls()
        with run.watch.running("round"):
            # 1. draft and judge, with smaller drafts where memory does not suffice
            found, change = within_memory(target, drafter, policy, attempt)
            proposal, sent, scores, judged = found
            # 2. commit the kept branch and the target's own token, up to a stop token
            with run.watch.running("commit"):
                path, cache_rows = judged.verdict.path, target.rows
                drafted = [sent.tokens[node] for node in path]
                committed = run.cut([*drafted, judged.verdict.own])
                rows = [0, *(node + 1 for node in path[: len(committed) - 1])]
                target.commit(rows)
                tokens += committed
                drafter.observe(tokens, scores.committed(rows))
                change = policy.observe(sent.reach, len(path)) or change
        yield record(
            run,
            Outcome(
                proposal=proposal,
                committed=committed,
                path=path,
                last_fate="correction" if judged.verdict.is_correction else "bonus",
                logits=scores.logits,
                target_rows=[0, *(node + 1 for node in path)][: len(committed)],
                calls=(target.calls - calls[0], draft_calls() - calls[1]),
                cache_rows=cache_rows,
                confidences=judged.confidences or proposal.confidences,
                thresholds=judged.thresholds,
                change=change,
            ),
        )
    yield run.finished()


def _draft_and_judge(
    run: Run, drafter: Drafter, rule: Rule, policy: Policy, tokens: list[int]
) -> tuple[Proposal, Proposal, Scores, Judged]:
    """Draft, leaving one place for the token the target adds itself, and judge every fork that is
    sent, in one call.
    """
    with run.watch.running("draft"):
        proposal = drafter.propose(tokens, min(run.room() - 1, policy.plan.depth))
        sent = proposal.sent()
    with run.watch.running("judge"):
        parents = [-1, *(parent + 1 for parent in sent.parents)]
        fed = [tokens[-1], *sent.tokens]
        scores = run.target.forward(fed, parents, features=drafter.features)
        return proposal, sent, scores, rule(run, Rows(scores.logits, run.settings), sent)
