"""Stand-ins small enough to know the right answer of: a table model, a tiny Llama, drafters."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from spork_demo.decoding.drafters.proposal import Proposal
from spork_demo.decoding.run import Run
from spork_demo.decoding.sampling import distribution, draw
from spork_demo.decoding.stopwatch import Stopwatch
from spork_demo.lanes import Lane
from spork_demo.models.cached_model import CachedModel, Scores
from spork_demo.models.dspark_config import DSparkConfig
from spork_demo.models.dspark_network import DSparkNetwork
from spork_demo.models.pair import Pair
from spork_demo.settings import Settings, resolve
from spork_demo.trace import Trace, fold

VOCABULARY = 64
LAYERS = 4


class NumberText:
    """Shows ids as numbers: decoding needs no tokenizer to be tested."""

    def push(self, token: int) -> str:
        return f"{token} "

    def flush(self) -> str:
        return ""

    def piece(self, token: int) -> str:
        return str(token)


class TableModel:
    """A target whose logits depend on the last two tokens only, read from a table.

    The surface of CachedModel, and its bookkeeping done naively: a list of committed tokens and
    one of pending rows.
    """

    def __init__(self, table: torch.Tensor) -> None:
        self.table = table  # [vocabulary, vocabulary, vocabulary]
        self.calls = 0
        self.device = table.device
        self.committed: list[int] = []
        self.waiting: list[tuple[int, int]] = []

    @property
    def length(self) -> int:
        return len(self.committed)

    @property
    def pending(self) -> int:
        return len(self.waiting)

    @property
    def rows(self) -> int:
        return self.length + self.pending

    def forward(self, tokens, parents=None, *, last_only=False, features=()) -> Scores:
        first = self.pending
        parents = range(first - 1, first - 1 + len(tokens)) if parents is None else parents
        rows = []
        for token, parent in zip(tokens, parents, strict=True):
            self.waiting.append((token, parent))
            before = self.waiting[parent][0] if parent >= 0 else (self.committed or [0])[-1]
            rows.append(self.table[before, token])
        self.calls += bool(tokens)
        return Scores(self.length, torch.stack(rows) if rows else self.table[0, :0])

    def commit(self, rows: Sequence[int]) -> None:
        self.committed += [self.waiting[row][0] for row in rows]
        self.waiting.clear()

    def rollback(self, to: int | None = None) -> None:
        self.waiting.clear()
        if to is not None:
            del self.committed[to:]


class ScriptedDrafter:
    """Proposes what a function of the committed tokens says: a chain, or (tokens, parents)."""

    features = ()

    def __init__(self, script, probability: float | None = 0.5) -> None:
        self.script = script
        self.probability = probability
        self.proposed = 0

    def propose(self, tokens, limit) -> Proposal:
        said = self.script(list(tokens))
        drafted, parents = said if isinstance(said, tuple) else (said, range(-1, len(said) - 1))
        kept = [n for n in range(len(drafted)) if _level(parents, n) <= limit]
        self.proposed += len(kept)
        return Proposal(
            tokens=tuple(drafted[n] for n in kept),
            parents=tuple(parents[n] for n in kept),
            probabilities=(self.probability,) * len(kept),
            sampled_from=(None,) * len(kept),
            source="script",
        )

    def observe(self, tokens, scores) -> None:
        pass


class SampledDrafter:
    """Draws a tree of given parents from a table of its own, keeping the exact q of every node."""

    features = ()

    def __init__(self, table: torch.Tensor, parents: Sequence[int], settings: Settings, generator):
        self.table, self.parents = table, tuple(parents)
        self.settings, self.generator = settings, generator

    def propose(self, tokens, limit) -> Proposal:
        kept = [n for n in range(len(self.parents)) if _level(self.parents, n) <= limit]
        drafted: list[int] = []
        sampled = []
        for n in kept:
            above = [tokens[-2], tokens[-1]]
            for m in _path(self.parents, n)[:-1]:
                above.append(drafted[m])
            q = distribution(self.table[above[-2], above[-1]][None], self.settings)[0]
            drafted.append(draw(q, self.generator))
            sampled.append(q)
        return Proposal(
            tokens=tuple(drafted),
            parents=self.parents[: len(kept)],
            probabilities=tuple(float(q[t]) for q, t in zip(sampled, drafted, strict=True)),
            sampled_from=tuple(sampled),
            source="sampled",
        )

    def observe(self, tokens, scores) -> None:
        pass


def _path(parents: Sequence[int], node: int) -> list[int]:
    path = []
    while node >= 0:
        path.append(node)
        node = parents[node]
    return path[::-1]


def _level(parents: Sequence[int], node: int) -> int:
    return len(_path(parents, node))


def table(vocabulary: int, seed: int, sharpness: float = 1.5) -> torch.Tensor:
    """Random logits for every pair of last tokens."""
    generator = torch.Generator().manual_seed(seed)
    return sharpness * torch.randn(vocabulary, vocabulary, vocabulary, generator=generator)


def tiny_llama(seed: int = 0, vocabulary: int = VOCABULARY, **options) -> LlamaForCausalLM:
    """A random Llama in float64, where one-by-one and batched logits agree to 1e-15."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        **{
            "vocab_size": vocabulary,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 256,
            "initializer_range": 0.3,
            **options,
        }
    )
    return LlamaForCausalLM(config).double().eval().requires_grad_(False)


def blurred(model: LlamaForCausalLM, noise: float, seed: int = 1) -> LlamaForCausalLM:
    """A draft model that mostly agrees with `model`."""
    torch.manual_seed(seed)
    twin = LlamaForCausalLM(model.config).double().eval().requires_grad_(False)
    weights = model.state_dict()
    twin.load_state_dict({k: w + noise * torch.randn_like(w) for k, w in weights.items()})
    return twin


def tiny_pair(target=None, draft=None, *, stop_ids=frozenset(), context: int = 256) -> Pair:
    target = target or tiny_llama()
    return Pair(
        name="tiny",
        target=target,
        draft=draft,
        tokenizer=None,
        vocab_size=VOCABULARY,
        stop_ids=frozenset(stop_ids),
        special_ids=frozenset(),
        context_length=context,
        draft_context_length=context if draft is not None else None,
        device="cpu",
        dtype="float64",
        target_name="tiny",
        draft_name="blurred" if draft is not None else None,
    )


def tiny_dspark(seed: int = 0, **changes) -> DSparkNetwork:
    """A random drafter of the Llama kind for `tiny_llama`, backbone in float64."""
    torch.manual_seed(seed)
    config = DSparkConfig(
        **{
            "vocab_rows": VOCABULARY,
            "hidden_size": 32,
            "intermediate_size": 64,
            "layers": 1,
            "heads": 4,
            "kv_heads": 2,
            "head_size": 8,
            "norm_eps": 1e-6,
            "rope_theta": 1e4,
            "max_positions": 256,
            "block_size": 4,
            "mask_token": VOCABULARY - 1,
            "feature_layers": (0, 2),
            "target_layers": LAYERS,
            "qk_norm": False,
            "markov_rank": 4,
            "confidence": True,
            "confidence_with_markov": True,
            **changes,
        }
    )
    network = DSparkNetwork(config).double()
    for head in filter(None, (network.markov_head, network.confidence_head)):
        head.float()
    return network.eval().requires_grad_(False)


def dspark_pair(network: DSparkNetwork | None = None, **options) -> Pair:
    """`tiny_pair` with a random DSpark drafter."""
    network = network or tiny_dspark()
    return replace(tiny_pair(**options), dspark=network, dspark_name="random")


def naive_greedy(model, prompt: Sequence[int], new: int, stop_ids=frozenset()) -> list[int]:
    """The oracle: no cache, no batch, one whole forward pass per token."""
    ids = list(prompt)
    for _ in range(new):
        ids.append(int(model(torch.tensor([ids])).logits[0, -1, :VOCABULARY].argmax()))
        if ids[-1] in stop_ids:
            break
    return ids[len(prompt) :]


def run_lane(pair: Pair, settings: Settings, prompt: Sequence[int], context: int = 256) -> Trace:
    """One lane, folded. Settings may hold `auto`."""
    settings = resolve(
        settings,
        has_draft_model=pair.draft is not None,
        has_dspark=pair.dspark is not None,
        layers=LAYERS,
    )
    lane = Lane(pair, settings, prompt, NumberText(), context)
    return fold(Trace(settings, "toy"), lane.events())


def table_run(model: TableModel, settings: Settings, prompt: Sequence[int], generator) -> Run:
    """A Run on a fake target."""
    return Run(
        settings=settings,
        prompt=prompt,
        target=model,
        stop_ids=frozenset(),
        context=10_000,
        generator=generator,
        watch=Stopwatch(),
        text=NumberText(),
    )


def real_run(model: CachedModel, settings: Settings, prompt: Sequence[int], stop_ids=()) -> Run:
    """A Run on a tiny real target, for scripted drafters."""
    return Run(
        settings=settings,
        prompt=prompt,
        target=model,
        stop_ids=frozenset(stop_ids),
        context=256,
        generator=torch.Generator().manual_seed(0),
        watch=Stopwatch(),
        text=NumberText(),
    )
