"""Ratios against peers, measured in one interleaved run: never a test, always a table.

Every lane decodes the same prompts with the same weights, dtype, threads and budget. Prompt by
prompt all lanes take their turn, so a machine that drifts drifts for all of them; the order
rotates so that none always follows the same other.
"""

import platform
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import PreTrainedModel

from spork_demo.decoding.stopwatch import synchroniser
from spork_demo.engine import Engine
from spork_demo.metrics import measure
from spork_demo.settings import Settings, SettingsError
from spork_demo.trace import Trace, fold

PROMPTS = (
    "Write a short poem about a lighthouse.",
    "Explain how a bicycle stays upright.",
    "Write a Python function that returns the n-th Fibonacci number.",
    "List ten animals and the sound each makes.",
    "What is 17 times 23? Show the steps.",
    "Summarise the water cycle in five sentences.",
    "Write an HTML table of the planets and their moons.",
    "Give me a recipe for pancakes.",
)
"""Our own; the figures meant for comparison with others take a file of prompts instead."""

OURS = {
    "greedy": Settings(),
    "speculative_exact": Settings(method="speculative"),
    "spork_exact": Settings(method="spork"),
    "dspark_exact": Settings(method="dspark"),
}
PEERS: dict[str, dict[str, Any]] = {
    "transformers_greedy": {},
    "transformers_prompt_lookup": {"prompt_lookup_num_tokens": 4},
}


@dataclass(slots=True)
class Tally:
    """What one lane did over all prompts. Seconds are decoding without prefill for our lanes
    and the whole of `generate`, prefill included, for transformers; so are `whole_seconds`.
    """

    ids: list[tuple[int, ...]] = field(default_factory=list)
    whole_seconds: list[float] = field(default_factory=list)
    target_calls: int = 0
    rounds: int = 0

    @property
    def tokens(self) -> int:
        return sum(len(ids) for ids in self.ids)

    def rates(self) -> list[float]:
        """Tokens per second of each prompt, prefill included for everyone."""
        return [len(ids) / s for ids, s in zip(self.ids, self.whole_seconds, strict=True)]


Lane = Callable[[Sequence[int], Tally], None]


def run_bench(
    engine: Engine,
    stock: PreTrainedModel,
    prompts: Sequence[str],
    new_tokens: int,
    told: Callable[[str], None] = lambda _line: None,
) -> dict[str, Any]:
    """Run every lane over every prompt; returns the report `--json` writes.

    stock: the same target as transformers loads it, for the peers.
    """
    lanes = _lanes(engine, stock, new_tokens)
    tallies = {name: Tally() for name in lanes}
    encoded = [engine.encode(prompt, engine.pair.context_length) for prompt in prompts]
    engine.warm_up(tuple(encoded[0]))
    for lane in lanes.values():
        lane(encoded[0], Tally())
    for turn, ids in enumerate(encoded):
        names = list(lanes)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            lanes[name](ids, tallies[name])
        told(f"prompt {turn + 1} of {len(encoded)}")
    return _report(engine, tallies)


def _lanes(engine: Engine, stock: PreTrainedModel, new_tokens: int) -> dict[str, Lane]:
    lanes: dict[str, Lane] = {}
    for name, settings in OURS.items():
        try:
            settings = engine.resolve(Settings(**settings.to_plain() | _budget(new_tokens)))
        except SettingsError:
            continue
        lanes[name] = _ours(engine, settings)
    for name, options in PEERS.items():
        lanes[name] = _peer(stock, engine.pair.stop_ids, options, new_tokens)
    return lanes


def _budget(new_tokens: int) -> dict[str, int]:
    return {"max_new_tokens": new_tokens}


def _ours(engine: Engine, settings: Settings) -> Lane:
    def run(ids: Sequence[int], tally: Tally) -> None:
        trace = fold(Trace(settings, ""), engine.lane(settings, ids).events())
        figures = measure(trace)
        tally.ids.append(trace.ids)
        tally.whole_seconds.append(figures.prefill_seconds + figures.decode_seconds)
        tally.target_calls += figures.target_calls + 1
        tally.rounds += figures.rounds

    return run


def _peer(
    model: PreTrainedModel, stop_ids: frozenset[int], options: dict[str, Any], new_tokens: int
) -> Lane:
    synchronise = synchroniser(model.get_input_embeddings().weight.device)

    @torch.inference_mode()
    def run(ids: Sequence[int], tally: Tally) -> None:
        calls = 0

        def count(*_: Any) -> None:
            nonlocal calls
            calls += 1

        hook = model.register_forward_hook(count)
        inputs = torch.tensor([list(ids)], device=model.device)
        synchronise()
        begin = time.perf_counter()
        try:
            output = model.generate(
                input_ids=inputs,
                attention_mask=torch.ones_like(inputs),
                max_new_tokens=new_tokens,
                do_sample=False,
                eos_token_id=sorted(stop_ids) or None,
                **options,
            )
        finally:
            hook.remove()
        synchronise()
        tally.whole_seconds.append(time.perf_counter() - begin)
        tally.ids.append(tuple(output[0, len(ids) :].tolist()))
        tally.target_calls += calls
        tally.rounds += max(1, calls - 1)

    return run


def _report(engine: Engine, tallies: dict[str, Tally]) -> dict[str, Any]:
    greedy, peer = tallies["greedy"], tallies["transformers_greedy"]
    return {
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads, {engine.pair.device}",
        "dtype": engine.pair.dtype,
        "kernels": engine.pair.kernels,
        "prompts": len(greedy.ids),
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "lanes": {
            name: {
                "tokens_per_second": tally.tokens / sum(tally.whole_seconds),
                "slowest_prompt": min(tally.rates()),
                "fastest_prompt": max(tally.rates()),
                "ratio_to_greedy": _paired(tally, greedy),
                "ratio_to_transformers_greedy": _paired(tally, peer),
                "accepted_length": tally.tokens / tally.rounds,
                "target_calls": tally.target_calls,
                "identical_to_greedy": sum(map(_same, tally.ids, greedy.ids)),
            }
            for name, tally in tallies.items()
        },
    }


def _paired(tally: Tally, other: Tally) -> float:
    """Median over prompts of the ratio of tokens per second, prompt by prompt."""
    return statistics.median(a / b for a, b in zip(tally.rates(), other.rates(), strict=True))


def _same(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return one == other


def table(report: dict[str, Any]) -> str:
    """The report as lines of text."""
    head = (
        f"{report['machine']}, {report['dtype']}, our kernels {report['kernels']}, "
        f"{report['prompts']} prompts, "
        f"peak memory {report['peak_memory_mb']} MB"
    )
    columns = (
        "lane                          tok/s  x greedy  x transformers  tok/round  calls  same"
    )
    rows = [
        f"{name:28}{lane['tokens_per_second']:7.2f}{lane['ratio_to_greedy']:10.2f}"
        f"{lane['ratio_to_transformers_greedy']:16.2f}{lane['accepted_length']:11.2f}"
        f"{lane['target_calls']:7}{lane['identical_to_greedy']:6}"
        for name, lane in report["lanes"].items()
    ]
    return "\n".join([head, "", columns, *rows])
