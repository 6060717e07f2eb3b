"""The target answers our prompts: the text that tables are counted on and drafters learn from.

Half of the answers are greedy, half sampled. Shards are written whole or not at all, and prompts
that have an answer are skipped, so a run that was interrupted goes on where it stopped.
"""

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from transformers import Cache

from spork_demo.engine import Engine
from spork_demo.models.cached_model import RowLayer
from spork_demo.models.layers import decoder_layers
from spork_demo.train.prompts import held_out_prompts, training_prompts

BATCH = 128
CLOSE_AT_ONCE = 32
"""Finished rows leave the batch in groups: every new shape costs memory that stays."""
SEED = 20_260
NEW_TOKENS = 128
TEMPERATURE, TOP_P, CANDIDATES = 0.8, 0.95, 256


@dataclass(frozen=True, slots=True)
class Answer:
    """One prompt with the target's answer, as ids; `sampled` at temperature 0.8, top-p 0.95."""

    prompt: str
    prompt_ids: tuple[int, ...]
    ids: tuple[int, ...]
    sampled: bool


def make_answers(
    engine: Engine,
    folder: Path,
    prompts: int,
    new_tokens: int = NEW_TOKENS,
    *,
    held_out: bool = False,
    told: Callable[[str], None] = lambda _line: None,
) -> None:
    """Answer every prompt that has no answer in `folder` yet, one shard per batch."""
    folder.mkdir(parents=True, exist_ok=True)
    listed = held_out_prompts(prompts, SEED + 1) if held_out else training_prompts(prompts, SEED)
    answered = {answer.prompt for answer in read_answers(folder)}
    groups: defaultdict[tuple[bool, int], list[tuple[str, list[int]]]] = defaultdict(list)
    for number, prompt in enumerate(listed):
        if prompt not in answered:
            ids = engine.encode(prompt, engine.pair.context_length)
            groups[number % 2 == 1, len(ids)].append((prompt, ids))
    batches = [
        (sampled, group[start : start + BATCH])
        for (sampled, _), group in groups.items()
        for start in range(0, len(group), BATCH)
    ]
    random.Random(SEED).shuffle(batches)  # a part of the whole is to be like the whole
    number = len(list(folder.glob("*.jsonl")))
    for done, (sampled, batch) in enumerate(batches, start=1):
        encoded = [ids for _, ids in batch]
        texts = _answer(engine, encoded, new_tokens, sampled=sampled, seed=SEED + number)
        _write(
            folder / f"{number:05}.jsonl",
            [
                {"prompt": prompt, "prompt_ids": ids, "ids": text, "sampled": sampled}
                for (prompt, ids), text in zip(batch, texts, strict=True)
            ],
        )
        number += 1
        told(f"{done} of {len(batches)}: {sum(map(len, texts))} tokens\n")


def _write(path: Path, entries: Sequence[dict]) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
    fresh.replace(path)


def read_answers(folder: Path) -> Iterator[Answer]:
    """All answers in `folder`, in the order they were written."""
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            yield Answer(
                entry["prompt"], tuple(entry["prompt_ids"]), tuple(entry["ids"]), entry["sampled"]
            )


@torch.inference_mode()
def _answer(
    engine: Engine, encoded: Sequence[Sequence[int]], new_tokens: int, *, sampled: bool, seed: int
) -> list[tuple[int, ...]]:
    """Answers to prompts of one length, so that no row needs padding or a mask."""
    model, stops = engine.pair.target, engine.pair.stop_ids
    cache = Cache(layers=[RowLayer() for _ in decoder_layers(model)])
    generator = torch.Generator(model.device).manual_seed(seed)
    answers: list[list[int]] = [[] for _ in encoded]
    open_rows = list(range(len(encoded)))  # whose answer each row of the batch is
    feed = torch.tensor(encoded, device=model.device)
    for _ in range(new_tokens):
        logits = model(
            input_ids=feed, past_key_values=cache, use_cache=True, logits_to_keep=1
        ).logits[:, -1, : engine.pair.vocab_size]
        chosen = _sample(logits, generator) if sampled else logits.argmax(dim=-1)
        for row, token in zip(open_rows, chosen.tolist(), strict=True):
            if not (answers[row] and answers[row][-1] in stops):
                answers[row].append(token)
        going = [n for n, row in enumerate(open_rows) if answers[row][-1] not in stops]
        if not going:
            break
        if len(open_rows) - len(going) >= CLOSE_AT_ONCE:
            open_rows = [open_rows[n] for n in going]
            chosen = chosen[going]
            for layer in cache.layers:
                layer.select(going)
        feed = chosen[:, None]
    return [tuple(answer) for answer in answers]


def _sample(logits: Tensor, generator: torch.Generator) -> Tensor:
    """One token a row at temperature 0.8, top-p 0.95 among the likeliest `CANDIDATES`."""
    top = (logits.float() / TEMPERATURE).topk(CANDIDATES, dim=-1)
    p = top.values.softmax(dim=-1)
    p = p.masked_fill(p.cumsum(dim=-1) - p > TOP_P, 0.0)
    return top.indices.gather(-1, torch.multinomial(p, 1, generator=generator))[:, 0]
