"""Lessons in batches of one shape, and which tokens a small drafter may speak."""

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from spork_demo.train.data import Answer, Lesson

PAD_TO = 32
"""Lengths are padded to multiples of this: every new shape costs memory that stays."""
WINDOW = 16
"""Batches sorted by length together, so that little is padded and the order stays random."""


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Padded at the right. Row t of an answer's distribution says what follows token t.

    tokens: [batch, length]. starts, ends: [batch], where the answer begins and ends.
    features: [batch, length, taps * hidden size] bfloat16, or None when not asked for.
    likeliest: [batch, length, entries] token ids; chances: their probabilities, 0 outside the
        rows that speak of an answer.
    """

    tokens: Tensor
    starts: Tensor
    ends: Tensor
    features: Tensor | None
    likeliest: Tensor
    chances: Tensor


def batches(lessons: Sequence[Lesson], size: int, seed: int, *, features: bool) -> Iterator[Batch]:
    """Batches without end, epoch after epoch, each in an order of its own."""
    epoch = 0
    while True:
        shuffler = random.Random(f"{seed} {epoch}")
        order = list(range(len(lessons)))
        shuffler.shuffle(order)
        groups = []
        for start in range(0, len(order), WINDOW * size):
            window = sorted(order[start : start + WINDOW * size], key=lambda n: _length(lessons[n]))
            groups += [window[n : n + size] for n in range(0, len(window), size)]
        shuffler.shuffle(groups)
        for group in groups:
            yield collate([lessons[n] for n in group], features=features)
        epoch += 1


def collate(lessons: Sequence[Lesson], *, features: bool) -> Batch:
    """One batch of these lessons, in this order."""
    length = -(-max(_length(lesson) for lesson in lessons) // PAD_TO) * PAD_TO
    count, entries = len(lessons), lessons[0].likeliest.shape[-1]
    tokens = torch.zeros(count, length, dtype=torch.long)
    likeliest = torch.zeros(count, length, entries, dtype=torch.long)
    chances = torch.zeros(count, length, entries)
    felt = None
    if features:
        felt = torch.zeros(count, length, lessons[0].features.shape[-1], dtype=torch.bfloat16)
    for n, lesson in enumerate(lessons):
        answer, start = lesson.answer, len(lesson.answer.prompt_ids)
        tokens[n, : _length(lesson)] = torch.tensor([*answer.prompt_ids, *answer.ids])
        rows = slice(start - 1, start - 1 + len(answer.ids))
        likeliest[n, rows] = torch.from_numpy(lesson.likeliest.astype(np.int64))
        chances[n, rows] = torch.from_numpy(lesson.chances.astype(np.float32))
        if felt is not None:
            plain = torch.from_numpy(np.ascontiguousarray(lesson.features))
            felt[n, : len(plain)] = plain.view(torch.bfloat16)
    starts = torch.tensor([len(lesson.answer.prompt_ids) for lesson in lessons])
    ends = torch.tensor([_length(lesson) for lesson in lessons])
    return Batch(tokens, starts, ends, felt, likeliest, chances)


def draft_vocabulary(answers: Iterable[Answer], size: int, always: Iterable[int]) -> Tensor:
    """The `size` ids that answers use most, those in `always` among them; ascending [size]."""
    counted = Counter(token for answer in answers for token in answer.ids)
    kept = dict.fromkeys(always)
    for token, _ in counted.most_common():
        if len(kept) >= size:
            break
        kept[token] = None
    filler = iter(range(size))
    while len(kept) < size:  # fewer different tokens than asked for
        kept[next(filler)] = None
    return torch.tensor(sorted(kept))


def rows_of(ids: Tensor, vocab_size: int) -> Tensor:
    """[vocabulary]: the row of each token among `ids`, -1 for one that is not among them."""
    rows = torch.full((vocab_size,), -1)
    rows[ids] = torch.arange(len(ids))
    return rows


def overlap(logits: Tensor, rows: Tensor, chances: Tensor) -> Tensor:
    """Sum of min(p, q) [..]: the chance that a token drawn from q passes exact verification.

    logits: [.., draft rows] of q. rows, chances: [.., entries], p where it is large; a row of -1
    cannot be drafted. What p has left is small and counted as never drafted.
    """
    top = logits.gather(-1, rows.clamp_min(0)) - logits.logsumexp(dim=-1, keepdim=True)
    return torch.minimum(top.exp(), chances).masked_fill(rows < 0, 0.0).sum(dim=-1)


def _length(lesson: Lesson) -> int:
    return len(lesson.answer.prompt_ids) + len(lesson.answer.ids)
