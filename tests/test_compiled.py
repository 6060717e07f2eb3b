"""Our own kernels against transformers, and what only they promise: rows know no neighbours."""

import copy
import random
import shutil
import subprocess

import pytest
import torch
from torch import nn
from transformers import LlamaConfig

from spork_demo.models import compiled, memory, native
from spork_demo.models.cached_model import CachedModel
from spork_demo.models.compiled import compile_model, compiled_of
from spork_demo.models.compiled_dspark import compile_dspark
from spork_demo.models.compiled_linear import RowsLinear, pack_linear
from spork_demo.models.dspark_context import Context
from spork_demo.models.top import best_tokens, likeliest
from spork_demo.settings import Settings
from tests.families import FAMILIES, IDS, PARENTS, SIZES, stock
from tests.missing import missing
from tests.toys import VOCABULARY, run_lane, tiny_dspark, tiny_llama, tiny_pair


@pytest.fixture(autouse=True)
def needs_a_compiler():
    if native.kernels() is None:
        missing("no C++ compiler")


def ours(model):
    twin = copy.deepcopy(model)
    assert compile_model(twin)
    return CachedModel(twin, VOCABULARY)


@pytest.mark.parametrize("rows", [1, 2, 11, 12, 13, 30])
@pytest.mark.parametrize(("inputs", "outputs"), [(48, 80), (33, 32), (64, 7)])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", [native.FLOAT32, native.BFLOAT16, native.INT8])
def test_products_of_every_shape_and_kind(rows, inputs, outputs, bias, kind):
    torch.manual_seed(rows)
    linear = nn.Linear(inputs, outputs, bias=bias).requires_grad_(False)
    states = torch.randn(1, rows, inputs)
    got = RowsLinear(pack_linear([linear], kind))(states)
    assert got.shape == (1, rows, outputs)
    weight = linear.weight.double()
    if kind == native.BFLOAT16:
        weight, states = weight.bfloat16().double(), states.bfloat16()
    if kind == native.INT8:
        scale = weight.abs().amax(dim=1, keepdim=True) / 127
        weight = (weight / scale).round() * scale
    wanted = states.double() @ weight.T + (linear.bias.double() if bias else 0.0)
    assert torch.allclose(got.double(), wanted, atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_says_what_transformers_says(family):
    model = stock(FAMILIES[family])
    plain, fast = CachedModel(model, VOCABULARY), ours(model)
    prompt = [n % VOCABULARY for n in range(3, 160)]  # longer than one chunk
    for feed in (
        lambda cached: cached.forward(prompt, last_only=True),
        lambda cached: cached.forward(IDS, PARENTS, features=(0, 2)),
        lambda cached: cached.forward(IDS[:3]),
    ):
        wanted, got = feed(plain), feed(fast)
        assert got.logits.shape == wanted.logits.shape
        assert torch.allclose(got.logits, wanted.logits, atol=2e-4, rtol=1e-4)
        for layer, states in wanted.features.items():
            assert torch.allclose(got.features[layer], states, atol=1e-3, rtol=1e-3)
        if plain.pending == len(prompt):
            plain.commit(range(len(prompt)))
            fast.commit(range(len(prompt)))


def test_a_long_chunked_chain_gives_every_row_and_feature():
    model = stock()
    ids = [(7 * n) % VOCABULARY for n in range(150)]
    got = ours(model).forward(ids, features=(1,))
    wanted = model(torch.tensor([ids]), output_hidden_states=True)
    assert torch.allclose(got.logits, wanted.logits[0], atol=2e-4)
    assert torch.allclose(got.features[1], wanted.hidden_states[2][0], atol=1e-3, rtol=1e-3)


def test_early_exits_read_the_same_rows():
    model = stock()
    views = []
    for cached in (CachedModel(model, VOCABULARY), ours(model)):
        cached.forward(IDS)
        cached.commit(range(len(IDS)))
        views.append(cached.early_exit(2))
    for tokens, parents in (([7], None), ([8, 9], [0, 0])):
        plain, fast = (view.forward(tokens, parents).logits for view in views)
        assert torch.allclose(plain, fast, atol=2e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_row_is_the_same_bit_for_bit_whatever_is_beside_it(dtype):
    cached = ours(stock(dtype=dtype))
    cached.forward(list(range(20)), last_only=True)
    cached.commit(range(20))
    together = cached.forward(IDS, PARENTS).logits
    cached.rollback()
    for leaf in (3, 6, 7):
        path = [leaf]
        while PARENTS[path[0]] >= 0:
            path.insert(0, PARENTS[path[0]])
        for node in path:  # one call a token, at another place of the cache
            alone = cached.forward([IDS[node]]).logits[0]
            assert torch.equal(alone, together[node])
        cached.rollback()
    torch.set_num_threads(2)
    try:
        assert torch.equal(cached.forward(IDS, PARENTS).logits, together)
    finally:
        torch.set_num_threads(1)


@pytest.mark.parametrize("seed", range(4))
def test_any_history_of_trees_leaves_the_cache_of_the_committed_text(seed):
    model, choose = stock(seed=seed), random.Random(seed)
    cached, text = ours(model), []
    for _ in range(12):
        size = choose.randint(1, 20)
        tokens = [choose.randrange(VOCABULARY) for _ in range(size)]
        parents = [choose.randint(-1, place - 1) for place in range(size)]
        cached.forward(tokens, parents)
        path = [choose.randrange(size)]
        while parents[path[0]] >= 0:
            path.insert(0, parents[path[0]])
        if choose.random() < 0.2:
            cached.rollback()
            continue
        cached.commit(path)
        text += [tokens[node] for node in path]
    fresh = CachedModel(cached.model, VOCABULARY)
    fresh.forward(text, last_only=True)
    fresh.commit(range(len(text)))
    assert cached.length == len(text)
    assert torch.equal(cached.forward([1, 2]).logits, fresh.forward([1, 2]).logits)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "settings",
    [
        Settings(method="spork", drafter="ngram", max_new_tokens=60),
        Settings(method="spork", drafter="target", fork_width=3, fork_depth=2, max_new_tokens=60),
        Settings(method="speculative", drafter="early_exit", verifier_layers=2, max_new_tokens=60),
        Settings(method="speculative", drafter="draft_model", max_new_tokens=60),
    ],
    ids=lambda settings: f"{settings.method}-{settings.drafter}",
)
def test_exact_lanes_are_greedy_in_every_dtype(dtype, settings):
    target, draft = stock(dtype=dtype), stock(dtype=dtype, seed=7)
    assert compile_model(target) and compile_model(draft)
    pair = tiny_pair(target, draft)
    for prompt in ([1, 2, 3, 1, 2], [9], list(range(40))):
        wanted = run_lane(pair, Settings(max_new_tokens=60), prompt)
        assert run_lane(pair, settings, prompt).ids == wanted.ids


def test_weights_live_in_one_place_and_an_empty_layer_says_so():
    model = stock()
    assert compile_model(model)
    assert compiled_of(model) is not None
    assert not [layer for layer in model.modules() if type(layer) is nn.Linear]
    with pytest.raises(RuntimeError, match="runs compiled"):
        model(torch.tensor([[1, 2]]))


@pytest.mark.parametrize("token", [-1, VOCABULARY, 2**40])
def test_a_token_that_is_none_reads_no_memory(token):
    cached = ours(stock())
    with pytest.raises(IndexError, match="outside the vocabulary"):
        cached.forward([1, token, 2])
    cached.rollback()
    assert torch.isfinite(cached.forward([1, 2]).logits).all()


@pytest.mark.parametrize(
    "model",
    [
        tiny_llama(),  # float64
        stock(LlamaConfig(**{**SIZES, "hidden_act": "gelu"})),
        stock(LlamaConfig(**{**SIZES, "hidden_size": 48})),  # heads of 12
        stock(
            LlamaConfig(
                **SIZES,
                rope_parameters={"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0},
            )
        ),
    ],
    ids=["float64", "gelu", "odd heads", "positions that change"],
)
def test_a_model_the_kernels_cannot_serve_is_left_as_it_is(model):
    before = model(torch.tensor([IDS])).logits
    assert not compile_model(model)
    assert torch.equal(model(torch.tensor([IDS])).logits, before)


@pytest.mark.parametrize(
    ("told", "wanted"),
    [("MemTotal: 9 kB\nMemAvailable:     7 kB\n", 7168), ("MemTotal: 9 kB\n", None), ("", None)],
)
def test_a_model_that_does_not_fit_twice_is_left_as_it_is(told, wanted, monkeypatch, tmp_path):
    file = tmp_path / "meminfo"
    file.write_text(told)
    monkeypatch.setattr(memory, "MEMORY_INFO", file)
    assert memory.available_bytes() == wanted
    assert compile_model(stock()) is (wanted is None)


def test_kernels_that_say_something_else_are_not_used(monkeypatch):
    wrong = native.kernels().rows_decode
    plain = compiled.CompiledDecoder.forward

    def shifted(self, *args, **options):
        logits, features = plain(self, *args, **options)
        return logits.roll(1, dims=-1), features

    monkeypatch.setattr(compiled.CompiledDecoder, "forward", shifted)
    model = stock()
    assert not compile_model(model)
    assert type(model.lm_head) is nn.Linear
    assert wrong is native.kernels().rows_decode


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"qk_norm": True, "layers": 2},
        {"markov_type": "gated"},
        {"markov_type": "rnn", "draft_rows": 40},
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_dspark_block_on_our_kernels(changes, dtype):
    network = tiny_dspark(hidden_size=64, intermediate_size=80, heads=4, head_size=16, **changes)
    network = network.float()
    for each in (network.embed_tokens, network.lm_head, network.fc, network.hidden_norm):
        each.to(dtype)
    network.layers.to(dtype)
    network.norm.to(dtype)
    twin = copy.deepcopy(network)
    assert compile_dspark(twin)
    torch.manual_seed(1)
    pieces = [torch.randn(rows, 2 * 64).to(dtype) for rows in (5, 1, 70)]
    plain, fast = Context(network), Context(twin)
    near = {"atol": 1e-4, "rtol": 1e-4} if dtype == torch.float32 else {"atol": 0.15, "rtol": 0.1}
    for features in pieces:
        plain.append(features)
        fast.append(features)
        assert fast.length == plain.length
        for wanted, got in zip(plain.block(9), fast.block(9), strict=True):
            assert torch.allclose(got.float(), wanted.float(), **near)


def test_a_dspark_network_the_kernels_cannot_serve_keeps_its_layers():
    network = tiny_dspark()  # float64, heads of 8
    assert not compile_dspark(network)
    assert type(network.fc) is nn.Linear


@pytest.mark.parametrize("width", [5, 64, 1001])
def test_the_likeliest_tokens_are_those_of_topk(width):
    torch.manual_seed(width)
    logits = 4 * torch.randn(7, width)
    logits[2, 3:] = -torch.inf
    logits[3] = 0.0
    wanted = logits.softmax(dim=-1).topk(min(4, width), dim=-1)
    ids, chances = likeliest(logits, 4)
    assert torch.allclose(chances, wanted.values, atol=1e-6)
    assert torch.allclose(logits.softmax(dim=-1).gather(-1, ids), wanted.values, atol=1e-6)
    assert ids[3].tolist() == list(range(min(4, width)))  # the first of equals
    assert best_tokens(logits) == logits.argmax(dim=-1).tolist()
    doubled, sure = likeliest(logits.double(), 4)  # not on our kernels
    assert torch.equal(doubled[:2], ids[:2]) and torch.allclose(sure.float(), chances, atol=1e-6)


@pytest.fixture
def fresh_build(monkeypatch, tmp_path):
    monkeypatch.setenv("SPORK_DEMO_CACHE", str(tmp_path))
    native.kernels.cache_clear()
    yield tmp_path / "kernels"
    native.kernels.cache_clear()


def test_without_a_compiler_there_are_no_kernels_and_models_run_as_before(fresh_build, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert native.kernels() is None
    model = stock()
    assert not compile_model(model)
    logits = model(torch.tensor([IDS])).logits[0]
    assert best_tokens(logits) == logits.argmax(dim=-1).tolist()


def test_a_compiler_that_fails_leaves_nothing_behind(fresh_build, monkeypatch):
    monkeypatch.setattr(native, "FLAGS", ("--no-such-flag",))
    assert native.kernels() is None
    assert list(fresh_build.iterdir()) == []


def test_kernels_are_compiled_once_for_a_machine(fresh_build, monkeypatch):
    assert native.kernels() is not None
    (library,) = fresh_build.iterdir()
    native.kernels.cache_clear()
    commands = []
    plain = subprocess.run

    def run(command, **options):
        commands.append(command[1:])
        return plain(command, **options)

    monkeypatch.setattr(subprocess, "run", run)
    assert native.kernels() is not None
    assert commands == [["--version"]]
    assert list(fresh_build.iterdir()) == [library]
