"""The drafter network against recorded tensors of the original code, and what it refuses."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from spork_demo.models.cached_model import CachedModel
from spork_demo.models.dspark_checkpoint import load_dspark
from spork_demo.models.dspark_config import DSparkConfig
from spork_demo.models.dspark_context import Context
from spork_demo.models.dspark_network import DSparkNetwork
from spork_demo.models.pair import ModelUnavailable
from tests.dspark_parity import (
    BLOCK,
    DRAFTERS,
    FOLDER,
    IO,
    PROMPTS,
    VOCABULARY,
    parity_drafter,
    parity_target,
    recorded,
    rounds,
)
from tests.tiny_checkpoints import saved_dspark
from tests.toys import tiny_dspark, tiny_llama

CLOSE = {"rtol": 0.0, "atol": 1e-4}


def context_before(drafter: str, number: int) -> Context:
    """The context of round `number`, from the recorded feature rows."""
    context = Context(parity_drafter(drafter))
    for earlier in range(number + 1):
        context.append(recorded(f"{drafter}.r{earlier}.ctx_rows"))
    return context


def walked(drafter: str, hidden: torch.Tensor, previous: list[int]):
    """Logits and confidence logits of a block whose previous tokens are given."""
    network = parity_drafter(drafter)
    base, state = network.base_logits(hidden), network.first_state()
    logits, confidences = [], []
    for slot, token in enumerate(previous):
        before = torch.tensor(token)
        confidences.append(network.confidence_logit(hidden[slot], before))
        row, state = network.corrected(hidden[slot], base[slot], before, state)
        logits.append(row)
    return torch.stack(logits), confidences


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_names_and_shapes_are_those_of_the_releases(drafter):
    shapes = {k: list(v.shape) for k, v in parity_drafter(drafter).state_dict().items()}
    assert shapes == IO["state_dict_shapes"][drafter]


def test_the_4b_release_has_the_64_tensors_and_parameters_reported_for_it():
    config = DSparkConfig(
        vocab_rows=151936,
        hidden_size=2560,
        intermediate_size=9728,
        layers=5,
        heads=32,
        kv_heads=8,
        head_size=128,
        norm_eps=1e-6,
        rope_theta=1e6,
        max_positions=40960,
        block_size=7,
        mask_token=151669,
        feature_layers=(1, 9, 17, 25, 33),
        target_layers=36,
        markov_rank=256,
        confidence=True,
        confidence_with_markov=True,
    )
    with torch.device("meta"):
        weights = DSparkNetwork(config).state_dict()
    assert len(weights) == 64
    assert sum(w.numel() for w in weights.values()) == 1_393_133_569
    assert weights["layers.0.self_attn.q_proj.weight"].shape == (4096, 2560)
    assert weights["confidence_head.proj.weight"].shape == (1, 2816)


def test_features_are_layer_outputs_before_the_final_norm():
    cached = CachedModel(parity_target(), VOCABULARY)
    features = cached.forward(PROMPTS[0], features=(0, 2, 4)).features
    for layer, rows in features.items():
        torch.testing.assert_close(rows, recorded(f"target.p0.hidden_states.{layer + 1}"), **CLOSE)
    stacked = torch.cat([features[layer] for layer in (0, 2, 4)], dim=-1)
    torch.testing.assert_close(stacked, recorded("vanilla.r0.ctx_rows"), **CLOSE)


def test_a_prefill_keeps_the_features_of_every_row():
    cached = CachedModel(parity_target(), VOCABULARY)
    scores = cached.forward(PROMPTS[0], last_only=True, features=(2,))
    assert scores.logits.shape[0] == 1
    assert scores.features[2].shape[0] == len(PROMPTS[0])


@pytest.mark.parametrize("number", [0, 1])
def test_every_stage_of_the_backbone_matches(number):
    network, name = parity_drafter("vanilla"), f"vanilla.r{number}"
    rows = network.hidden_norm(network.fc(recorded(f"{name}.ctx_rows")))
    torch.testing.assert_close(rows, recorded(f"{name}.ctx_proj"), **CLOSE)
    context = context_before("vanilla", number)
    for layer in range(2):
        keys, values = context._layers[layer].cached
        torch.testing.assert_close(keys[0], recorded(f"{name}.kv{layer}.keys"), **CLOSE)
        torch.testing.assert_close(values[0], recorded(f"{name}.kv{layer}.values"), **CLOSE)
    outputs = []
    hooks = [
        layer.register_forward_hook(lambda _m, _i, out: outputs.append(out))
        for layer in network.layers
    ]
    context.block(int(recorded(f"{name}.draft_input_ids")[0]))
    for hook in hooks:
        hook.remove()
    for layer in range(2):
        torch.testing.assert_close(outputs[layer], recorded(f"{name}.layer{layer}_out"), **CLOSE)


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_every_recorded_block_matches(drafter):
    assert len(rounds(drafter)) >= 5
    for number in rounds(drafter):
        name = f"{drafter}.r{number}"
        about, context = IO["rounds"][name], context_before(drafter, number)
        assert context.length == about["cache_len_after"] == about["start"]
        inputs = recorded(f"{name}.draft_input_ids").tolist()
        hidden, _ = context.block(inputs[0])
        assert context.length == about["start"]  # block rows are used and forgotten
        torch.testing.assert_close(hidden, recorded(f"{name}.block_hidden"), **CLOSE)
        base = parity_drafter(drafter).base_logits(hidden)
        torch.testing.assert_close(base, recorded(f"{name}.base_logits"), **CLOSE)
        drafts = recorded(f"{name}.draft_tokens").tolist()
        logits, confidences = walked(drafter, hidden, [inputs[0], *drafts[:-1]])
        torch.testing.assert_close(logits, recorded(f"{name}.logits"), **CLOSE)
        assert logits.argmax(-1).tolist() == drafts
        if drafter == "dflash":
            assert confidences == [None] * BLOCK
        else:
            wanted = recorded(f"{name}.confidence_logits")
            torch.testing.assert_close(torch.stack(confidences), wanted, **CLOSE)


@pytest.mark.parametrize("drafter", ["vanilla", "gated", "rnn"])
def test_heads_match_on_given_previous_tokens(drafter):
    hidden = recorded(f"{drafter}.r1.block_hidden")
    logits, confidences = walked(drafter, hidden, recorded("tf.prev_ids").tolist())
    torch.testing.assert_close(logits, recorded(f"{drafter}.tf.logits"), **CLOSE)
    wanted = recorded(f"{drafter}.tf.confidence_logits")
    torch.testing.assert_close(torch.stack(confidences), wanted, **CLOSE)


def test_a_block_of_five_inputs_drafts_five_tokens_because_the_anchor_predicts_too():
    assert context_before("vanilla", 0).block(32)[0].shape[0] == BLOCK == 5


def test_the_context_outgrows_its_first_buffer_unharmed():
    network = parity_drafter("vanilla")
    features = torch.randn(300, 192, generator=torch.Generator().manual_seed(0))
    whole, pieces = Context(network), Context(network)
    whole.append(features)
    for start in range(0, 300, 7):
        pieces.append(features[start : start + 7])
    assert pieces.length == 300
    torch.testing.assert_close(pieces.block(65)[0], whole.block(65)[0], rtol=0, atol=1e-5)


def test_equal_tables_are_the_targets_own_memory():
    network, target = parity_drafter("vanilla"), parity_target()
    table = target.get_input_embeddings().weight
    assert network.embed_tokens.weight.data_ptr() == table.data_ptr()
    assert network.lm_head.weight.data_ptr() == table.data_ptr()  # this target ties its own


def altered(tmp_path, config=None, drop=(), **tensors):
    """A copy of the vanilla drafter with other config values and tensors."""
    plain = json.loads((FOLDER / "drafter_vanilla" / "config.json").read_text())
    plain |= config or {}
    plain = {k: v for k, v in plain.items() if k not in drop and v is not None}
    weights = load_file(FOLDER / "drafter_vanilla" / "model.safetensors") | tensors
    weights = {k: v.contiguous() for k, v in weights.items() if k not in drop and v is not None}
    (tmp_path / "config.json").write_text(json.dumps(plain))
    save_file(weights, tmp_path / "model.safetensors")
    return tmp_path


def load(folder, target=None):
    target = target or parity_target()
    return load_dspark(folder, target, device="cpu", dtype=target.dtype, label="mine")


def test_a_checkpoint_without_tables_uses_the_targets(tmp_path):
    network = load(altered(tmp_path, drop=("embed_tokens.weight", "lm_head.weight")))
    expected, _ = context_before("vanilla", 0).block(32)
    context = Context(network)
    context.append(recorded("vanilla.r0.ctx_rows"))
    torch.testing.assert_close(context.block(32)[0], expected, rtol=0, atol=0)


def test_tables_of_another_fine_tune_are_kept(tmp_path):
    weights = load_file(FOLDER / "drafter_vanilla" / "model.safetensors")
    other = weights["lm_head.weight"].clone()
    other[5] += 1
    network = load(altered(tmp_path, **{"lm_head.weight": other}))
    assert torch.equal(network.lm_head.weight, other)


def test_optional_keys_may_be_missing(tmp_path):
    network = load(altered(tmp_path, drop=("markov_head_type", "confidence_head_with_markov")))
    assert network.config.markov_type == "vanilla"
    assert network.config.confidence_with_markov
    assert network.config.confidence_temperatures == ()


def test_rope_theta_is_read_from_the_top_level_too_and_never_guessed(tmp_path):
    old = altered(tmp_path, {"rope_parameters": None, "rope_theta": 50000.0})
    assert load(old).config.rope_theta == 50000.0
    with pytest.raises(ModelUnavailable, match="lacks a value"):
        load(altered(tmp_path, {"rope_parameters": None}))


WRONG = {
    "another target": ({"num_target_layers": 8}, {}, "another target"),
    "another width": ({"hidden_size": 32}, {}, "another target"),
    "the last layer": ({"target_layer_ids": [0, 2, 5]}, {}, "cannot be read"),
    "the embedding": ({"target_layer_ids": [-1, 2, 4]}, {}, "cannot be read"),
    "unordered layers": ({"target_layer_ids": [2, 0, 4]}, {}, "cannot be read"),
    "mask outside": ({"mask_token_id": 128}, {}, "contradicts itself"),
    "no mask": ({"mask_token_id": None}, {}, "lacks a value"),
    "no block": ({"block_size": None}, {}, "lacks a value"),
    "too few temperatures": ({"confidence_temperatures": [1.0]}, {}, "contradicts itself"),
    "temperature zero": ({"confidence_temperatures": [1.0] * 4 + [0.0]}, {}, "contradicts"),
    "original DFlash": ({"sample_from_anchor": False}, {}, "draft at the anchor"),
    "another family": ({"model_type": "gemma4"}, {}, "cannot load"),
    "another head": ({"markov_head_type": "lstm"}, {}, "cannot load"),
    "partial rotation": (
        {"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}},
        {},
        "cannot load",
    ),
    "a tensor too few": ({}, {"fc.weight": None}, "lacks fc.weight"),
    "a tensor too many": ({}, {"fc.bias": torch.zeros(64)}, "holds fc.bias"),
    "a wrong shape": ({}, {"fc.weight": torch.zeros(64, 64)}, r"\(64, 64\) instead of \(64, 192\)"),
    "heads of another type": ({"markov_head_type": "gated"}, {}, "lacks markov_head.gate_proj"),
}


@pytest.mark.parametrize(("config", "tensors", "words"), WRONG.values(), ids=WRONG.keys())
def test_wrong_checkpoints_are_refused_with_one_sentence(tmp_path, config, tensors, words):
    with pytest.raises(ModelUnavailable, match=words) as refusal:
        load(altered(tmp_path, config, **tensors))
    assert str(refusal.value).endswith(".")
    assert str(tmp_path) not in str(refusal.value)


def test_missing_and_damaged_files_are_refused_with_one_sentence(tmp_path):
    with pytest.raises(ModelUnavailable, match="missing or damaged"):
        load(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"not tensors")
    with pytest.raises(ModelUnavailable, match="missing or damaged"):
        load(tmp_path)


def test_a_llama_drafter_has_no_query_and_key_norms(tmp_path):
    target = tiny_llama()
    network = tiny_dspark()
    saved_dspark(tmp_path / "drafter", network)
    loaded = load(tmp_path / "drafter", target)
    assert loaded.config == network.config
    assert not any("q_norm" in name for name in loaded.state_dict())
    assert loaded.dtype == torch.float64  # the target's
    assert loaded.markov_head.markov_w1.weight.dtype == torch.float32
    context = Context(loaded)
    context.append(torch.randn(3, 64, dtype=torch.float64))
    assert context.block(1)[0].shape == (4, 32)
