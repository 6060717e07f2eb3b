"""Loading and checking model pairs, on tiny random checkpoints written by the test."""

import dataclasses
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import normalizers, pre_tokenizers
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    MambaConfig,
    MambaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

from spork_demo.models.pair import (
    ModelUnavailable,
    Pair,
    decoder_layers,
    final_norm,
    lm_head,
    load_pair,
)
from spork_demo.spacefile import ModelRef, PairSpec
from tests.tiny_checkpoints import SIZES, saved, tiny_llama, tiny_tokenizer


def load(target: ModelRef, draft: ModelRef | None = None, **changes: object) -> Pair:
    return load_pair(PairSpec("tiny", target, draft, **changes), device="cpu")


def refusal(target: ModelRef, draft: ModelRef | None = None) -> str:
    reports = []
    with pytest.raises(ModelUnavailable) as caught:
        load_pair(PairSpec("tiny", target, draft), device="cpu", report=reports.append)
    sentence = str(caught.value)
    assert sentence.endswith(".") and "\n" not in sentence
    assert str(Path(target.id).parent) not in sentence
    assert (reports[-1].stage, reports[-1].message) == ("failed", sentence)
    return sentence


def test_a_pair_is_loaded_frozen_in_float32_on_the_cpu(tmp_path):
    small = saved(tmp_path / "small", tiny_llama(num_hidden_layers=1))
    pair = load_pair(
        PairSpec("tiny", saved(tmp_path / "big"), small), device="cpu", kernels="packed"
    )
    assert (pair.name, pair.target_name, pair.draft_name) == ("tiny", "big", "small")
    assert (pair.device, pair.dtype) == ("cpu", "float32")
    for model in (pair.target, pair.draft):
        assert not model.training
        assert not any(weight.requires_grad for weight in model.parameters())
        # packed kernels come with attention of a few rows to match
        assert model.config._attn_implementation == "grouped_rows"
        assert model.dtype == torch.float32


def test_loading_ends_with_ready_and_says_it_once(tmp_path):
    reports = []
    spec = PairSpec("tiny", saved(tmp_path / "big"))
    load_pair(spec, device="cpu", report=reports.append)
    assert [progress.stage for progress in reports] == ["load", "load", "ready"]
    size = (tmp_path / "big" / "model.safetensors").stat().st_size
    assert [progress.done_bytes for progress in reports[:2]] == [0, size]


@pytest.mark.parametrize(("target_rows", "draft_rows"), [(72, 64), (64, 72), (72, 80)])
def test_padded_vocabularies_are_accepted_and_cut_to_the_tokenizer(
    tmp_path, target_rows, draft_rows
):
    target = saved(tmp_path / "big", tiny_llama(target_rows))
    draft = saved(tmp_path / "small", tiny_llama(draft_rows))
    assert load(target, draft).vocab_size == 64


def test_a_draft_model_with_fewer_rows_than_tokens_is_refused(tmp_path):
    draft = saved(tmp_path / "small", tiny_llama(60))
    assert "small knows fewer tokens" in refusal(saved(tmp_path / "big"), draft)


def test_different_vocabularies_are_refused(tmp_path):
    draft = saved(tmp_path / "small", tokenizer=tiny_tokenizer(last_word="other"))
    assert refusal(saved(tmp_path / "big"), draft) == (
        "big and small use different tokenizers, so the one cannot draft for the other."
    )


def test_equal_vocabularies_that_split_text_differently_are_refused(tmp_path):
    tokenizers = [tiny_tokenizer(last_word="x"), tiny_tokenizer(last_word="x")]
    for tokenizer in tokenizers:
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizers[1].backend_tokenizer.normalizer = normalizers.Replace("x", "y")
    refs = [saved(tmp_path / f"m{n}", tokenizer=t) for n, t in enumerate(tokenizers)]
    assert "different tokenizers" in refusal(*refs)


def test_stop_ids_are_the_union_of_generation_config_and_tokenizer(tmp_path):
    model = tiny_llama()
    model.generation_config.eos_token_id = [5, 6]
    tokenizer = tiny_tokenizer(eos_token="<end>")
    assert load(saved(tmp_path / "big", model, tokenizer)).stop_ids == {1, 5, 6}


def test_a_base_model_without_end_token_has_no_stop_ids(tmp_path):
    assert load(saved(tmp_path / "big")).stop_ids == frozenset()


def test_control_tokens_without_a_role_are_special_too(tmp_path):
    tokenizer = tiny_tokenizer(eos_token="<end>")
    assert load(saved(tmp_path / "big", tokenizer=tokenizer)).special_ids == {0, 1, 2}


def test_context_lengths_of_both_models_are_kept(tmp_path):
    draft = saved(tmp_path / "small", tiny_llama(max_position_embeddings=32))
    pair = load(saved(tmp_path / "big"), draft)
    assert (pair.context_length, pair.draft_context_length) == (64, 32)


def test_a_dtype_can_be_asked_for(tmp_path):
    assert load(saved(tmp_path / "big"), dtype="bfloat16").target.dtype == torch.bfloat16


def test_accelerate_is_left_out_on_a_cpu(tmp_path):
    pair = load(saved(tmp_path / "big"), device_map="auto")
    assert not hasattr(pair.target, "hf_device_map")


def test_accelerate_places_a_model_that_is_then_never_moved(tmp_path, monkeypatch):
    asked = []
    original = AutoModelForCausalLM.from_pretrained

    def placed(source, **options):
        asked.append(options.pop("device_map", None))
        model, info = original(source, **options)
        monkeypatch.setattr(model, "to", pytest.fail)
        return model, info

    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", placed)
    spec = PairSpec("tiny", saved(tmp_path / "big"), dtype="float32", device_map="auto")
    assert load_pair(spec, device="cuda").device == "cuda"
    assert asked == ["auto"]


def test_sliding_windows_shorter_than_the_context_are_refused(tmp_path):
    window = MistralConfig(vocab_size=64, sliding_window=16, **SIZES)
    assert "sliding window of 16" in refusal(saved(tmp_path / "big", MistralForCausalLM(window)))


def test_a_sliding_window_as_long_as_the_context_is_accepted(tmp_path):
    window = MistralConfig(vocab_size=64, sliding_window=64, **SIZES)
    assert load(saved(tmp_path / "big", MistralForCausalLM(window))).context_length == 64


def test_recurrent_models_are_refused_as_target_and_as_draft(tmp_path):
    config = MambaConfig(vocab_size=64, hidden_size=16, num_hidden_layers=1, state_size=4)
    mamba = saved(tmp_path / "snake", MambaForCausalLM(config))
    assert "snake has a cache of a kind that cannot be rolled back" in refusal(mamba)
    assert "snake" in refusal(saved(tmp_path / "big"), mamba)


def test_hybrid_models_are_refused(tmp_path):
    folder = tmp_path / "hybrid"
    ref = saved(folder)
    config = (folder / "config.json").read_text()
    kinds = '"layer_types": ["linear_attention", "full_attention"],'
    (folder / "config.json").write_text(config.replace("{", "{" + kinds, 1))
    assert "running state" in refusal(ref)


def test_encoder_decoders_are_refused(tmp_path):
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2}
    model = T5ForConditionalGeneration(T5Config(vocab_size=64, **sizes))
    assert "has an encoder" in refusal(saved(tmp_path / "big", model))


def test_models_whose_layers_are_elsewhere_are_refused(tmp_path):
    model = GPT2LMHeadModel(
        GPT2Config(vocab_size=64, n_positions=64, n_embd=16, n_layer=1, n_head=2)
    )
    assert "decoder layers could not be found" in refusal(saved(tmp_path / "big", model))


def test_accessors_find_layers_norm_and_head():
    model = tiny_llama()
    assert list(decoder_layers(model)) == list(model.model.layers)
    assert final_norm(model) is model.model.norm
    assert lm_head(model) is model.lm_head


def test_a_missing_folder_is_refused(tmp_path):
    assert refusal(ModelRef("folder", str(tmp_path / "none"))) == (
        "There is no checkpoint of none in its folder."
    )


def test_missing_weights_are_refused_not_made_up(tmp_path):
    ref = saved(tmp_path / "big")
    weights = load_file(tmp_path / "big" / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, tmp_path / "big" / "model.safetensors", {"format": "pt"})
    assert "incomplete" in refusal(ref)


@pytest.mark.parametrize("kept", [0, 4, 2000])
def test_a_cut_off_checkpoint_is_refused(tmp_path, kept):
    ref = saved(tmp_path / "big")
    path = tmp_path / "big" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    assert "damaged" in refusal(ref)


def test_weights_of_the_wrong_shape_are_refused(tmp_path):
    ref = saved(tmp_path / "big")
    config = (tmp_path / "big" / "config.json").read_text()
    wider = config.replace('"intermediate_size": 32', '"intermediate_size": 48')
    (tmp_path / "big" / "config.json").write_text(wider)
    assert "damaged" in refusal(ref)


def test_a_pickled_checkpoint_is_refused(tmp_path):
    ref = saved(tmp_path / "big")
    (tmp_path / "big" / "model.safetensors").unlink()
    torch.save(tiny_llama().state_dict(), tmp_path / "big" / "pytorch_model.bin")
    assert "safetensors" in refusal(ref)


def test_a_missing_tokenizer_is_refused(tmp_path):
    ref = saved(tmp_path / "big")
    (tmp_path / "big" / "tokenizer.json").unlink()
    assert refusal(ref)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
        MemoryError(),
    ],
)
def test_running_out_of_memory_is_said_as_such(tmp_path, monkeypatch, error):
    def full(*args: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", full)
    assert refusal(saved(tmp_path / "big")) == "big does not fit into the memory of this machine."


def test_an_unreachable_hub_is_one_sentence(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert refusal(ModelRef("hub", "nobody/nothing-at-all")) == (
        "nothing-at-all could not be found here or fetched from the hub."
    )


def test_the_embedded_pair_loads(embedded_folder):
    pair = load_pair(PairSpec("default", ModelRef("embedded")), device="cpu")
    assert (pair.vocab_size, pair.context_length, len(decoder_layers(pair.target))) == (
        49152,
        8192,
        30,
    )
    assert pair.stop_ids == {2}
    assert pair.special_ids == set(range(17))
    assert pair.draft is None and pair.draft_name is None
    assert pair.target_name == "SmolLM2-135M-Instruct"


def test_a_pair_cannot_be_changed(tmp_path):
    pair = load(saved(tmp_path / "big"))
    with pytest.raises(dataclasses.FrozenInstanceError):
        pair.device = "cuda"


def test_a_table_counted_with_another_tokenizer_is_refused(tmp_path):
    from spork_demo.models.ngram_table import NgramTable

    NgramTable.count([([1, 2, 1, 2], 0, None)], vocab_size=9999).save(tmp_path / "table.npz")
    with pytest.raises(ModelUnavailable, match="another tokenizer"):
        load(saved(tmp_path / "model"), ngram_table=str(tmp_path / "table.npz"))
