"""One loaded pair and what it can do: encode a prompt, run lanes, compare them, say where."""

import datetime
import functools
import logging
import math
from collections.abc import Iterator, Sequence

import torch
import transformers
from transformers import PreTrainedModel

from spork_demo.cells import Cell
from spork_demo.decoding.measured_costs import CostTables
from spork_demo.fidelity import compare
from spork_demo.lanes import Lane
from spork_demo.models.cached_model import CachedModel
from spork_demo.models.dspark_context import Context
from spork_demo.models.memory import free_memory, out_of_memory
from spork_demo.models.pair import Pair
from spork_demo.models.text import Codec, Stream
from spork_demo.race import interleave
from spork_demo.settings import Settings, resolve
from spork_demo.sweep import Sweep, sweep
from spork_demo.trace import LaneEvent, Provenance, Race, Trace, advance, finite

logger = logging.getLogger(__name__)

APP_VERSION = "0.1.0"
WARM_UP_ROWS = (1, 2, 4, 8, 16, 32)
NOISE_PROBE = (504, 253, 3575, 338, 260, 2240, 282, 3) * 3
"""Any tokens will do, but more than the rows up to which some kernels of a few rows agree."""


class LaneText:
    """A lane's ids to text: committed ones as a stream, drafted ones on their own."""

    def __init__(self, codec: Codec) -> None:
        stream = Stream(codec)
        self.push, self.flush, self.piece = stream.push, stream.flush, codec.piece


class Engine:
    """One loaded pair. Everything that changes during a run lives in that run's lanes."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.codec = Codec(pair.tokenizer, pair.special_ids)
        self.layers = CachedModel(pair.target, pair.vocab_size).depth
        self.costs = CostTables(pair)

    def resolve(self, settings: Settings) -> Settings:
        """Settings without `auto`, or SettingsError when this pair cannot serve them."""
        return resolve(
            settings,
            has_draft_model=self.pair.draft is not None,
            has_dspark=self.pair.dspark is not None,
            merges=self.pair.dspark is not None and self.pair.dspark.config.mixture is not None,
            counted=self.pair.ngram_table is not None,
            layers=self.layers,
        )

    def encode(self, prompt: str, limit: int, *, raw: bool = False) -> list[int]:
        """Prompt ids; ValueError with a sentence when blank or longer than `limit` tokens."""
        return self.codec.encode_prompt(prompt, raw=raw, limit=min(limit, self._longest_prompt()))

    def lane(self, settings: Settings, prompt: Sequence[int]) -> Lane:
        text = LaneText(self.codec)
        return Lane(self.pair, settings, prompt, text, self.pair.context_length, self.costs)

    def warm_up(
        self, prompt: Sequence[int] = tuple(range(3, 35)), lanes: Sequence[Settings] = ()
    ) -> None:
        """Run every kind of call of these lanes once, off the clock: the first of each is slow."""
        dspark = self.pair.dspark
        features = dspark.config.feature_layers if dspark is not None else ()
        exits = sorted({lane.verifier_layers for lane in lanes if lane.exits_early})
        held = []  # at once: what is recorded on a GPU belongs to the cache of one lane
        for _ in lanes if self.pair.device.startswith("cuda") and lanes else (None,):
            held.append(self._warmed(self.pair.target, prompt, features))
            for exit_ in exits:
                _every_shape(held[-1].early_exit(exit_), prompt[-1])
            if self.pair.draft is not None:
                held.append(self._warmed(self.pair.draft, prompt))
        if dspark is not None:
            Context(dspark).block(prompt[-1])

    def _warmed(
        self, model: PreTrainedModel, prompt: Sequence[int], features: Sequence[int] = ()
    ) -> CachedModel:
        cached = CachedModel(model, self.pair.vocab_size)
        cached.forward(prompt[:-1], last_only=True, features=features)
        cached.commit(range(cached.pending))
        _every_shape(cached, prompt[-1], features)
        return cached

    @functools.cached_property
    def noise(self) -> float:
        """How far a logit of the target moves, at most, between a call of several rows and calls
        of one. In bfloat16 that is what can tip a near-tie; our kernels do not move at all.
        """
        cached = CachedModel(self.pair.target, self.pair.vocab_size)
        ids = [token % self.pair.vocab_size for token in NOISE_PROBE]
        together = cached.forward(ids).logits
        cached.rollback()
        alone = torch.cat([cached.forward([token]).logits for token in ids])
        return float((together - alone).abs().max())

    def perplexity(self, prompt: Sequence[int], ids: Sequence[int]) -> float | None:
        """Perplexity of `ids` after `prompt` under the target, in one pass; None for no ids, and
        where that pass does not fit into memory: the race is over and its texts are worth more.
        """
        if not ids:
            return None
        try:
            cached = CachedModel(self.pair.target, self.pair.vocab_size)
            cached.forward(prompt[:-1], last_only=True)
            cached.commit(range(cached.pending))
            logits = cached.forward([prompt[-1], *ids[:-1]]).logits
            chosen = torch.tensor(list(ids), device=logits.device)
            return math.exp(float(torch.nn.functional.cross_entropy(logits, chosen)))
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            logger.warning("no memory for a perplexity of %d tokens", len(ids))
        free_memory()
        return None

    def provenance(self) -> Provenance:
        """What figures measured now were measured on."""
        return Provenance(
            app=APP_VERSION,
            target=self.pair.target_name,
            draft=self.pair.draft_name or "",
            dspark=self.pair.dspark_name or "",
            device=device_name(self.pair.device),
            dtype=self.pair.dtype,
            kernels=self.pair.kernels,
            threads=torch.get_num_threads(),
            torch=torch.__version__,
            transformers=transformers.__version__,
            date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            noise=finite(self.noise),
        )

    def _longest_prompt(self) -> int:
        return self.pair.context_length - 1


def _every_shape(cached: CachedModel, token: int, features: Sequence[int] = ()) -> None:
    for rows in WARM_UP_ROWS:
        cached.forward([token] * rows, [-1] * rows, features=features)
        cached.rollback()


def empty_race(
    engine: Engine, prompt: str, lanes: Sequence[Settings], labels: Sequence[str]
) -> Race:
    """The race before its first event."""
    provenance = engine.provenance()
    traces = [
        Trace(settings=settings, prompt=prompt, label=label, provenance=provenance)
        for settings, label in zip(lanes, labels, strict=True)
    ]
    return Race(title=prompt.strip()[:80], lanes=tuple(traces))


def run_lanes(engine: Engine, race: Race, ids: Sequence[int]) -> Iterator[LaneEvent]:
    """All lanes of `race`, interleaved, then the comparison with the greedy lane."""
    engine.warm_up(tuple(ids), [trace.settings for trace in race.lanes])
    lanes = [engine.lane(trace.settings, ids).events() for trace in race.lanes]
    for news in interleave(lanes):
        race = advance(race, news)
        yield news
    yield from compare(race, lambda tokens: engine.perplexity(ids, tokens))


def sweep_lanes(
    engine: Engine, prompts: Sequence[str], grid: Sequence[Cell], limit: int, repeats: int = 1
) -> Iterator[Sweep]:
    """A sweep whose races run on `engine`; everything is checked before the first.

    Raises SettingsError when the pair cannot serve a cell, ValueError for a prompt.
    """
    for cell in grid:
        engine.resolve(cell.settings)
    encoded = {prompt: engine.encode(prompt, limit) for prompt in prompts}

    def run(prompt: str, lanes: Sequence[Settings]) -> Iterator[Race | LaneEvent]:
        resolved = [engine.resolve(settings) for settings in lanes]
        race = empty_race(engine, prompt, resolved, [""] * len(lanes))
        yield race
        yield from run_lanes(engine, race, encoded[prompt])

    yield from sweep(run, prompts, grid, repeats)


def device_name(device: str) -> str:
    """A name a reader knows: the GPU's own, or CPU."""
    if device.startswith("cuda"):
        return torch.cuda.get_device_name(torch.device(device))
    return device.upper()
