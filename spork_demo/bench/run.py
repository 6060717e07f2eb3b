"""Ratios against peers, measured in one interleaved run: never a test, always a table.

Every lane decodes the same prompts with the same weights, dtype, threads and budget. Prompt by
prompt all lanes take their turn, so a machine that drifts drifts for all of them; the order
rotates so that none always follows the same other.
"""

import dataclasses
import platform
import resource
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import torch

from spork_demo.bench.calls import call_costs
from spork_demo.bench.peers import peers
from spork_demo.bench.tally import Lane, Tally
from spork_demo.engine import Engine
from spork_demo.metrics import measure
from spork_demo.models.pair import Pair
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


def run_bench(
    engine: Engine,
    stock: Pair,
    prompts: Sequence[str],
    new_tokens: int,
    told: Callable[[str], None] = lambda _line: None,
) -> dict[str, Any]:
    """Run every lane over every prompt; returns the report `--json` writes.

    stock: the same models as transformers loads them, for the peers.
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
    return _report(engine, tallies) | call_costs(engine.pair, stock.target)


def _lanes(engine: Engine, stock: Pair, new_tokens: int) -> dict[str, Lane]:
    lanes: dict[str, Lane] = {}
    for name, settings in OURS.items():
        try:
            settings = engine.resolve(dataclasses.replace(settings, max_new_tokens=new_tokens))
        except SettingsError:
            continue
        lanes[name] = _ours(engine, settings)
    return lanes | peers(stock, new_tokens)


def _ours(engine: Engine, settings: Settings) -> Lane:
    def run(ids: Sequence[int], tally: Tally) -> None:
        trace = fold(Trace(settings, ""), engine.lane(settings, ids).events())
        figures = measure(trace)
        tally.ids.append(trace.ids)
        tally.whole_seconds.append(figures.prefill_seconds + figures.decode_seconds)
        tally.target_calls += figures.target_calls + 1
        tally.rounds += figures.rounds

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
                "identical_to_transformers_greedy": sum(map(_same, tally.ids, peer.ids)),
            }
            for name, tally in tallies.items()
        },
    }


def _paired(tally: Tally, other: Tally) -> float:
    """Median over prompts of the ratio of tokens per second, prompt by prompt."""
    return statistics.median(a / b for a, b in zip(tally.rates(), other.rates(), strict=True))


def _same(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return one == other
