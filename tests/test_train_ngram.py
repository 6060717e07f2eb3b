"""The static table against counts by hand, and the offline measure against a real lane."""

import numpy as np
import pytest

from spork_demo.decoding.drafters.counts import NgramCounts, likeliest
from spork_demo.decoding.drafters.model_forks import ForkPlan
from spork_demo.decoding.drafters.ngram import NgramForks
from spork_demo.decoding.measured_costs import CostTables
from spork_demo.decoding.node_budget import Worthwhile
from spork_demo.metrics import measure
from spork_demo.models.ngram_table import NgramTable, pack
from spork_demo.settings import Settings
from spork_demo.train.data import Answer, Lesson
from spork_demo.train.ngram import accepted_length, agreed, build_table
from spork_demo.train.prompts import held_out_prompts, training_prompts
from tests.toys import naive_greedy, run_lane, tiny_llama, tiny_pair

TEXT = [1, 2, 3, 1, 2, 4, 1, 2, 3]


def test_followers_by_hand():
    table = NgramTable.count([(TEXT, 0, None)], 64, least=1)
    assert table.followers([1, 2]) == ([(3, 2), (4, 1)], 3, 2)
    assert table.followers([2]) == ([(3, 2), (4, 1)], 3, 2)
    assert table.followers([3, 1, 2]) == ([(4, 1)], 1, 1)
    assert table.followers([9]) == ([], 0, 0)
    assert table.followers([]) == ([], 0, 0)
    assert table.followers([1, 2, 3, 1]) == ([(2, 1)], 1, 1)
    assert table.followers([1, 2, 3, 1, 2]) == ([], 0, 0)


def test_the_prompt_is_context_only():
    table = NgramTable.count([(TEXT, 7, None)], 64, least=1)
    assert table.followers([1]) == ([(2, 1)], 1, 1)
    assert table.followers([3]) == ([], 0, 0)


def test_pruning_keeps_the_frequent_and_the_true_totals():
    texts = [([5, 6], 0, None)] * 4 + [([5, 7], 0, None)] * 3
    texts += [([5, 8], 0, None), ([9, 8], 0, None)]
    table = NgramTable.count(texts, 64, keep=(2, 2, 2, 2), least=2)
    assert table.followers([5]) == ([(6, 4), (7, 3)], 8, 3)
    assert table.followers([9]) == ([], 0, 0)


def test_a_place_counts_for_what_the_target_thought_likely():
    shares = [[(6, 0.5), (7, 0.25)], [(9, 1.0)]]
    table = NgramTable.count([([5, 6, 9], 1, shares)], 64, least=1)
    assert table.followers([5]) == ([(6, 0.5), (7, 0.25)], 0.75, 2)
    assert table.followers([5, 6]) == ([(9, 1.0)], 1.0, 1)


def test_answers_with_distributions_are_counted_once(tmp_path):
    answer, other = Answer("p", (1,), (2, 3), False), Answer("q", (1,), (2,), True)
    likeliest = np.array([[2, 4], [3, 4]], dtype=np.uint16)
    chances = np.array([[0.75, 0.25], [0.99, 0.01]], dtype=np.float16)
    lesson = Lesson(answer, np.zeros((2, 3), np.uint16), likeliest, chances)
    table = build_table([answer, other] * 2, [lesson], 64, tmp_path / "table.npz")
    followers, total, different = table.followers([1])
    assert followers == [(2, 2.75), (4, 0.25)]
    assert (total, different) == (3.0, 2)


def test_contexts_of_different_lengths_never_collide():
    contexts = [[0], [0, 0], [0, 0, 0], [1], [0, 1], [65_534], [65_534, 0]]
    contexts += [[0] * 4, [65_534] * 4]
    assert all(pack(context) < 2**64 for context in contexts)
    assert len({pack(context) for context in contexts}) == len(contexts)


def test_a_saved_table_reads_back_the_same(tmp_path):
    answers = [Answer("p", (1, 2), (3, 1, 2, 4, 1, 2, 3), False)] * 2
    table = build_table(answers, [], 64, tmp_path / "deep" / "table.npz")
    again = NgramTable.load(tmp_path / "deep" / "table.npz")
    assert len(again) == len(table) > 0
    assert again.vocab_size == 64
    for context in ([1], [1, 2], [3, 1, 2]):
        assert again.followers(context) == table.followers(context)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 not a table", None])
def test_a_damaged_table_is_refused_with_a_sentence(tmp_path, content):
    path = tmp_path / "table.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=r"missing or damaged\.$"):
        NgramTable.load(path)


def test_a_table_with_pickled_objects_is_refused(tmp_path):
    path = tmp_path / "table.npz"
    np.savez(path, format=1, contexts=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match="damaged"):
        NgramTable.load(path)


def test_the_running_text_counts_three_times_as_much_as_the_table():
    table = NgramTable.count([([7, 8], 0, None)] * 2 + [([7, 9], 0, None)], 64, least=1)
    counts = NgramCounts(2, table)
    assert [t for t, _, source in likeliest(counts.forecast([7]), 2) if source == "table"] == [8, 9]
    counts.add([7, 9], 0)
    # 8 twice in the table; 9 once there and once here: 1 + 3 = 4 of 6, two different followers
    assert likeliest(counts.forecast([7]), 2) == [
        (9, pytest.approx(4 / 8), "context"),
        (8, pytest.approx(2 / 8), "table"),
    ]


def test_the_offline_measure_equals_a_real_run():
    target = tiny_llama(3)
    prompt = [1, 2, 3, 1, 2]
    wanted = naive_greedy(target, prompt, 40)
    pair = tiny_pair(target)
    settings = Settings(method="spork", drafter="ngram", max_new_tokens=40)
    figures = measure(run_lane(pair, settings, prompt))
    plan = ForkPlan(settings.fork_width, 1 + settings.fork_depth, "tree", settings.node_budget)
    worth = Worthwhile(CostTables(pair).near(len(prompt) + 20))
    drafter = NgramForks(NgramCounts(settings.ngram_order), plan, worth=worth)
    answer = Answer("", tuple(prompt), tuple(wanted), False)
    assert accepted_length(drafter, answer, 40) == (figures.committed, figures.rounds)
    assert figures.accepted > 0


def test_agreement_follows_one_path_from_the_anchor():
    drafter = NgramForks(NgramCounts(4), ForkPlan(3, 3, "tree", 12))
    drafter.observe([1, 2, 3, 1, 2, 4, 1], None)
    proposal = drafter.propose([1, 2, 3, 1, 2, 4, 1], 3)
    assert agreed(proposal, [2, 4, 1]) == 3
    assert agreed(proposal, [2, 9]) == 1
    assert agreed(proposal, []) == 0


def test_prompts_are_reproducible_and_held_out_ones_apart():
    training = training_prompts(2000, seed=1)
    assert training == training_prompts(2000, seed=1)
    assert len(set(training)) == 2000
    assert not set(training) & set(held_out_prompts(200, seed=1))
