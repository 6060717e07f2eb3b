"""One target call per token: the baseline of every ratio and the oracle of every check."""

from collections.abc import Iterator

from spork_demo.decoding.drafters.proposal import Proposal
from spork_demo.decoding.run import Outcome, Run, prefill, record
from spork_demo.decoding.sampling import next_token
from spork_demo.trace import Event


def greedy(run: Run) -> Iterator[Event]:
    """Decode token by token; at temperature > 0, sample from the target with the run's seed."""
    target = run.target
    tokens, started = prefill(run)
    yield started

    while run.room():
        calls = target.calls
        with run.watch.running("round"):
            with run.watch.running("judge"):
                logits = target.forward(tokens[-1:]).logits
                token = next_token(logits[0], run.settings, run.generator)
            with run.watch.running("commit"):
                cache_rows = target.rows
                target.commit([0])
                tokens.append(token)
        yield record(
            run,
            Outcome(
                proposal=Proposal(),
                committed=[token],
                path=(),
                last_fate="plain",
                logits=logits,
                target_rows=[0],
                calls=(target.calls - calls, 0),
                cache_rows=cache_rows,
            ),
        )
    yield run.finished()
