"""The target answers our prompts: the text that tables are counted on and drafters learn from.

Half of the answers are greedy, half sampled. Shards are written whole or not at all, so a run
that was interrupted goes on where it stopped.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from spork_demo.engine import Engine
from spork_demo.train.prompts import held_out_prompts, training_prompts

BATCH = 48
PAD_TO = 32
"""Prompt lengths are padded to multiples of this: every new shape costs memory that stays."""
SEED = 20_260
NEW_TOKENS = 192


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
    """Write one shard per batch of prompts into `folder`, skipping those already there."""
    folder.mkdir(parents=True, exist_ok=True)
    listed = held_out_prompts(prompts, SEED + 1) if held_out else training_prompts(prompts, SEED)
    shards = [listed[start : start + BATCH] for start in range(0, len(listed), BATCH)]
    for number, shard in enumerate(shards):
        path = folder / f"{number:05}.jsonl"
        if path.exists():
            continue
        answers = _answer(engine, shard, new_tokens, sampled=number % 2 == 1, seed=SEED + number)
        lines = [
            json.dumps(
                {"prompt": a.prompt, "prompt_ids": a.prompt_ids, "ids": a.ids, "sampled": a.sampled}
            )
            for a in answers
        ]
        fresh = path.with_suffix(".new")
        fresh.write_text("\n".join(lines) + "\n", encoding="utf-8")
        fresh.replace(path)
        told(f"{number + 1} of {len(shards)}: {sum(len(a.ids) for a in answers)} tokens\n")


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
    engine: Engine, prompts: Sequence[str], new_tokens: int, *, sampled: bool, seed: int
) -> list[Answer]:
    encoded = [engine.encode(prompt, engine.pair.context_length) for prompt in prompts]
    width = -(-max(map(len, encoded)) // PAD_TO) * PAD_TO
    stops = sorted(engine.pair.stop_ids)
    pad = stops[0] if stops else 0
    device = engine.pair.target.device
    inputs = torch.tensor([[pad] * (width - len(ids)) + ids for ids in encoded], device=device)
    mask = torch.tensor([[0] * (width - len(ids)) + [1] * len(ids) for ids in encoded])
    options = {"do_sample": True, "temperature": 0.8, "top_p": 0.95} if sampled else {}
    with torch.random.fork_rng():  # generate takes no generator of its own
        torch.random.default_generator.manual_seed(seed)
        output = engine.pair.target.generate(
            input_ids=inputs,
            attention_mask=mask.to(device),
            max_new_tokens=new_tokens,
            pad_token_id=pad,
            eos_token_id=stops or None,
            **({"do_sample": False} | options),
        )
    rows = output[:, width:].tolist()
    return [
        Answer(prompt, tuple(ids), _until_stop(row, engine.pair.stop_ids), sampled)
        for prompt, ids, row in zip(prompts, encoded, rows, strict=True)
    ]


def _until_stop(row: Sequence[int], stop_ids: frozenset[int]) -> tuple[int, ...]:
    ends = [place for place, token in enumerate(row) if token in stop_ids]
    return tuple(row[: ends[0] + 1]) if ends else tuple(row)
