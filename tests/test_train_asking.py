"""Prompts the target writes itself, against decoding from the start of a user's turn one by one."""

import types

import pytest
import torch

from spork_demo.train import asking
from tests.toys import naive_greedy, tiny_llama, tiny_pair

TARGET = tiny_llama(5).float()
HEAD = [3, 1, 4]


def engine(stops=frozenset(), special=frozenset()):
    pair = types.SimpleNamespace(
        target=TARGET, stop_ids=stops, special_ids=special, vocab_size=tiny_pair().vocab_size
    )
    codec = types.SimpleNamespace(
        turn_head=lambda: HEAD, decode=lambda ids: " ".join(map(str, ids)) + " "
    )
    return types.SimpleNamespace(pair=pair, codec=codec)


def greedily(logits, generator, temperature):
    return logits.argmax(dim=-1)


@pytest.fixture
def text() -> list[int]:
    return naive_greedy(TARGET, HEAD, asking.LONGEST)


def first_with(text: list[int], place: int) -> int:
    """A place from `place` on whose token has not stood before it."""
    return next(n for n in range(place, len(text)) if text[n] not in text[:n])


def test_a_prompt_is_what_stands_before_the_end_of_the_turn(monkeypatch, text):
    monkeypatch.setattr(asking, "sample", greedily)
    monkeypatch.setattr(asking, "BATCH", 3)
    end = first_with(text, asking.SHORTEST + 1)
    said = asking._prompts(engine(frozenset([text[end]])), 0)
    assert said == [" ".join(map(str, text[:end]))] * 3


def test_endless_short_and_forged_prompts_are_left_out(monkeypatch, text):
    monkeypatch.setattr(asking, "sample", greedily)
    monkeypatch.setattr(asking, "BATCH", 2)
    never = next(t for t in range(tiny_pair().vocab_size) if t not in text)
    assert asking._prompts(engine(frozenset([never])), 0) == []
    assert asking._prompts(engine(frozenset([text[0]])), 0) == []
    end = first_with(text, asking.SHORTEST + 1)
    forged = engine(frozenset([text[end]]), special=frozenset([text[1]]))
    assert asking._prompts(forged, 0) == []


@pytest.mark.parametrize("close", [1, 32])
def test_rows_that_ended_do_not_disturb_the_others(monkeypatch, close):
    monkeypatch.setattr("spork_demo.train.data.CLOSE_AT_ONCE", close)
    monkeypatch.setattr(asking, "BATCH", 40)
    stops = frozenset(range(0, tiny_pair().vocab_size, 9))
    drawn: list[torch.Tensor] = []
    plain = asking.sample

    def recorded(logits, generator, temperature):
        # the same random numbers whatever rows are left: a row takes what its text says
        drawn.append(plain(logits, torch.Generator().manual_seed(len(drawn)), temperature))
        return logits.argmax(dim=-1) if len(drawn) > 1 else drawn[0]

    monkeypatch.setattr(asking, "sample", recorded)
    said = asking._prompts(engine(stops), 0)
    wanted = []
    for first in drawn[0].tolist():
        text = [first]
        if first not in stops:
            text += naive_greedy(TARGET, [*HEAD, first], asking.LONGEST - 1, stops)
        if text[-1] in stops and len(text) > asking.SHORTEST:
            wanted.append(" ".join(map(str, text[:-1])))
    assert said == wanted
    assert wanted


def test_a_run_goes_on_where_it_stopped_and_keeps_a_part_apart(monkeypatch, tmp_path):
    seeds = []

    def prompts(_engine, seed):
        seeds.append(seed)
        return [f"prompt {n // 2} of {seed}" for n in range(60)]

    monkeypatch.setattr(asking, "_prompts", prompts)
    path = tmp_path / "work" / "asked.jsonl"
    asking.ask(engine(), path, 50)
    first = asking.read_asked(path)
    asking.ask(engine(), path, 100)
    asked = asking.read_asked(path)
    assert len(first) == 60
    assert asked[:60] == first
    assert len(asked) == len(set(asked)) == 120
    assert len(seeds) == len(set(seeds)) == 4
    apart, rest = asking.kept_apart(asked), asking.to_answer(asked)
    assert sorted(apart + rest) == sorted(asked)
    assert len(apart) == 3


def test_a_target_that_repeats_itself_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setattr(asking, "_prompts", lambda _engine, _seed: ["the same"])
    with pytest.raises(ValueError, match=r"^The target asks nothing new\.$"):
        asking.ask(engine(), tmp_path / "asked.jsonl", 3)
