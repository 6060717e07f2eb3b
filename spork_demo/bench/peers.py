"""`transformers` generate as a lane: what everybody has without us."""

import time
from collections.abc import Sequence
from typing import Any

import torch

from spork_demo.bench.tally import Lane, Tally
from spork_demo.decoding.stopwatch import synchroniser
from spork_demo.models.layers import decoder_layers
from spork_demo.models.pair import Pair

EXIT_SHARE = 2 / 3
"""How much of the model the early-exit assistant runs; the settings of others vary about it."""


def peers(pair: Pair, new_tokens: int) -> dict[str, Lane]:
    """Greedy, prompt lookup, early exit, and assisted generation where there is a draft model."""
    layers = len(decoder_layers(pair.target))
    options: dict[str, dict[str, Any]] = {
        "transformers_greedy": {},
        "transformers_prompt_lookup": {"prompt_lookup_num_tokens": 4},
        "transformers_early_exit": {"assistant_early_exit": max(1, int(EXIT_SHARE * layers))},
    }
    if pair.draft is not None:
        options["transformers_assisted"] = {"assistant_model": pair.draft}
    return {name: _peer(pair, each, new_tokens) for name, each in options.items()}


def _peer(pair: Pair, options: dict[str, Any], new_tokens: int) -> Lane:
    model = pair.target
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
                eos_token_id=sorted(pair.stop_ids) or None,
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
