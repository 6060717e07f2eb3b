"""The target answers our prompts: the text that tables are counted on and drafters learn from,
with the features drafters read and the distributions they are to match.

Half of the answers are greedy, half sampled. Shards are written whole or not at all, and prompts
that have an answer are skipped, so a run that was interrupted goes on where it stopped.
"""

import contextlib
import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from transformers import Cache

from spork_demo.engine import Engine
from spork_demo.models.layers import decoder_layers
from spork_demo.models.row_cache import RowLayer

BATCH = 128
CLOSE_AT_ONCE = 32
"""Finished rows leave the batch in groups: every new shape costs memory that stays."""
SEED = 20_260
NEW_TOKENS = 128
TEMPERATURE, TOP_P, CANDIDATES = 0.8, 0.95, 256
LIKELIEST = 32
"""Entries kept of each of the target's distributions."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One prompt with the target's answer, as ids; `sampled` at temperature 0.8, top-p 0.95."""

    prompt: str
    prompt_ids: tuple[int, ...]
    ids: tuple[int, ...]
    sampled: bool


@dataclass(slots=True)
class Spoken:
    """An answer in the making. features: [rows, taps * hidden size] of each call, prompt first;
    likeliest, chances: the target's first ids [LIKELIEST] and their probabilities for each token.
    """

    ids: list[int] = field(default_factory=list)
    features: list[Tensor] = field(default_factory=list)
    likeliest: list[Tensor] = field(default_factory=list)
    chances: list[Tensor] = field(default_factory=list)

    def add(self, token: int, features: Tensor, likeliest: Tensor, chances: Tensor) -> None:
        self.ids.append(token)
        self.features.append(features)
        self.likeliest.append(likeliest)
        self.chances.append(chances)


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """An answer with what the target felt and thought while it wrote.

    features: [prompt + answer - 1, taps * hidden size] bfloat16 as uint16, outputs of
        `tapped_layers` for every token but the last.
    likeliest, chances: [answer, LIKELIEST], the target's distribution (temperature 1) each token
        of the answer was taken from.
    """

    answer: Answer
    features: np.ndarray
    likeliest: np.ndarray
    chances: np.ndarray


def make_answers(
    engine: Engine,
    folder: Path,
    listed: Sequence[str],
    new_tokens: int = NEW_TOKENS,
    told: Callable[[str], None] = lambda _line: None,
) -> None:
    """Answer every prompt that has no answer in `folder` yet, one shard per batch."""
    folder.mkdir(parents=True, exist_ok=True)
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
    batches.sort(key=lambda each: len(each[1]) < BATCH)  # whole batches first: they are fast
    number = len(list(folder.glob("*.jsonl")))
    for done, (sampled, batch) in enumerate(batches, start=1):
        encoded = [ids for _, ids in batch]
        texts = _answer(engine, encoded, new_tokens, sampled=sampled, seed=SEED + number)
        _write(folder / f"{number:05}", batch, texts, sampled)
        number += 1
        told(f"{done} of {len(batches)}: {sum(len(text.ids) for text in texts)} tokens\n")


def _write(
    stem: Path, batch: Sequence[tuple[str, list[int]]], texts: Sequence[Spoken], sampled: bool
) -> None:
    """Arrays first: a shard counts from the moment its text is there."""
    kind = np.uint16 if max(max(t.ids) for t in texts) <= np.iinfo(np.uint16).max else np.uint32
    rows = [torch.cat(text.features) for text in texts]
    arrays = {
        "features": torch.cat(rows).bfloat16().view(torch.uint16).cpu().numpy(),
        "likeliest": torch.cat([torch.stack(t.likeliest) for t in texts])
        .cpu()
        .numpy()
        .astype(kind),
        "chances": torch.cat([torch.stack(t.chances) for t in texts]).cpu().numpy().astype("f2"),
    }
    for name, array in arrays.items():
        np.save(stem.with_suffix(f".{name}.npy"), array)
    lines = [
        json.dumps({"prompt": prompt, "prompt_ids": ids, "ids": text.ids, "sampled": sampled})
        for (prompt, ids), text in zip(batch, texts, strict=True)
    ]
    fresh = stem.with_suffix(".new")
    fresh.write_text("\n".join(lines) + "\n", encoding="utf-8")
    fresh.replace(stem.with_suffix(".jsonl"))


def read_answers(folder: Path) -> Iterator[Answer]:
    """All answers in `folder`, in the order they were written."""
    for path in sorted(folder.glob("*.jsonl")):
        yield from _answers(path)


def read_lessons(folder: Path) -> Iterator[Lesson]:
    """The answers whose features were kept. Arrays stay on disk until they are looked at."""
    for path in sorted(folder.glob("*.jsonl")):
        names = [path.with_suffix(f".{name}.npy") for name in ("features", "likeliest", "chances")]
        if not all(name.exists() for name in names):
            continue
        features, likeliest, chances = (np.load(name, mmap_mode="r") for name in names)
        row = token = 0
        for answer in _answers(path):
            rows, tokens = len(answer.prompt_ids) + len(answer.ids) - 1, len(answer.ids)
            yield Lesson(
                answer,
                features[row : row + rows],
                likeliest[token : token + tokens],
                chances[token : token + tokens],
            )
            row, token = row + rows, token + tokens


def _answers(path: Path) -> Iterator[Answer]:
    for line in path.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        ids = tuple(entry["prompt_ids"]), tuple(entry["ids"])
        yield Answer(entry["prompt"], *ids, entry["sampled"])


@torch.inference_mode()
def _answer(
    engine: Engine, encoded: Sequence[Sequence[int]], new_tokens: int, *, sampled: bool, seed: int
) -> list[Spoken]:
    """Answers to prompts of one length, so that no row needs padding or a mask."""
    model, stops = engine.pair.target, engine.pair.stop_ids
    layers = decoder_layers(model)
    cache = Cache(layers=[RowLayer() for _ in layers])
    generator = torch.Generator(model.device).manual_seed(seed)
    spoken = [Spoken() for _ in encoded]
    open_rows = list(range(len(encoded)))  # whose answer each row of the batch is
    feed = torch.tensor(encoded, device=model.device)
    for _ in range(new_tokens):
        with _listening(layers, tapped_layers(len(layers))) as heard:
            logits = (
                model(input_ids=feed, cache=cache, use_cache=True, logits_to_keep=1)
                .logits[:, -1, : engine.pair.vocab_size]
                .float()
            )
        features = torch.cat(heard, dim=-1)
        top = logits.softmax(dim=-1).topk(LIKELIEST, dim=-1)
        chosen = sample(logits, generator, TEMPERATURE) if sampled else top.indices[:, 0]
        for place, (row, token) in enumerate(zip(open_rows, chosen.tolist(), strict=True)):
            if not (spoken[row].ids and spoken[row].ids[-1] in stops):
                spoken[row].add(token, features[place], top.indices[place], top.values[place])
        going = [n for n, row in enumerate(open_rows) if spoken[row].ids[-1] not in stops]
        if not going:
            break
        open_rows, chosen = close_rows(cache, open_rows, going, chosen)
        feed = chosen[:, None]
    return spoken


def close_rows(
    cache: Cache, open_rows: list[int], going: list[int], chosen: Tensor
) -> tuple[list[int], Tensor]:
    """Once enough rows of a batch are finished, go on with those in `going` alone."""
    if not going or len(open_rows) - len(going) < CLOSE_AT_ONCE:
        return open_rows, chosen
    for layer in cache.layers:
        layer.select(going)
    return [open_rows[n] for n in going], chosen[going]


def tapped_layers(layers: int) -> tuple[int, ...]:
    """Three layers evenly spaced from the second to the third last, as in the DSpark releases."""
    return tuple(round(1 + step * (layers - 4) / 2) for step in range(3))


@contextlib.contextmanager
def _listening(layers: nn.ModuleList, taps: Sequence[int]) -> Iterator[list[Tensor]]:
    """Collect the outputs [batch, rows, hidden size] of `taps` during one call."""
    heard: list[Tensor] = []

    def keep(_module, _inputs, output) -> None:
        heard.append(output[0] if isinstance(output, tuple) else output)

    hooks = [layers[tap].register_forward_hook(keep) for tap in taps]
    try:
        yield heard
    finally:
        for hook in hooks:
            hook.remove()


def sample(logits: Tensor, generator: torch.Generator, temperature: float) -> Tensor:
    """One token a row, top-p 0.95 among the likeliest `CANDIDATES`."""
    top = (logits / temperature).topk(min(CANDIDATES, logits.shape[-1]), dim=-1)
    p = top.values.softmax(dim=-1)
    p = p.masked_fill(p.cumsum(dim=-1) - p > TOP_P, 0.0)
    return top.indices.gather(-1, torch.multinomial(p, 1, generator=generator))[:, 0]
