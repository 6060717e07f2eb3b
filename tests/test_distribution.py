"""Above temperature 0, exact methods draw from the target's own joint distribution.

Every statistic is a chi-square of observed counts against probabilities worked out from the
target alone. Deliberately broken rules must fail the same test, or it would prove nothing.
"""

import collections
import itertools

import pytest
import torch
from scipy.stats import chi2

from spork_demo.decoding.drafters.model_forks import ForkPlan, ModelForks
from spork_demo.decoding.drafters.proposal import Proposal
from spork_demo.decoding.greedy import greedy
from spork_demo.decoding.sampling import distribution, draw, residual
from spork_demo.decoding.verified import Judged, article_rule, exact_rule, verified
from spork_demo.decoding.verify import Verdict, verify_article, verify_exact
from spork_demo.settings import Settings
from tests.toys import (
    SampledDrafter,
    ScriptedDrafter,
    TableModel,
    blurred,
    run_lane,
    table,
    table_run,
    tiny_llama,
    tiny_pair,
)

RUNS = 4000
LENGTH = 3
VOCABULARY = 4
PROMPT = (1, 2)
TARGET = table(VOCABULARY, seed=0, sharpness=1.0)
DRAFT = table(VOCABULARY, seed=7, sharpness=1.0)
SETTINGS = Settings(method="spork", temperature=0.9, max_new_tokens=LENGTH)
LIMIT = chi2.ppf(1 - 1e-5, VOCABULARY**LENGTH - 1)
"""A correct method fails about once in a hundred thousand seeds; the seeds here are fixed."""

P, Q = torch.tensor([0.6, 0.3, 0.1]), torch.tensor([0.2, 0.5, 0.3])


def joint(settings: Settings) -> dict[tuple[int, ...], float]:
    """The target's probability of each sequence of LENGTH tokens, by plain multiplication."""
    cells = {}
    for sequence in itertools.product(range(VOCABULARY), repeat=LENGTH):
        p, above = 1.0, list(PROMPT)
        for token in sequence:
            row = TARGET[above[-2], above[-1]][None]
            p *= float(distribution(row, settings)[0, token])
            above.append(token)
        cells[sequence] = p
    return cells


def statistic(lane, settings: Settings = SETTINGS, runs: int = RUNS) -> float:
    """Chi-square of `runs` runs of `lane(run, generator)` against the exact joint distribution."""
    generator = torch.Generator().manual_seed(11)
    counts = collections.Counter()
    for _ in range(runs):
        run = table_run(TableModel(TARGET), settings, PROMPT, generator)
        events = list(lane(run, generator))
        counts[tuple(t.token for e in events[1:-1] for t in e.committed)] += 1
    expected = joint(settings)
    assert all(expected[cell] > 0 for cell in counts)
    return sum((counts[cell] - runs * p) ** 2 / (runs * p) for cell, p in expected.items() if p > 0)


def chain(rule, parents=(-1, 0), settings=SETTINGS):
    return lambda run, generator: verified(
        run, SampledDrafter(DRAFT, parents, settings, generator), rule
    )


def chosen(script, rule=exact_rule):
    return lambda run, _: verified(run, ScriptedDrafter(script), rule)


def test_greedy_lane_samples_the_target():
    assert statistic(lambda run, _: greedy(run)) < LIMIT


def test_a_sampled_chain_is_lossless():
    assert statistic(chain(exact_rule)) < LIMIT


def test_a_tree_of_sampled_siblings_is_lossless():
    assert statistic(chain(exact_rule, parents=(-1, -1, 0, 0, 1))) < LIMIT


@pytest.mark.parametrize("budget", [3, 4])
@pytest.mark.parametrize("sample_first", [False, True])
def test_a_budget_among_drawn_tokens_is_lossless(budget, sample_first):
    plan = ForkPlan(2 + sample_first, 2, "tree", budget, sample_first, sample_rest=True)

    def lane(run, generator):
        forks = ModelForks(
            TableModel(DRAFT),
            plan,
            SETTINGS,
            generator,
            source="table",
            owns_cache=True,
            context=10_000,
        )
        return verified(run, forks, exact_rule)

    assert statistic(lane) < LIMIT


def test_chosen_forks_are_lossless():
    forks = ([0, 1, 2, 3, 1], (-1, -1, 0, 0, 1))
    assert statistic(chosen(lambda tokens: forks)) < LIMIT


def test_a_chosen_chain_is_lossless_however_its_length_depends_on_the_past():
    assert statistic(chosen(lambda tokens: [tokens[-1], 2][: tokens[-1]])) < LIMIT


@pytest.mark.parametrize("filters", [{"top_k": 2}, {"top_p": 0.7}, {"top_k": 3, "top_p": 0.8}])
def test_filters_leave_the_same_distribution(filters):
    settings = Settings(method="spork", temperature=0.9, max_new_tokens=LENGTH, **filters)
    zero = sum(p == 0 for p in joint(settings).values())
    limit = chi2.ppf(1 - 1e-5, VOCABULARY**LENGTH - 1 - zero)
    assert zero > 0
    assert statistic(chain(exact_rule, settings=settings), settings) < limit


def test_article_speculative_is_biased_and_the_test_sees_it():
    assert statistic(chain(article_rule)) > 2 * LIMIT


def test_a_correction_from_the_target_instead_of_the_residual_is_caught():
    def broken(run, row, proposal):
        for node, token in enumerate(proposal.tokens):
            p, q = row(node), proposal.sampled_from[node]
            if float(torch.rand((), generator=run.generator)) >= float(p[token] / q[token]):
                return Judged(Verdict(tuple(range(node)), draw(p, run.generator), True))
        last = len(proposal.tokens)
        return Judged(Verdict(tuple(range(last)), draw(row(last), run.generator), False))

    assert statistic(chain(broken)) > 2 * LIMIT


def test_chosen_forks_scored_as_if_sampled_are_caught():
    def broken(run, row, proposal):
        q = tuple(DRAFT[PROMPT].softmax(-1) for _ in proposal.tokens)
        as_sampled = Proposal(proposal.tokens, proposal.parents, sampled_from=q)
        return Judged(verify_exact(row, as_sampled, run.generator))

    assert statistic(chosen(lambda tokens: [0, 1], broken)) > 2 * LIMIT


def test_a_cut_that_peeks_at_the_drafted_token_is_caught():
    def peeking(run, row, proposal):
        # keeps the draft only when its own token looks good: the choice depends on the token
        kept = len(proposal.tokens) if proposal.tokens and proposal.tokens[0] == 0 else 0
        shorter = Proposal(
            proposal.tokens[:kept], proposal.parents[:kept], sampled_from=proposal.sampled_from
        )
        return Judged(verify_exact(row, shorter, run.generator))

    assert statistic(chain(peeking)) > 2 * LIMIT


def first_tokens(rule, forks, runs=20_000, seed=5, p=P):
    """Counts of the first committed token over `runs` rounds of a rule on one row."""
    generator = torch.Generator().manual_seed(seed)
    counts, accepted = collections.Counter(), 0
    for _ in range(runs):
        proposal = forks(generator)
        verdict = rule(lambda _: p, proposal, generator)
        token = proposal.tokens[verdict.path[0]] if verdict.path else verdict.own
        counts[token] += 1
        accepted += bool(verdict.path)
    return [counts[t] for t in range(len(p))], accepted / runs


def one_sampled(q):
    def forks(generator):
        return Proposal((draw(q, generator),), (-1,), (None,), (q,))

    return forks


def test_toy_rule_gives_the_target_and_accepts_the_overlap():
    counts, accepted = first_tokens(verify_exact, one_sampled(Q))
    expected = [12_000, 6_000, 2_000]
    assert sum((c - e) ** 2 / e for c, e in zip(counts, expected, strict=True)) < 18.42
    assert accepted == pytest.approx(0.6, abs=0.015)  # the sum of min(p, q)


def test_toy_article_rule_gives_the_known_wrong_answer():
    counts, _ = first_tokens(verify_article, one_sampled(Q))
    # accepted: q(x) p(x); refused: mass 1 - sum q p, then p
    kept = Q * P
    wrong = (kept + (1 - kept.sum()) * P).tolist()
    assert [c / 20_000 for c in counts] == pytest.approx(wrong, abs=0.015)


def test_equal_distributions_always_accept_and_leave_no_nan():
    counts, accepted = first_tokens(verify_exact, one_sampled(P))
    assert accepted == 1
    assert sum(counts) == 20_000
    assert torch.equal(residual(P, P), P)


def test_disjoint_distributions_never_accept():
    p, q = torch.tensor([0.0, 0.0, 1.0]), torch.tensor([0.5, 0.5, 0.0])
    counts, accepted = first_tokens(verify_exact, one_sampled(q), runs=2000, p=p)
    assert (counts, accepted) == ([0, 0, 2000], 0)


def test_sampled_forks_are_accepted_with_the_target_probability():
    p = torch.tensor([0.5, 0.3, 0.2])
    forks = Proposal((0, 1), (-1, -1), (None, None), (None, None))
    generator = torch.Generator().manual_seed(3)
    seen = collections.Counter()
    for _ in range(20_000):
        verdict = verify_exact(lambda _: p, forks, generator)
        seen[verdict.path[:1] or "correction"] += 1
        if not verdict.path:
            assert verdict.own == 2
            assert verdict.is_correction
    shares = [seen[(0,)] / 20_000, seen[(1,)] / 20_000, seen["correction"] / 20_000]
    assert shares == pytest.approx([0.5, 0.3, 0.2], abs=0.015)


def test_token_zero_is_a_token_like_any_other():
    p = torch.tensor([1.0, 0.0, 0.0])
    counts, _ = first_tokens(verify_exact, one_sampled(torch.tensor([1.0, 0.0, 0.0])), 100, p=p)
    assert counts == [100, 0, 0]


def test_draws_within_a_run_are_independent():
    p = torch.tensor([0.5, 0.5])
    forks = Proposal((0, 0), (-1, 0), (None, None), (None, None))
    generator = torch.Generator().manual_seed(0)
    both = sum(len(verify_exact(lambda _: p, forks, generator).path) == 2 for _ in range(20_000))
    assert both / 20_000 == pytest.approx(0.25, abs=0.015)


def test_nucleus_keeps_the_smallest_set_and_renormalises():
    logits = torch.tensor([[0.5, 0.3, 0.2]]).log()
    p = distribution(logits, Settings(temperature=1.0, top_p=0.75))[0]
    assert p.tolist() == pytest.approx([0.625, 0.375, 0.0])
    generator = torch.Generator().manual_seed(0)
    assert 2 not in {draw(p, generator) for _ in range(20_000)}


def test_top_k_comes_before_top_p_as_in_generate():
    logits = torch.tensor([[0.35, 0.25, 0.20, 0.05, 0.03, 0.12 - 0.08, 0.04, 0.04]]).log()
    p = distribution(logits, Settings(temperature=1.0, top_k=4, top_p=0.82))[0]
    assert (p > 0).nonzero()[:, 0].tolist() == [0, 1, 2]


def test_top_k_zero_is_off():
    logits = torch.randn(1, 50)
    p = distribution(logits, Settings(temperature=1.0, top_k=0))
    assert torch.allclose(p, logits.softmax(-1))


@pytest.mark.parametrize("temperature", [0.0, 5e-4])
def test_temperatures_near_zero_are_greedy(temperature):
    logits = torch.tensor([[1.0, 3.0, 3.0, 2.0]])
    p = distribution(logits, Settings(temperature=temperature))
    assert p.tolist() == [[0.0, 1.0, 0.0, 0.0]]  # the lowest index on a tie


def test_distributions_are_float32_whatever_the_logits_are():
    logits = torch.randn(2, 100).to(torch.bfloat16)
    p = distribution(logits, Settings(temperature=1.0))
    assert p.dtype is torch.float32
    assert torch.allclose(p, logits.float().softmax(-1))


@pytest.mark.parametrize(
    ("method", "drafter", "sampling"),
    [
        ("speculative", "draft_model", "greedy"),
        ("speculative", "ngram", "greedy"),
        ("spork", "draft_model", "greedy"),
        ("spork", "draft_model", "top_p"),
        ("spork", "early_exit", "top_p"),
        ("spork", "ngram", "greedy"),
    ],
)
def test_lanes_on_a_real_cache_sample_the_target(method, drafter, sampling):
    """The first two tokens of a tiny Llama against its own naive probabilities."""
    target = tiny_llama(3, vocabulary=8, hidden_size=16, intermediate_size=32)
    draft = blurred(target, 0.1)
    import dataclasses

    pair = dataclasses.replace(tiny_pair(target, draft), vocab_size=8)
    prompt, runs = [1, 2, 3, 1, 2], 700
    first = target(torch.tensor([prompt])).logits[0, -1].softmax(-1)
    expected = {}
    for a in range(8):
        second = target(torch.tensor([[*prompt, a]])).logits[0, -1].softmax(-1)
        expected |= {(a, b): float(first[a] * second[b]) for b in range(8)}
    counts = collections.Counter()
    for seed in range(runs):
        settings = Settings(
            method=method,
            drafter=drafter,
            fork_sampling=sampling,
            fork_shape="forks",
            fork_width=2,
            fork_depth=1,
            draft_length=2,
            verifier_layers=2,
            temperature=1.0,
            seed=seed,
            max_new_tokens=2,
        )
        counts[run_lane(pair, settings, prompt).ids] += 1
    # cells too rare to count one by one are taken together
    common = {cell: p for cell, p in expected.items() if runs * p >= 5}
    rest = 1 - sum(common.values())
    value = sum((counts[cell] - runs * p) ** 2 / (runs * p) for cell, p in common.items())
    if runs * rest >= 5:
        seen = sum(counts.values()) - sum(counts[cell] for cell in common)
        value += (seen - runs * rest) ** 2 / (runs * rest)
    assert value < chi2.ppf(1 - 1e-5, len(common))


def test_a_draw_is_where_a_uniform_number_falls_in_the_cumulative_sum():
    p = torch.tensor([0.0, 0.3, 0.0, 0.25, 0.45, 0.0])
    drawn, replayed = torch.Generator().manual_seed(5), torch.Generator().manual_seed(5)
    for _ in range(500):
        point = float(torch.rand((), generator=replayed, dtype=torch.float64)) * sum(p.tolist())
        sums = itertools.accumulate(p.tolist())
        assert draw(p, drawn) == next(n for n, total in enumerate(sums) if total > point)


@pytest.mark.parametrize("u", [0.0, 1 - 2**-53, 1.0])
def test_a_draw_at_the_ends_has_a_probability(monkeypatch, u):
    monkeypatch.setattr(torch, "rand", lambda *_a, **_k: torch.tensor(u, dtype=torch.float64))
    p = torch.tensor([0.0, 0.3, 0.7, 0.0])
    assert p[draw(p, torch.Generator())] > 0


def test_a_certain_token_takes_no_random_number():
    generator = torch.Generator().manual_seed(1)
    before = generator.get_state()
    assert draw(torch.tensor([0.0, 1.0, 0.0]), generator) == 1
    assert torch.equal(generator.get_state(), before)
