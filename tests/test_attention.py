"""Attention of one row without repeated keys, against transformers' own."""

import copy

import pytest
import torch

from spork_demo.models.attention import NAME, use_grouped_attention
from spork_demo.models.cached_model import CachedModel
from spork_demo.models.row_cache import RowLayer
from tests.toys import VOCABULARY, tiny_llama

PROMPT = list(range(1, 12))


@pytest.mark.parametrize("heads", [(4, 2), (4, 1), (4, 4)])
def test_every_kind_of_call_says_the_same_as_stock(heads):
    stock = tiny_llama(3, num_attention_heads=heads[0], num_key_value_heads=heads[1])
    ours = copy.deepcopy(stock)
    use_grouped_attention(ours)
    assert ours.config._attn_implementation == NAME
    models = [CachedModel(model, VOCABULARY) for model in (stock, ours)]
    said = []
    for model in models:
        logits = [model.forward(PROMPT).logits]
        model.commit(range(len(PROMPT)))
        logits.append(model.forward([5]).logits)
        model.rollback()
        logits.append(model.forward([5, 6, 7, 8], [-1, 0, 0, -1]).logits)
        logits.append(model.forward([9], [2]).logits)
        said.append(torch.cat(logits))
    assert torch.allclose(said[0], said[1], atol=1e-12)


def test_chosen_sequences_of_a_batch_go_on_as_if_they_were_alone():
    layer, alone = RowLayer(), RowLayer()
    keys, values = torch.randn(2, 3, 2, 5, 4).unbind(0)
    layer.update(keys, values)
    layer.select([2, 0])
    more = torch.randn(2, 2, 2, 1, 4).unbind(0)
    for one, place in ((0, 2), (1, 0)):
        alone = RowLayer()
        alone.update(keys[place : place + 1], values[place : place + 1])
        wanted = alone.update(*(each[one : one + 1] for each in more))
        if one == 0:
            both = layer.update(*more)
        for got, want in zip(both, wanted, strict=True):
            assert torch.equal(got[one : one + 1], want)
