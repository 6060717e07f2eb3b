"""The target writes prompts itself: with only the start of a user's turn before it, a chat model
says what it was taught that users say (Magpie, arXiv 2406.08464). Far more varied than templates.
"""

import json
from collections.abc import Callable
from pathlib import Path

import torch
from transformers import Cache

from spork_demo.engine import Engine
from spork_demo.models.layers import decoder_layers
from spork_demo.models.row_cache import RowLayer
from spork_demo.train.data import BATCH, close_rows, sample

LONGEST, SHORTEST = 48, 4
"""Tokens of a prompt; one that is not over by then is left out."""
TEMPERATURE = 1.0
SEED = 4_711
KEPT_APART_EVERY = 50
"""One prompt in so many is never answered for training; see `kept_apart`."""


def ask(
    engine: Engine, path: Path, count: int, told: Callable[[str], None] = lambda _line: None
) -> None:
    """Write at least `count` different prompts to `path`, one JSON string a line; a file that is
    there already is added to.
    """
    seen = dict.fromkeys(read_asked(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    while len(seen) < count:
        before = len(seen)
        # the seed follows from what is there, so that a run that goes on repeats nothing
        seen |= dict.fromkeys(_prompts(engine, SEED + before))
        fresh = path.with_suffix(".new")
        lines = [json.dumps(prompt, ensure_ascii=False) for prompt in seen]
        fresh.write_text("\n".join(lines) + "\n", encoding="utf-8")
        fresh.replace(path)
        told(f"{len(seen)} of {count} prompts\n")
        if len(seen) == before:
            raise ValueError("The target asks nothing new.")


def read_asked(path: Path) -> list[str]:
    """All prompts in `path`, in order; none when there is no such file."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def to_answer(asked: list[str]) -> list[str]:
    """The prompts that may be answered for training."""
    return [prompt for n, prompt in enumerate(asked) if n % KEPT_APART_EVERY]


def kept_apart(asked: list[str]) -> list[str]:
    """The prompts that nothing is trained on."""
    return asked[::KEPT_APART_EVERY]


@torch.inference_mode()
def _prompts(engine: Engine, seed: int) -> list[str]:
    """One batch of prompts. All rows grow by a token a call, so none needs padding or a mask."""
    model, stops = engine.pair.target, engine.pair.stop_ids
    generator = torch.Generator(model.device).manual_seed(seed)
    cache = Cache(layers=[RowLayer() for _ in decoder_layers(model)])
    feed = torch.tensor([engine.codec.turn_head()] * BATCH, device=model.device)
    said: list[list[int]] = [[] for _ in range(BATCH)]
    open_rows = list(range(BATCH))
    for _ in range(LONGEST):
        logits = model(input_ids=feed, cache=cache, use_cache=True, logits_to_keep=1).logits
        logits = logits[:, -1, : engine.pair.vocab_size].float()
        chosen = sample(logits, generator, TEMPERATURE)
        for row, token in zip(open_rows, chosen.tolist(), strict=True):
            if not (said[row] and said[row][-1] in stops):
                said[row].append(token)
        going = [n for n, row in enumerate(open_rows) if said[row][-1] not in stops]
        open_rows, chosen = close_rows(cache, open_rows, going, chosen)
        if not going:
            break
        feed = chosen[:, None]
    ended = [row[:-1] for row in said if row[-1] in stops and len(row) > SHORTEST]
    return [
        engine.codec.decode(ids).strip() for ids in ended if not engine.pair.special_ids & set(ids)
    ]
