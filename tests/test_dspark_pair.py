"""A pair with a DSpark drafter: loaded with its target, refused in words, run from the shell."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from spork_demo.cli import main
from spork_demo.engine import Engine
from spork_demo.models.pair import ModelUnavailable, load_pair
from spork_demo.settings import Settings
from spork_demo.spacefile import ModelRef, PairSpec, read_spacefile
from tests.tiny_checkpoints import SIZES, saved, saved_dspark, tiny_llama
from tests.toys import tiny_dspark

ROOT = Path(__file__).resolve().parent.parent


def drafter(**changes):
    """A random drafter for the target of `tiny_checkpoints`."""
    sizes = {"hidden_size": 16, "intermediate_size": 32, "heads": 2, "kv_heads": 1}
    about = {"target_layers": SIZES["num_hidden_layers"], "feature_layers": (0,)}
    return tiny_dspark(**(sizes | about | {"max_positions": 64} | changes))


@pytest.fixture
def checkpoints(tmp_path):
    torch.manual_seed(0)
    return saved(tmp_path / "big"), saved_dspark(tmp_path / "drafter", drafter())


def test_a_pair_brings_its_dspark_drafter_frozen_beside_the_target(checkpoints):
    target, dspark = checkpoints
    pair = load_pair(PairSpec("tiny", target, None, dspark), device="cpu")
    assert pair.dspark_name == "drafter"
    assert pair.dspark.config.block_size == 4
    assert not pair.dspark.training
    assert not any(weight.requires_grad for weight in pair.dspark.parameters())
    assert pair.dspark.dtype == pair.target.dtype == torch.float32
    assert load_pair(PairSpec("tiny", target), device="cpu").dspark is None


def test_packed_weights_change_nothing_and_one_head_serves_both(checkpoints):
    target, dspark = checkpoints
    spec = PairSpec("tiny", target, None, ModelRef("folder", dspark.id))
    own = load_pair(spec, device="cpu")
    assert own.dspark.lm_head is not own.target.lm_head  # this drafter has a table of its own
    # without tables of its own it takes the target's
    weights = load_file(Path(dspark.id) / "model.safetensors")
    kept = {k: w for k, w in weights.items() if k not in ("embed_tokens.weight", "lm_head.weight")}
    save_file(kept, Path(dspark.id) / "model.safetensors")
    pairs = {kind: load_pair(spec, device="cpu", kernels=kind) for kind in ("packed", "stock")}
    assert pairs["packed"].dspark.lm_head is pairs["packed"].target.lm_head
    settings = Settings(method="dspark", schedule="full", max_new_tokens=10)
    drafts = []
    for pair in pairs.values():
        engine = Engine(pair)
        events = engine.lane(engine.resolve(settings), [5, 6, 7, 5]).events()
        drafts.append([[node.token for node in round_.nodes] for round_ in list(events)[1:-1]])
    assert drafts[0] == drafts[1]


def refusal(target: ModelRef, dspark: ModelRef) -> str:
    reports = []
    with pytest.raises(ModelUnavailable) as caught:
        load_pair(PairSpec("tiny", target, None, dspark), device="cpu", report=reports.append)
    sentence = str(caught.value)
    assert sentence.endswith(".") and "\n" not in sentence
    assert (reports[-1].stage, reports[-1].message) == ("failed", sentence)
    return sentence


def test_a_drafter_of_another_target_is_refused(checkpoints, tmp_path):
    other = saved(tmp_path / "other", tiny_llama(num_hidden_layers=3))
    assert refusal(other, checkpoints[1]) == "drafter was made for another target than this one."


def test_a_missing_folder_and_an_unreachable_hub_are_said_in_words(
    checkpoints, tmp_path, monkeypatch
):
    sentence = refusal(checkpoints[0], ModelRef("folder", str(tmp_path / "nowhere")))
    assert sentence == "The DSpark checkpoint nowhere is missing or damaged."
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    sentence = refusal(checkpoints[0], ModelRef("hub", "nobody/nothing"))
    assert sentence == "nothing could not be found here or fetched from the hub."
    assert "no DSpark drafter" in refusal(checkpoints[0], ModelRef("embedded"))


def test_an_engine_with_a_drafter_runs_exact_dspark_and_measures_once(checkpoints):
    engine = Engine(load_pair(PairSpec("tiny", checkpoints[0], None, checkpoints[1]), "cpu"))
    assert engine.provenance().dspark == "drafter"
    engine.warm_up(tuple(range(3, 12)))
    prompt = [5, 6, 7, 5, 6]
    wanted = engine.resolve(Settings(max_new_tokens=12))
    plain = [t.token for e in list(engine.lane(wanted, prompt).events())[1:-1] for t in e.committed]
    settings = engine.resolve(Settings(method="dspark", max_new_tokens=12))
    for _ in range(2):
        rounds = list(engine.lane(settings, prompt).events())[1:-1]
        assert [token.token for round_ in rounds for token in round_.committed] == plain
        tables = {round_.scheduling.call_seconds for round_ in rounds if round_.scheduling}
        table = engine.costs.near(11).call_seconds  # measured once, used by every lane
        assert list(table) == sorted(table)
        assert {len(each) for each in tables} >= {5}
        assert all(each == table[: len(each)] for each in tables)


def test_the_command_line_takes_a_drafter_beside_a_target(checkpoints, capsys):
    target, dspark = (ref.id for ref in checkpoints)
    options = ["--target", target, "--prompt", "w1 w2 w3", "--raw", "--max-new-tokens", "6"]
    assert main(["decode", *options, "--json"]) == 0
    greedy = json.loads(capsys.readouterr().out)
    exact = ["--method", "dspark", "--dspark", dspark, "--schedule", "threshold"]
    assert main(["decode", *options, *exact, "--confidence-threshold", "0.1", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["ids"] == greedy["ids"]
    assert said["settings"]["drafter"] == "dspark"
    assert said["provenance"]["dspark"] == "drafter"
    assert said["metrics"]["drafted"] > 0


def test_a_drafter_without_a_target_is_refused(checkpoints, capsys):
    assert main(["decode", "--prompt", "a", "--dspark", checkpoints[1].id]) == 2
    assert "go with --target" in capsys.readouterr().err


def test_our_file_names_the_released_drafter_of_its_qwen3_pair():
    pairs = {pair.target.id: pair for pair in read_spacefile(ROOT / "Spacefile").pairs}
    assert pairs["Qwen/Qwen3-4B"].dspark == ModelRef("hub", "deepseek-ai/dspark_qwen3_4b_block7")
