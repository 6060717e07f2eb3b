"""The benchmark's arithmetic, and its lanes against decoding without a cache. Nothing is timed."""

import copy
import dataclasses
import json
from types import SimpleNamespace

import pytest
import torch

from spork_demo.bench import calls, command, page
from spork_demo.bench.page import page_overhead
from spork_demo.bench.peers import peers
from spork_demo.bench.run import OURS
from spork_demo.bench.tally import Tally
from spork_demo.cli import main
from spork_demo.decoding.measured_costs import ROWS
from spork_demo.models import native
from spork_demo.models.cached_model import CachedModel
from spork_demo.models.compiled import compile_model
from tests.families import stock
from tests.missing import missing
from tests.tiny_checkpoints import saved
from tests.tiny_checkpoints import tiny_llama as saved_llama
from tests.toys import VOCABULARY, naive_greedy, tiny_llama, tiny_pair

TARGET = tiny_llama(5).float()
PROMPT = [1, 2, 3, 4, 5]
NEW = 12


def compiled_twin(model):
    twin = copy.deepcopy(model)
    assert compile_model(twin)
    return CachedModel(twin, VOCABULARY)


@pytest.fixture(scope="module")
def pair():
    return tiny_pair(TARGET, tiny_llama(6).float())


@pytest.mark.parametrize(
    "name",
    [
        "transformers_greedy",
        "transformers_prompt_lookup",
        "transformers_early_exit",
        "transformers_assisted",
    ],
)
def test_peers_decode_what_plain_decoding_does_and_count_their_calls(pair, name):
    tally = Tally()
    peers(pair, NEW)[name](PROMPT, tally)
    assert list(tally.ids[0]) == naive_greedy(TARGET, PROMPT, NEW)
    assert 1 <= tally.target_calls <= (NEW if name == "transformers_greedy" else 4 * NEW)
    if name == "transformers_greedy":
        assert tally.target_calls == NEW
        assert tally.rounds == NEW - 1


def test_a_pair_without_a_draft_model_has_no_assisted_lane():
    assert "transformers_assisted" not in peers(tiny_pair(TARGET), NEW)


@pytest.mark.parametrize("tied", [False, True])
def test_the_weights_a_call_reads(tied):
    model = tiny_llama(5, tie_word_embeddings=tied).float()
    apart = {id(each): each.numel() for each in model.parameters()}
    embedding = model.get_input_embeddings().weight
    wanted = sum(apart.values()) - (0 if tied else embedding.numel())
    assert calls.weight_bytes(model) == 4 * wanted


def test_a_call_without_attention_looks_at_no_row_before_it(monkeypatch):
    if native.kernels() is None:
        missing("no C++ compiler")
    model = stock()
    alone = compiled_twin(model).forward([0]).logits
    said = []

    def heard(work, _synchronise):
        plain = CachedModel.forward
        with monkeypatch.context() as patch:
            patch.setattr(
                CachedModel, "forward", lambda *given: said.append(plain(*given)) or said[-1]
            )
            for each in work * 2:
                each()
        return [3.0, 4.0]

    monkeypatch.setattr(calls, "medians", heard)
    assert calls.unattended(tiny_pair(compiled_twin(model).model), [5, 70]) == {5: 3.0, 70: 4.0}
    assert len(said) == 4
    assert all(torch.equal(scores.logits, alone) for scores in said)


def test_kernels_that_look_at_every_row_have_no_such_figure():
    assert calls.unattended(tiny_pair(TARGET), [5]) == {}


def test_the_memory_rate_is_the_best_of_several():
    ticks = iter([0.0, 4.0, 10.0, 11.0, *(float(n) for n in range(20, 34))])
    assert calls.bytes_per_second("cpu", lambda: next(ticks), 4096) == 4096.0


LANES = {*OURS, "transformers_greedy", "transformers_prompt_lookup", "transformers_early_exit"}
FIGURES = {
    "tokens_per_second",
    "ratio_to_greedy",
    "ratio_to_transformers_greedy",
    "accepted_length",
    "target_calls",
    "identical_to_greedy",
    "identical_to_transformers_greedy",
}


def test_the_command_writes_a_report_of_every_lane(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(calls, "STREAM_BYTES", 4096)
    torch.manual_seed(1)
    options = {"num_attention_heads": 2, "max_position_embeddings": 256}
    target = saved(tmp_path / "target", saved_llama(**options))
    draft = saved(tmp_path / "draft", saved_llama(**options))
    prompts, file = tmp_path / "prompts.jsonl", tmp_path / "report.json"
    prompts.write_text('{"prompt": "w1 w2 w3"}\n{"prompt": "w4 w5"}\n')
    pages = []
    monkeypatch.setattr(
        "spork_demo.bench.command.page_overhead",
        lambda engine, _, prompt: pages.append((engine.pair.name, prompt)),
    )
    arguments = ["--target", target.id, "--draft", draft.id, "--device", "cpu", "--json", str(file)]
    main(["bench", "--prompts", str(prompts), "--max-new-tokens", "8", *arguments])
    report = json.loads(file.read_text())
    lanes = report["lanes"]
    assert set(lanes) == (LANES - {"dspark_exact"}) | {"transformers_assisted"}
    for name, lane in lanes.items():
        assert set(lane) >= FIGURES
        assert lane["identical_to_greedy"] == 2, name
    assert lanes["greedy"]["ratio_to_greedy"] == 1.0
    # ours prefills up to the anchor, theirs takes the first token from the prefill
    assert lanes["greedy"]["target_calls"] == 2 * (1 + 8)
    assert lanes["transformers_greedy"]["target_calls"] == 2 * 8
    assert report["call_ms_by_rows"].keys() == {str(n) for n in ROWS}
    assert report["call_ms_by_context"].keys() == {"128"}
    assert report["call_ms_without_attention"].keys() <= {"128"}
    assert report["weight_mb"] * 1e6 == pytest.approx(calls.weight_bytes(saved_llama(**options)))
    printed = capsys.readouterr().out
    assert all(any(line.startswith(f"{name} ") for line in printed.splitlines()) for name in lanes)
    assert f"{report['bandwidth_limit_ms']:.1f} ms" in printed
    assert pages == [(target.id, "w1 w2 w3")]
    assert "not measured" in printed
    main(["bench", "--prompts", str(prompts), "--quick", *arguments])
    assert len(pages) == 1


def test_auto_means_the_cpu_and_the_gpu_where_there_is_one(monkeypatch):
    assert command.devices("auto") == (["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert command.devices("auto") == ["cpu", "cuda"]
    assert command.devices("cuda:1") == ["cuda:1"]


def test_a_pair_without_a_drafter_has_no_page_to_measure():
    assert page_overhead(SimpleNamespace(pair=tiny_pair(TARGET)), None, "w1") is None


def test_the_overhead_is_the_median_ratio_of_turns_after_a_warm_up(monkeypatch):
    seconds = iter([9.0, 9.0, *(n for turn in range(page.TURNS) for n in (2.0, 2.1 + turn))])
    monkeypatch.setattr(page, "_without", lambda host, prompt: shown(host))
    engine = SimpleNamespace(pair=dataclasses.replace(tiny_pair(TARGET), dspark=object()))

    def shown(host):
        host.lane_seconds = next(seconds)

    class Tab:
        tab = "a tab"

        def __init__(self, host):
            self.host = host

        def run(self, prompt):
            shown(self.host)

        def close(self):
            closed.append(True)

    closed = []
    monkeypatch.setattr(page.Opened, "on", lambda host, spacefile, tokens: Tab(host))
    found = page_overhead(engine, None, "w1")
    assert found["lane_seconds_without_page"] == 2.0
    assert found["ratio"] == pytest.approx((2.1 + page.TURNS // 2) / 2.0)
    assert closed == [True]
