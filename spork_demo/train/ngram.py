"""Build the static n-gram table from the target's own answers, and measure what it is worth.

At temperature 0 an exact method commits the target's greedy text whatever is drafted, so the
accepted length of an n-gram drafter can be measured on recorded greedy answers, without a model.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from spork_demo.decoding.drafters.ngram import NgramForks
from spork_demo.decoding.drafters.proposal import Proposal
from spork_demo.models.ngram_table import NgramTable, Shares
from spork_demo.train.data import Answer, Lesson

LEAST_SHARE = 0.02
"""Tokens the target gave less than this are not counted."""


def build_table(
    answers: Iterable[Answer], lessons: Iterable[Lesson], vocab_size: int, path: Path
) -> NgramTable:
    """Count every answer, its prompt as context only, and save the table at `path`.

    lessons: answers whose distributions were kept; they are not counted a second time.
    """
    texts, taught = [], set()
    for lesson in lessons:
        taught.add(lesson.answer)
        texts.append((*_text(lesson.answer), _shares(lesson)))
    texts += [(*_text(answer), None) for answer in answers if answer not in taught]
    table = NgramTable.count(texts, vocab_size)
    path.parent.mkdir(parents=True, exist_ok=True)
    table.save(path)
    return table


def _text(answer: Answer) -> tuple[list[int], int]:
    return [*answer.prompt_ids, *answer.ids], len(answer.prompt_ids)


def _shares(lesson: Lesson) -> list[Shares]:
    pairs = zip(lesson.likeliest.tolist(), lesson.chances.tolist(), strict=True)
    return [
        [(token, p) for token, p in zip(ids, chances, strict=True) if p >= LEAST_SHARE]
        for ids, chances in pairs
    ]


def accepted_length(drafter: NgramForks, answer: Answer, new_tokens: int) -> tuple[int, int]:
    """(tokens committed, rounds) of exact verification along a recorded greedy answer."""
    tokens = list(answer.prompt_ids)
    wanted = answer.ids[:new_tokens]
    drafter.observe(tokens, None)
    done = rounds = 0
    while done < len(wanted):
        proposal = drafter.propose(tokens, len(wanted) - done - 1)
        kept = agreed(proposal, wanted[done:])
        fresh = wanted[done : done + kept + 1]
        tokens += fresh
        done += len(fresh)
        rounds += 1
        drafter.observe(tokens, None)
    return done, rounds


def agreed(proposal: Proposal, wanted: Sequence[int]) -> int:
    """How many tokens of `wanted` a proposal holds as one path from the anchor."""
    node, depth = -1, 0
    while depth < len(wanted):
        found = [n for n in proposal.children(node) if proposal.tokens[n] == wanted[depth]]
        if not found:
            break
        node, depth = found[0], depth + 1
    return depth
