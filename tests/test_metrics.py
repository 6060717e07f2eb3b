"""Figures worked out by hand from handmade rounds."""

import pytest

from spork_demo.metrics import measure, percentile, speedup
from spork_demo.settings import Settings
from spork_demo.trace import ForkScore, Node, Race, Round, Token, Trace


def round_(index: int, verdicts: str, committed: int, **more) -> Round:
    """A chain whose nodes are accepted (A) or rejected (R), and `committed` tokens."""
    fates = {"A": "accepted", "R": "rejected"}
    nodes = tuple(Node(n, "", n - 1, fates[v]) for n, v in enumerate(verdicts))
    accepted = verdicts.count("A")
    last = "bonus" if accepted == len(verdicts) else "correction"
    tokens = [Token(n, "x", "accepted" if n < accepted else last) for n in range(committed)]
    values = {
        "nodes": nodes,
        "committed": tuple(tokens),
        "scheduled": len(nodes),
        "accepted": accepted,
        "target_calls": 1,
        "draft_calls": 0,
        "cache_rows": 0,
        "seconds": 0.1,
        "draft_seconds": 0.02,
        "judge_seconds": 0.06,
        "commit_seconds": 0.01,
    }
    return Round(index=index, **(values | more))


def trace(*rounds: Round, method: str = "speculative") -> Trace:
    return Trace(Settings(method=method), "p", rounds=rounds, prefill_seconds=0.5)


THREE = trace(round_(0, "AAAA", 5), round_(1, "RRRR", 1), round_(2, "AARR", 3))


def test_counts_and_rates_of_three_rounds_of_four():
    figures = measure(THREE)
    assert (figures.committed, figures.drafted, figures.accepted) == (9, 12, 6)
    assert figures.acceptance_rate == 0.5
    assert figures.accepted_length == 3.0
    assert figures.conditional_acceptance == (2 / 3, 1.0, 0.5, 1.0)
    assert figures.prefix_survival == (2 / 3, 2 / 3, 1 / 3, 1 / 3)


def test_accepted_length_is_one_plus_the_sum_of_prefix_survival():
    figures = measure(THREE)
    assert figures.accepted_length == pytest.approx(1 + sum(figures.prefix_survival))


def test_prefix_survival_never_rises_even_when_draft_lengths_vary():
    figures = measure(trace(round_(0, "AR", 2), round_(1, "R", 1), round_(2, "AAAAA", 6)))
    assert figures.prefix_survival == (2 / 3, 1 / 3, 1 / 3, 1 / 3, 1 / 3)


def test_what_stands_behind_a_refusal_is_not_accepted():
    nodes = tuple(
        Node(n, "", n - 1, fate)
        for n, fate in enumerate(["accepted", "rejected", "rejected", "rejected"])
    )
    assert measure(trace(round_(0, "ARRR", 2, nodes=nodes))).accepted == 1


def test_a_stop_token_inside_the_draft_is_no_rejection():
    figures = measure(trace(round_(0, "AAARR", 3)))
    assert (figures.accepted, figures.committed) == (3, 3)
    assert figures.acceptance_rate == 1
    assert figures.conditional_acceptance == (1.0, 1.0, 1.0)


def test_the_bonus_is_on_neither_side_of_the_rate():
    assert measure(trace(round_(0, "RRRR", 1))).acceptance_rate == 0


def test_siblings_of_a_kept_fork_do_not_count_as_a_refusal_below_it():
    nodes = (
        Node(1, "", -1, "accepted"),
        Node(2, "", -1, "rejected"),
        Node(3, "", 0, "accepted"),
        Node(4, "", 0, "rejected"),
    )
    figures = measure(trace(round_(0, "AARR", 3, nodes=nodes)))
    assert figures.conditional_acceptance == (1.0, 1.0)


def test_seconds_add_up_and_prefill_stays_apart():
    figures = measure(THREE)
    assert figures.decode_seconds == pytest.approx(0.3)
    assert figures.prefill_seconds == 0.5
    assert figures.other_seconds == pytest.approx(0.3 - 3 * 0.09)
    assert figures.tokens_per_second == pytest.approx(30)
    assert figures.end_to_end_tokens_per_second == pytest.approx(9 / 0.8)
    assert figures.seconds_to_first_token == pytest.approx(0.6)


def test_article_spork_counts_accepted_rounds_and_jumps():
    fork = round_(0, "AAAA", 4, scores=(ForkScore(3, 0.9),))
    none = round_(1, "RRRR", 1, scores=(ForkScore(3, 0.2),))
    figures = measure(trace(fork, none, method="spork"))
    assert figures.accepted_rounds == 0.5
    assert figures.mean_jump == 4
    assert figures.accepted_length == 2.5


def test_an_empty_trace_gives_zeros_and_dashes():
    figures = measure(trace())
    assert (figures.committed, figures.rounds, figures.decode_seconds) == (0, 0, 0)
    assert figures.tokens_per_second is None
    assert figures.accepted_length is None
    assert figures.few_rounds


def test_few_rounds_says_when_a_figure_rests_on_little():
    many = trace(*(round_(n, "A", 2) for n in range(20)))
    assert not measure(many).few_rounds
    assert measure(THREE).few_rounds


def test_speedup_is_the_ratio_to_the_greedy_lane_of_the_same_race():
    slow = Trace(Settings(), "p", rounds=tuple(round_(n, "", 1) for n in range(3)))
    race = Race("r", (slow, THREE))
    assert speedup(THREE, race.baseline) == pytest.approx(3.0)
    assert speedup(THREE, None) is None


@pytest.mark.parametrize(
    ("share", "wanted"), [(0.5, 5), (0.99, 10), (1.0, 10), (0.1, 1), (0.11, 2)]
)
def test_percentiles_take_the_nearest_rank(share, wanted):
    assert percentile(range(1, 11), share) == wanted
