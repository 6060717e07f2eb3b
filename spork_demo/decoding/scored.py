"""The loop of article SPORK: a score, not the target, decides whether a fork is kept whole."""

from collections.abc import Callable, Iterator

from spork_demo.decoding.drafters.model_forks import ForkPlan
from spork_demo.decoding.drafters.proposal import Drafter, Proposal
from spork_demo.decoding.judges import Judge
from spork_demo.decoding.policy import Policy, Threshold, within_memory
from spork_demo.decoding.run import Outcome, Run, prefill, record
from spork_demo.trace import Change, Event, ForkScore


def scored(
    run: Run,
    drafter: Drafter,
    judge: Judge,
    draft_calls: Callable[[], int] = lambda: 0,
    policy: Policy | None = None,
    threshold: Threshold | None = None,
) -> Iterator[Event]:
    """Draft forks, score them, keep the best whole if its score >= τ, else fall back to the
    target's most probable token.

    The target's cache invariant is that of `verified`. Forks the target grew itself are already
    in its cache and only their branch is kept; any other fork is fed to the target when it is
    committed, which costs the call an exact judge would have needed.
    """
    target = run.target
    policy = policy or Policy(ForkPlan(1, run.context))
    threshold = threshold or Threshold(run.settings)
    tokens, started = prefill(run, drafter)
    yield started

    def draft_and_judge() -> tuple[Proposal, tuple[ForkScore, ...]]:
        with run.watch.running("draft"):
            proposal = drafter.propose(tokens, min(run.room(), policy.plan.depth))
        with run.watch.running("judge"):
            return proposal, judge.score(tokens, proposal) if proposal.tokens else ()

    while run.room():
        calls, needed = (target.calls, draft_calls()), threshold.value
        with run.watch.running("round"):
            found, change = within_memory(target, drafter, policy, draft_and_judge)
            proposal, forks = found
            best = max(forks, key=lambda fork: fork.score, default=None)
            with run.watch.running("commit"):
                kept = best is not None and best.score >= needed
                path = proposal.path(best.leaf) if kept else ()
                committed, logits, cache_rows, scores = _commit(
                    run, tokens, proposal, path, drafter.features
                )
                tokens += committed
                drafter.observe(tokens, scores)
                if forks:
                    threshold.observe(kept)
                change = policy.observe(proposal.reach, len(path)) or change
        yield record(
            run,
            _outcome(
                proposal,
                path,
                committed,
                logits,
                forks,
                calls=(target.calls - calls[0], draft_calls() - calls[1]),
                cache_rows=cache_rows,
                needed=needed,
                change=change,
            ),
        )
    yield run.finished()


def _commit(
    run: Run,
    tokens: list[int],
    proposal: Proposal,
    path: tuple[int, ...],
    features: tuple[int, ...],
):
    """Keep `path`, or the target's top-1 token when it is empty.

    Returns the committed tokens, the target's logits that predict them or None where it was not
    asked about all of them, the rows the cache held before the commit, and the scores of the call
    that fed the committed rows, where there was one.
    """
    target, scores = run.target, None
    committed = run.cut([proposal.tokens[node] for node in path])
    if proposal.rows:
        rows, logits = [0], None
        if path:
            rows += [proposal.rows[node] for node in path[: len(committed) - 1]]
        else:
            logits = proposal.anchor_logits[None]
    else:
        scores = target.forward([tokens[-1], *committed[:-1]], features=features)
        logits = scores.logits
        rows = list(range(target.pending))
    cache_rows = target.rows
    target.commit(rows)
    if not path:
        committed = [int(logits[0].argmax())]
    return committed, logits, cache_rows, scores


def _outcome(
    proposal: Proposal,
    path: tuple[int, ...],
    committed: list[int],
    logits,
    forks: tuple[ForkScore, ...],
    *,
    calls: tuple[int, int],
    cache_rows: int,
    needed: float,
    change: Change | None,
) -> Outcome:
    known = logits is not None
    return Outcome(
        proposal=proposal,
        committed=committed,
        path=path,
        last_fate="fallback",
        logits=logits,
        target_rows=list(range(len(committed))) if known else [None] * len(committed),
        calls=calls,
        cache_rows=cache_rows,
        scores=forks,
        judged_all=False,
        accept_threshold=needed,
        change=change,
    )
