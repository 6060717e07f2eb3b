"""The slim form of packed models against transformers, and the products that were merged."""

import copy
import random

import pytest
import torch
from torch import nn
from transformers import LlamaConfig

from spork_demo.models import slim
from spork_demo.models.cached_model import CachedModel
from spork_demo.models.compiled import compiled_of
from spork_demo.models.layers import decoder_layers
from spork_demo.models.packed import Merged, MergedPart, pack
from spork_demo.models.slim import SlimDecoder, slim_model
from spork_demo.models.student import DraftHead
from spork_demo.settings import Settings
from tests.families import FAMILIES, IDS, PARENTS, SIZES, stock
from tests.test_packed import PACKED_DTYPES
from tests.toys import VOCABULARY, run_lane, tiny_pair

NEAR = {"atol": 1e-3, "rtol": 1e-3}


def slim_twin(model):
    twin = copy.deepcopy(model)
    assert pack(twin, merge=True) and slim_model(twin)
    assert isinstance(compiled_of(twin), SlimDecoder)
    return twin


def committed(model, prompt):
    cached = CachedModel(model, VOCABULARY)
    cached.forward(prompt, last_only=True)
    cached.commit(range(len(prompt)))
    return cached


def same(plain, ours, *feed, **options):
    wanted, got = plain.forward(*feed, **options), ours.forward(*feed, **options)
    assert got.logits.shape == wanted.logits.shape
    assert got.logits.dtype == torch.float32
    assert torch.allclose(got.logits, wanted.logits, **NEAR)
    assert got.features.keys() == wanted.features.keys()
    for layer, states in wanted.features.items():
        assert torch.allclose(got.features[layer], states, **NEAR)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_says_what_transformers_says(family):
    model = stock(FAMILIES[family])
    plain, ours = CachedModel(model, VOCABULARY), CachedModel(slim_twin(model), VOCABULARY)
    prompt = [n % VOCABULARY for n in range(3, 160)]
    same(plain, ours, prompt, features=(1,))
    for cached in (plain, ours):
        cached.commit(range(len(prompt)))
    same(plain, ours, [4])
    same(plain, ours, IDS, [0 if parent < 0 else parent + 1 for parent in PARENTS])
    same(plain, ours, [7, 8], features=(0, 2))  # a chain behind pending rows
    for cached in (plain, ours):
        cached.commit([0, 1, 3])
    same(plain, ours, IDS, PARENTS, last_only=True)


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 31, 33])
def test_chains_of_every_length(rows):
    model = stock()
    plain, ours = committed(model, IDS), committed(slim_twin(model), IDS)
    same(plain, ours, [n % VOCABULARY for n in range(rows)], features=(2,))


def test_early_exits_read_the_same_rows():
    model = stock()
    views = [committed(each, IDS).early_exit(2) for each in (model, slim_twin(model))]
    same(*views, [7])
    same(*views, [8, 9], [0, 0])


@pytest.mark.parametrize("dtype", PACKED_DTYPES)
def test_a_row_in_any_dtype_is_near_what_float32_says(dtype):
    model = stock()
    wanted = committed(model, IDS).forward(IDS, PARENTS).logits
    got = committed(slim_twin(model.to(dtype)), IDS).forward(IDS, PARENTS).logits
    assert (got - wanted).abs().mean() < 0.05 * wanted.std()


@pytest.mark.parametrize("seed", range(3))
def test_any_history_of_trees_leaves_the_cache_of_the_committed_text(seed):
    choose = random.Random(seed)
    ours, text = CachedModel(slim_twin(stock(seed=seed)), VOCABULARY), []
    for _ in range(10):
        tokens = [choose.randrange(VOCABULARY) for _ in range(choose.randint(1, 12))]
        parents = [choose.randint(-1, place - 1) for place in range(len(tokens))]
        ours.forward(tokens, parents)
        path = [choose.randrange(len(tokens))]
        while parents[path[0]] >= 0:
            path.insert(0, parents[path[0]])
        ours.commit(path)
        text += [tokens[node] for node in path]
    assert ours.length == len(text)
    wanted = committed(stock(seed=seed), text).forward([1, 2]).logits
    assert torch.allclose(ours.forward([1, 2]).logits, wanted, **NEAR)


@pytest.mark.parametrize(
    "settings",
    [
        Settings(method="spork", drafter="target", fork_width=3, fork_depth=2, max_new_tokens=40),
        Settings(method="speculative", drafter="early_exit", verifier_layers=2, max_new_tokens=40),
    ],
    ids=lambda settings: settings.drafter,
)
def test_exact_lanes_are_greedy(settings):
    model = stock()
    pair = tiny_pair(slim_twin(model), None)
    wanted = run_lane(tiny_pair(model, None), Settings(max_new_tokens=40), IDS)
    assert run_lane(pair, settings, IDS).ids == wanted.ids


def test_a_draft_head_speaks_its_tokens_only():
    model = stock()
    ids = torch.tensor([3, 5, 9, 60])
    model.lm_head = DraftHead(model.lm_head.weight[ids], ids, VOCABULARY)
    plain, ours = committed(model, IDS), committed(slim_twin(model), IDS)
    wanted, got = plain.forward([5, 6]).logits, ours.forward([5, 6]).logits
    assert torch.equal(got.isfinite(), wanted.isfinite())
    assert torch.allclose(got[:, ids], wanted[:, ids], **NEAR)


def test_the_model_itself_still_answers_in_batches():
    model = stock()
    twin = slim_twin(model)
    batch = torch.tensor([IDS, IDS[::-1]])
    assert torch.allclose(twin(batch).logits, model(batch).logits, **NEAR)


@pytest.mark.parametrize(
    "config",
    [
        LlamaConfig(**{**SIZES, "hidden_act": "gelu"}),
        LlamaConfig(
            **SIZES, rope_parameters={"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}
        ),
    ],
    ids=["gelu", "positions that change"],
)
def test_a_model_of_another_kind_keeps_its_own_layers(config):
    model = stock(config)
    twin = copy.deepcopy(model)
    assert pack(twin, merge=True) and not slim_model(twin)
    assert compiled_of(twin) is None
    same(committed(model, IDS), committed(twin, IDS), IDS, PARENTS)


def test_a_model_whose_products_are_not_merged_keeps_its_own_layers():
    model = stock()
    assert not slim_model(model)
    assert pack(model) and not slim_model(model)


def test_a_form_that_says_something_else_is_not_used(monkeypatch):
    plain = slim._fed_forward
    monkeypatch.setattr(slim, "_fed_forward", lambda *given: 1.5 * plain(*given))
    model = stock()
    assert pack(model, merge=True) and not slim_model(model)
    assert compiled_of(model) is None


def test_merged_layers_give_their_own_products_whoever_asks_first():
    torch.manual_seed(0)
    layers = [nn.Linear(16, size, bias=size != 8).requires_grad_(False) for size in (12, 8, 20)]
    merged = Merged(layers)
    parts = [MergedPart(merged, index, 16) for index in range(3)]
    states, others = torch.randn(1, 3, 16), torch.randn(1, 3, 16)
    for order in ((0, 1, 2), (2, 0, 1), (1, 1, 1)):
        for index in order:
            for given in (states, others, states):
                wanted = layers[index](given)
                assert torch.allclose(parts[index](given), wanted, atol=1e-5)


def test_products_that_all_had_are_not_kept():
    merged = Merged([nn.Linear(8, 4).requires_grad_(False) for _ in range(2)])
    states = torch.randn(2, 8)
    first = merged.part(0, states)
    assert merged.part(1, states).data_ptr() != first.data_ptr()
    assert not merged._waiting and merged._states is None


def test_every_layer_of_a_packed_model_is_merged_or_packed():
    model = slim_twin(stock())
    layers = decoder_layers(model)
    assert not [each for each in model.modules() if type(each) is nn.Linear]
    assert all(isinstance(layer.self_attn.k_proj, MergedPart) for layer in layers)
    assert all(isinstance(layer.mlp.up_proj, MergedPart) for layer in layers)
