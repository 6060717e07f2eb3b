"""Packed weights give the stock products, whatever the number of rows."""

import copy

import pytest
import torch
from torch import nn

from spork_demo.models import packed
from spork_demo.models.cached_model import CachedModel
from spork_demo.models.packed import PackedLinear, pack
from tests.toys import tiny_llama

PACKED_DTYPES = [
    torch.float32,
    *([torch.bfloat16] if torch.ops.mkldnn._is_mkldnn_bf16_supported() else []),
]
"""What oneDNN multiplies on this processor: bfloat16 takes AVX-512 or AVX-NE-CONVERT."""


@pytest.mark.parametrize("rows", [1, 2, 5, 31, 32, 33, 64, 70])
@pytest.mark.parametrize("bias", [True, False])
def test_the_products_are_those_of_the_stock_layer(rows, bias):
    torch.manual_seed(rows)
    linear = nn.Linear(48, 80, bias=bias).requires_grad_(False)
    states = torch.randn(1, rows, 48)
    got = PackedLinear(linear, keep_weight=False)(states)
    assert got.shape == (1, rows, 80)
    assert torch.allclose(got, linear(states), atol=1e-5)


@pytest.mark.parametrize("dtype", PACKED_DTYPES)
def test_up_to_four_rows_a_row_is_the_same_bits_beside_others_and_alone(dtype):
    torch.manual_seed(0)
    layer = PackedLinear(nn.Linear(48, 80).to(dtype).requires_grad_(False), keep_weight=False)
    states = torch.randn(4, 48).to(dtype)
    together = layer(states)
    for rows in (1, 2, 3):
        assert torch.equal(layer(states[:rows]), together[:rows])


def test_a_packed_model_says_what_it_said_before():
    stock = tiny_llama(0).float()
    ids = torch.tensor([[1, 2, 3, 4, 5]])
    wanted = stock(ids).logits
    model = copy.deepcopy(stock)
    assert pack(model)
    assert torch.allclose(model(ids).logits, wanted, atol=1e-4)
    assert not [m for m in model.modules() if type(m) is nn.Linear]
    chain = CachedModel(model, 64).forward([1, 2, 3, 4, 5]).logits
    assert torch.allclose(chain, wanted[0, :, :64], atol=1e-4)


def test_only_the_head_keeps_its_table():
    model = tiny_llama(0).float()
    table = model.lm_head.weight
    assert pack(model)
    assert model.get_output_embeddings().weight is table
    assert model.model.layers[0].self_attn.q_proj.weight is None


def test_a_model_the_kernels_cannot_serve_is_left_as_it_is():
    model = tiny_llama(0)  # float64
    assert not pack(model)
    assert type(model.lm_head) is nn.Linear


def test_where_a_processor_lacks_bfloat16_such_a_model_is_left_as_it_is(monkeypatch):
    class Lacking(PackedLinear):
        def __init__(self, *_args, **_options):
            raise RuntimeError("bf16 path needs the cpu support avx512bw")

    monkeypatch.setattr(packed, "PackedLinear", Lacking)
    model = tiny_llama(0).to(torch.bfloat16)
    assert not pack(model, merge=True)
    assert type(model.lm_head) is nn.Linear


def test_kernels_that_compute_something_else_are_not_used(monkeypatch):
    class Wrong(PackedLinear):
        def forward(self, states):
            return super().forward(states) + 1

    monkeypatch.setattr(packed, "PackedLinear", Wrong)
    model = tiny_llama(0).float()
    assert not pack(model)
    assert type(model.lm_head) is nn.Linear
