"""Answers written in batches against one-by-one decoding without a cache."""

import types

import numpy as np
import pytest
import torch

from spork_demo.train import data
from tests.toys import VOCABULARY, naive_greedy, tiny_llama, tiny_pair

TARGET = tiny_llama(5).float()
PROMPTS = [[1, 2, 3, 4], [9, 8, 7, 6], [5, 5, 5, 5], [30, 31, 32, 33], [11, 40, 2, 19]]
NEW = 14


def engine(stops=frozenset()):
    pair = tiny_pair(TARGET, stop_ids=stops)
    encode = lambda prompt, limit: [int(word) for word in prompt.split()]  # noqa: E731
    return types.SimpleNamespace(pair=pair, encode=encode)


def some_stop() -> frozenset[int]:
    """A token that ends some answers early, at different places, and not all."""
    texts = [naive_greedy(TARGET, prompt, NEW) for prompt in PROMPTS]
    counts = {t: sum(t in text for text in texts) for text in texts for t in text}
    return frozenset([next(t for t, n in counts.items() if 1 <= n < len(PROMPTS))])


@pytest.mark.parametrize("stopping", [False, True])
@pytest.mark.parametrize("close", [1, 32])
def test_greedy_answers_equal_decoding_one_by_one(monkeypatch, stopping, close):
    monkeypatch.setattr(data, "CLOSE_AT_ONCE", close)
    stops = some_stop() if stopping else frozenset()
    spoken = data._answer(engine(stops), PROMPTS, NEW, sampled=False, seed=0)
    wanted = [naive_greedy(TARGET, prompt, NEW, stops) for prompt in PROMPTS]
    assert [each.ids for each in spoken] == wanted
    assert stopping is (min(map(len, wanted)) < NEW)


def test_features_and_distributions_are_those_of_a_whole_pass():
    spoken = data._answer(engine(), PROMPTS, NEW, sampled=True, seed=3)
    taps = data.tapped_layers(len(TARGET.model.layers))
    for prompt, said in zip(PROMPTS, spoken, strict=True):
        whole = TARGET(torch.tensor([[*prompt, *said.ids]]), output_hidden_states=True)
        felt = torch.cat([whole.hidden_states[tap + 1][0] for tap in taps], dim=-1)
        features = torch.cat(said.features)
        assert features.shape[0] == len(prompt) + NEW - 1
        assert torch.allclose(features, felt[:-1], atol=1e-4)
        p = whole.logits[0, len(prompt) - 1 : -1, :VOCABULARY].softmax(-1)
        ids, chances = torch.stack(said.likeliest), torch.stack(said.chances)
        assert torch.allclose(chances, p.gather(-1, ids), atol=1e-5)
        assert torch.allclose(chances, p.topk(data.LIKELIEST).values, atol=1e-5)


def test_taps_are_those_of_the_releases():
    assert data.tapped_layers(30) == (1, 14, 27)
    assert data.tapped_layers(36) == (1, 17, 33)


def test_sampling_keeps_the_nucleus_and_follows_it():
    logits = torch.log(torch.tensor([[0.5, 0.3, 0.16, 0.03, 0.01]])) * data.TEMPERATURE
    generator = torch.Generator().manual_seed(0)
    drawn = [int(data.sample(logits, generator, data.TEMPERATURE)[0]) for _ in range(4000)]
    shares = np.bincount(drawn, minlength=5) / 4000
    assert shares[3] == shares[4] == 0  # .5 + .3 + .16 is more than .95
    assert shares[:3] == pytest.approx(np.array([0.5, 0.3, 0.16]) / 0.96, abs=0.03)


def test_an_interrupted_run_goes_on_and_repeats_nothing(monkeypatch, tmp_path):
    listed = [" ".join(map(str, prompt)) for prompt in PROMPTS] + ["1 2", "3 4", "5 6"]
    monkeypatch.setattr(data, "BATCH", 2)
    wanted = {prompt: naive_greedy(TARGET, [*map(int, prompt.split())], NEW) for prompt in listed}
    told = []

    def stop_after_two(line):
        told.append(line)
        if len(told) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        data.make_answers(engine(), tmp_path, listed, NEW, told=stop_after_two)
    before = {path.name for path in tmp_path.glob("*.jsonl")}
    (tmp_path / "00002.new").write_text("half a shard")
    data.make_answers(engine(), tmp_path, listed, NEW, told=told.append)
    assert before < {path.name for path in tmp_path.glob("*.jsonl")}
    answers = list(data.read_answers(tmp_path))
    assert sorted(answer.prompt for answer in answers) == sorted(listed)
    for answer in answers:
        assert answer.sampled or list(answer.ids) == wanted[answer.prompt]
        assert answer.sampled is (listed.index(answer.prompt) % 2 == 1)
    lessons = list(data.read_lessons(tmp_path))
    assert [each.answer for each in lessons] == answers
    for each in lessons:
        prompt, ids = each.answer.prompt_ids, each.answer.ids
        assert len(each.features) == len(prompt) + len(ids) - 1
        assert len(each.likeliest) == len(each.chances) == len(ids)
        if not each.answer.sampled:
            assert each.likeliest[:, 0].tolist() == list(ids)


def test_answers_without_arrays_are_text_only(tmp_path):
    line = '{"prompt": "p", "prompt_ids": [1], "ids": [2, 3], "sampled": false}\n'
    (tmp_path / "00000.jsonl").write_text(line)
    assert [answer.ids for answer in data.read_answers(tmp_path)] == [(2, 3)]
    assert list(data.read_lessons(tmp_path)) == []
