"""Recorded calls against plain ones, on a recorder that repeats its work where a GPU replays it.

What a driver does is not tested here; everything around it is: shapes, masks, slots, reuse.
"""

import copy
import gc
import logging
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from spork_demo.engine import Engine
from spork_demo.models import pair as pairs
from spork_demo.models.cached_model import CachedModel
from spork_demo.models.compiled import compiled_of
from spork_demo.models.graphed import FIRST_CAPACITY, SHAPES, SPARE, graph_model
from spork_demo.settings import Settings
from tests.toys import VOCABULARY, dspark_pair, naive_greedy, run_lane, tiny_llama, tiny_pair

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]
TREE = [10, 20, 11, 21, 22, 23], [-1, -1, 0, 1, 1, 4]
MODEL = tiny_llama(0, max_position_embeddings=4096)


class Repeater:
    """Records by keeping the work, and replays into the same tensors, as a GPU does."""

    def __init__(self) -> None:
        self.recorded = 0

    def __call__(self, work):
        self.recorded += 1
        logits, seen = work()
        logits, seen = logits.clone(), {n: states.clone() for n, states in seen.items()}

        def replay() -> None:
            fresh, states = work()
            logits.copy_(fresh)
            for n, kept in seen.items():
                kept.copy_(states[n])

        logits.fill_(torch.nan)  # a recording alone computes nothing
        return replay, (logits, seen)


def graphed_twin(model=MODEL):
    twin, recorder = copy.deepcopy(model), Repeater()
    assert graph_model(twin, recorder)
    return twin, recorder


def pair_of_caches(prompt=PROMPT):
    twin, _ = graphed_twin()
    caches = CachedModel(MODEL, VOCABULARY), CachedModel(twin, VOCABULARY)
    for cached in caches:
        cached.forward(prompt, last_only=True)
        cached.commit(range(cached.pending))
    return caches


def same(plain, graphs, *feed, **options):
    wanted, got = plain.forward(*feed, **options), graphs.forward(*feed, **options)
    assert got.logits.shape == wanted.logits.shape
    assert torch.allclose(got.logits, wanted.logits, atol=1e-5)
    assert got.features.keys() == wanted.features.keys()
    for layer, states in wanted.features.items():
        assert torch.allclose(got.features[layer], states, atol=1e-5)
    assert (graphs.rows, graphs.pending) == (plain.rows, plain.pending)


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 8, 33, SHAPES[-1], SHAPES[-1] + 1])
def test_chains_of_every_length_say_what_plain_calls_say(rows):
    plain, graphs = pair_of_caches()
    same(plain, graphs, [n % VOCABULARY for n in range(rows)])


def test_trees_commits_and_rollbacks_go_on_where_plain_calls_go_on():
    plain, graphs = pair_of_caches()
    for committed in ([1, 4, 5], [0], [1], [0, 2]):
        same(plain, graphs, *TREE)
        for cached in (plain, graphs):
            cached.commit(committed)
    same(plain, graphs, *TREE)
    for cached in (plain, graphs):
        cached.rollback()
        cached.rollback(to=5)
    same(plain, graphs, [7, 8])


def test_a_tree_grown_level_by_level_is_seen_from_each_level():
    plain, graphs = pair_of_caches()
    same(plain, graphs, [10, 20], [-1, -1])
    same(plain, graphs, [11, 21, 22], [0, 1, 1])
    same(plain, graphs, [12], [4])


def test_an_early_exit_reads_the_same_slot_and_disturbs_nothing():
    plain, graphs = pair_of_caches()
    exits = plain.early_exit(1), graphs.early_exit(1)
    same(plain, graphs, [7])
    for cached in (plain, graphs):
        cached.commit([0])
    same(*exits, *TREE)
    same(*exits, [30], [3])
    for cached in exits:
        cached.rollback()
    same(plain, graphs, *TREE)


def test_features_come_from_recorded_calls_also_when_asked_for_later():
    plain, graphs = pair_of_caches()
    same(plain, graphs, [7, 8])
    plain.rollback(), graphs.rollback()
    same(plain, graphs, [7, 8], features=(0,))
    plain.rollback(), graphs.rollback()
    same(plain, graphs, [9, 8], features=(1, 0))
    same(plain, graphs, [9, 8])


def test_what_a_call_said_is_not_changed_by_the_next():
    _, graphs = pair_of_caches()
    first = graphs.forward([7, 8], features=(0,))
    said, states = first.logits.clone(), first.features[0].clone()
    graphs.rollback()
    graphs.forward([9, 10], features=(0,))
    assert torch.equal(first.logits, said)
    assert torch.equal(first.features[0], states)


def test_only_the_last_row_is_given_where_only_it_is_asked_for():
    plain, graphs = pair_of_caches()
    same(plain, graphs, [7, 8, 9], last_only=True)


def test_a_context_that_outgrows_its_slot_moves_to_a_larger_one():
    twin, _ = graphed_twin()
    plain, graphs = CachedModel(MODEL, VOCABULARY), CachedModel(twin, VOCABULARY)
    text = [(7 * n) % VOCABULARY for n in range(FIRST_CAPACITY + 40)]
    places = range(0, len(text), SHAPES[-1])
    for at in places:
        part = text[at : at + SHAPES[-1]]
        same(plain, graphs, part, last_only=True)
        plain.commit(range(len(part))), graphs.commit(range(len(part)))
    same(plain, graphs, *TREE)
    decoder = compiled_of(twin)
    assert [slot.capacity for slot in decoder._free] == [FIRST_CAPACITY]
    assert [slot.capacity for slot in decoder._held.values()] == [2 * FIRST_CAPACITY]


def test_a_slot_has_room_for_what_is_to_come():
    twin, _ = graphed_twin()
    cached = CachedModel(twin, VOCABULARY)
    cached.forward([n % VOCABULARY for n in range(FIRST_CAPACITY - SPARE + 1)], last_only=True)
    cached.commit(range(cached.pending))
    cached.forward([7])
    assert next(iter(compiled_of(twin)._held.values())).capacity == 2 * FIRST_CAPACITY


def test_a_slot_and_its_graphs_go_to_the_next_run():
    twin, recorder = graphed_twin()
    for text in (PROMPT, PROMPT[::-1]):
        plain, graphs = CachedModel(MODEL, VOCABULARY), CachedModel(twin, VOCABULARY)
        before = recorder.recorded
        for length in (1, 3, 1):
            same(plain, graphs, text[:length])
            plain.commit(range(length)), graphs.commit(range(length))
        del plain, graphs
        gc.collect()
    assert recorder.recorded == before
    decoder = compiled_of(twin)
    assert not decoder._held
    assert len(decoder._free) == 1


def test_two_lanes_never_share_a_slot():
    twin, _ = graphed_twin()
    lanes = [(CachedModel(MODEL, VOCABULARY), CachedModel(twin, VOCABULARY)) for _ in range(2)]
    for at in range(len(PROMPT)):
        for place, (plain, graphs) in enumerate(lanes):
            same(plain, graphs, [PROMPT[at - place], PROMPT[at]])
            plain.commit([0, 1]), graphs.commit([0, 1])
    assert len(compiled_of(twin)._held) == 2


@pytest.mark.parametrize(
    "settings",
    [
        Settings(method="greedy", drafter="target"),
        Settings(method="speculative", drafter="ngram", judge="target"),
        Settings(method="speculative", drafter="early_exit", judge="target", verifier_layers=1),
        Settings(method="spork", drafter="draft_model", judge="target"),
        Settings(method="dspark", drafter="dspark", judge="target"),
        Settings(method="spork", rules="article", drafter="target", judge="early_layers",
                 fork_shape="forks", verifier_layers=1),
    ],
)  # fmt: skip
def test_lanes_on_recorded_calls_give_the_text_of_plain_ones(settings):
    def ids(target, draft):
        pair = dspark_pair(target=target, draft=draft)
        trace = run_lane(pair, settings, PROMPT)
        return [token.token for round_ in trace.rounds for token in round_.committed]

    drafts = tiny_llama(1)
    plain = ids(MODEL, drafts)
    assert ids(graphed_twin()[0], graphed_twin(drafts)[0]) == plain
    if settings.exact:
        assert plain == naive_greedy(MODEL, PROMPT, len(plain))


def test_a_warm_up_records_every_shape_of_every_lane():
    twin, recorder = graphed_twin()
    tokenizer = SimpleNamespace(chat_template=None)
    engine = Engine(replace(tiny_pair(twin), device="cuda", tokenizer=tokenizer))
    early = Settings(drafter="early_exit", verifier_layers=1)
    engine.warm_up(tuple(PROMPT), [Settings(method="greedy"), early])
    recorded = recorder.recorded
    lanes = [CachedModel(twin, VOCABULARY) for _ in range(2)]
    for rows in (1, 2, 5, 16, 20):
        for cached in lanes:
            cached.forward([7] * rows)
            cached.rollback()
            cached.early_exit(1).forward([7] * rows)
            cached.rollback()
    assert recorder.recorded == recorded


def test_a_model_that_cannot_be_recorded_stays_as_it_is(caplog):
    def refuse(_work):
        raise RuntimeError("operation not permitted when stream is capturing")

    twin = copy.deepcopy(MODEL)
    with caplog.at_level(logging.ERROR):
        assert not graph_model(twin, refuse)
    assert compiled_of(twin) is None
    assert "runs without graphs" in caplog.text


def test_a_recording_that_says_something_else_is_not_used():
    def wrong(work):
        logits, seen = work()
        return lambda: None, (logits.flip(-1).clone(), seen)

    twin = copy.deepcopy(MODEL)
    assert not graph_model(twin, wrong)
    assert compiled_of(twin) is None


def test_without_a_gpu_there_are_no_graphs():
    twin = copy.deepcopy(MODEL)
    assert not graph_model(twin)
    assert compiled_of(twin) is None


def test_a_pair_on_a_gpu_runs_from_graphs_or_as_it_is(monkeypatch):
    asked = []
    monkeypatch.setattr(pairs, "graph_model", lambda model: asked.append(model) or True)
    pair = replace(tiny_pair(MODEL, tiny_llama(1)), device="cuda:0")
    assert pairs._use("compiled", pair)
    assert asked == [pair.target, pair.draft]
    monkeypatch.setattr(pairs, "graph_model", lambda _model: False)
    assert not pairs._use("compiled", pair)
