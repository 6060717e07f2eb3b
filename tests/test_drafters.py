"""Drafters and judges against counts and probabilities worked out by hand or naively."""

import itertools
import math

import pytest
import torch

from spork_demo.decoding.cost_table import CostTable
from spork_demo.decoding.drafters.counts import NgramCounts, likeliest
from spork_demo.decoding.drafters.model_forks import ForkPlan, ModelForks
from spork_demo.decoding.drafters.ngram import NgramForks
from spork_demo.decoding.drafters.proposal import Proposal
from spork_demo.decoding.judges import FirstTokenJudge, ModelJudge
from spork_demo.decoding.node_budget import Worthwhile
from spork_demo.decoding.verify import confidence_thresholds
from spork_demo.models.cached_model import CachedModel
from spork_demo.settings import Settings
from tests.toys import LAYERS, VOCABULARY, blurred, naive_greedy, run_lane, tiny_llama, tiny_pair

TARGET = tiny_llama(0)
PROMPT = [1, 2, 3, 4, 5, 6, 1, 2, 3]


def test_ngram_probabilities_by_hand():
    counts = NgramCounts(order=3)
    counts.add([1, 2, 3, 1, 2, 4, 9, 2, 3], 0)
    # after "1 2": 3 once, 4 once -> N = 2, T = 2: half the mass, split evenly
    # after "2": 3 twice, 4 once -> N = 3, T = 2: of the other half 3/5, by 2 to 1
    assert counts.forecast([1, 2]) == {
        3: (pytest.approx(0.25 + 0.5 * 2 / 5), "context"),
        4: (pytest.approx(0.25 + 0.5 * 1 / 5), "context"),
    }


def test_an_unseen_context_backs_off_and_an_unseen_token_gives_nothing():
    counts = NgramCounts(order=3)
    counts.add([1, 2, 3], 0)
    assert list(counts.forecast([7, 2])) == [3]
    assert counts.forecast([8]) == {}
    assert counts.forecast([]) == {}


def test_recycled_candidates_share_what_the_counts_leave_open():
    counts = NgramCounts(order=2, recycle=True)
    counts.add([1, 2], 0)
    logits = torch.log(torch.tensor([[0.1, 0.1, 0.5, 0.3], [0.25, 0.25, 0.25, 0.25]]))
    counts.note([1, 3], logits)
    forecast = counts.forecast([1])
    # "1": 2 once -> half the mass; the other half as the target's own distribution
    assert forecast[2] == (pytest.approx(0.5 + 0.5 * 0.5), "context")
    assert forecast[3] == (pytest.approx(0.5 * 0.3), "recycled")
    assert sum(p for p, _ in forecast.values()) == pytest.approx(1.0)
    counts.note([1], torch.log(torch.tensor([[0.7, 0.1, 0.1, 0.1]])))
    assert counts.forecast([1])[0] == (pytest.approx(0.5 * 0.7), "recycled")
    assert [token for token, _, _ in likeliest(counts.forecast([1]), 2)] == [2, 0]


def test_refused_drafts_teach_the_recycler_too():
    """What the target said behind a drafted token it refused is a candidate later on."""
    settings = Settings(method="spork", drafter="recycle", node_budget=8, max_new_tokens=24)
    trace = run_lane(tiny_pair(TARGET), settings, PROMPT)
    assert list(trace.ids) == naive_greedy(TARGET, PROMPT, 24)
    assert {node.source for round_ in trace.rounds for node in round_.nodes} == {"recycled"}
    assert sum(round_.accepted for round_ in trace.rounds) > 0


def test_without_a_network_merged_is_counts_and_recycled():
    settings = Settings(method="spork", drafter="merged", node_budget=8, max_new_tokens=24)
    trace = run_lane(tiny_pair(TARGET), settings, PROMPT)
    assert list(trace.ids) == naive_greedy(TARGET, PROMPT, 24)
    sources = {node.source for round_ in trace.rounds for node in round_.nodes}
    assert sources == {"context", "recycled"}


def test_counting_in_pieces_is_counting_at_once():
    text = [1, 2, 3, 1, 2, 4, 1, 2, 3]
    whole, pieces = NgramCounts(4), NgramCounts(4)
    whole.add(text, 0)
    for end in (2, 3, 7, 9):
        pieces.add(text[:end], {2: 0, 3: 2, 7: 3, 9: 7}[end])
    assert whole._followers == pieces._followers


def ngram(tokens, *, width=3, depth=3, budget=12, branch=True, limit=99, worth=None) -> Proposal:
    plan = ForkPlan(width, depth, "tree" if branch else "forks", budget)
    drafter = NgramForks(NgramCounts(4), plan, worth=worth)
    drafter.observe(tokens, None)
    return drafter.propose(tokens, limit)


REPETITIVE = [1, 2, 3, 1, 2, 4, 1, 2, 3, 5, 1, 2]


def joint(proposal: Proposal, node: int) -> float:
    return math.prod(proposal.probabilities[n] for n in proposal.path(node))


def test_the_ngram_tree_keeps_the_most_probable_nodes():
    whole = ngram(REPETITIVE, width=8, depth=3, budget=128)
    best = sorted((joint(whole, n) for n in range(len(whole.tokens))), reverse=True)
    for budget in (1, 3, 5):
        small = ngram(REPETITIVE, width=8, depth=3, budget=budget)
        kept = sorted((joint(small, n) for n in range(budget)), reverse=True)
        assert kept == pytest.approx(best[:budget])


def test_a_tree_sends_as_many_nodes_as_pay_on_the_measured_curve():
    whole = ngram(REPETITIVE, width=8, depth=8, budget=128)
    joints = [joint(whole, n) for n in range(len(whole.tokens))]
    assert joints == sorted(joints, reverse=True)
    for rise in (0.001, 0.05, 0.3, 5.0):
        costs = CostTable(64, 0.0, tuple(1.0 + rise * n for n in range(len(joints) + 1)))
        sent = ngram(REPETITIVE, width=8, depth=8, budget=128, worth=Worthwhile(costs))
        rates = [(1 + sum(joints[:n])) / costs.call_seconds[n] for n in range(len(joints) + 1)]
        assert len(sent.tokens) == rates.index(max(rates))
        assert sent.tokens == whole.tokens[: len(sent.tokens)]
        # growing may stop early only where nothing further could have paid
        for count in range(1, len(joints)):
            if Worthwhile(costs).hopeless(joints[:count], len(joints)):
                assert rates.index(max(rates)) <= count
    plain = ngram(
        list(range(1, 40)) * 2 + [1] + [9, 8] * 30 + [1], branch=False, depth=8, budget=24
    )
    assert max(len(plain.path(n)) for n in range(len(plain.tokens))) == 8


@pytest.mark.parametrize("limit", [0, 1, 2, 5])
def test_no_fork_is_deeper_than_the_room_left(limit):
    proposal = ngram(REPETITIVE, limit=limit)
    depths = [len(proposal.path(n)) for n in range(len(proposal.tokens))]
    assert max(depths, default=0) == min(limit, 3)


def test_without_branches_only_the_first_level_forks():
    proposal = ngram(REPETITIVE, branch=False)
    assert len(proposal.children(-1)) > 1
    assert all(len(proposal.children(n)) <= 1 for n in range(len(proposal.tokens)))


def test_siblings_differ_and_parents_come_first():
    proposal = ngram(REPETITIVE, budget=64)
    for node in range(-1, len(proposal.tokens)):
        tokens = [proposal.tokens[n] for n in proposal.children(node)]
        assert len(set(tokens)) == len(tokens)
    assert all(parent < node for node, parent in enumerate(proposal.parents))


def forks(plan: ForkPlan, model=TARGET, settings=None, limit=99, context=256):
    cached = CachedModel(model, VOCABULARY)
    cached.forward(PROMPT[:-1], last_only=True)
    cached.commit(range(cached.pending))
    drafter = ModelForks(
        cached,
        plan,
        settings or Settings(method="spork"),
        torch.Generator().manual_seed(0),
        source="early_exit",
        owns_cache=False,
        context=context,
    )
    return drafter.propose(PROMPT, limit)


def naive_probabilities(tokens, model=TARGET) -> torch.Tensor:
    return model(torch.tensor([list(tokens)])).logits[0, -1, :VOCABULARY].float().softmax(-1)


def test_draft_probabilities_are_those_of_the_model_given_the_parent():
    proposal = forks(ForkPlan(width=3, depth=3, shape="tree", budget=9))
    for node, token in enumerate(proposal.tokens):
        above = [proposal.tokens[n] for n in proposal.path(node)[:-1]]
        wanted = float(naive_probabilities(PROMPT + above)[token])
        assert proposal.probabilities[node] == pytest.approx(wanted, abs=1e-6)


def test_a_model_tree_is_closed_under_parents_and_bounded_by_its_budget():
    proposal = forks(ForkPlan(width=4, depth=4, shape="tree", budget=10))
    assert len(proposal.tokens) == 10
    assert all(len(proposal.children(n)) <= 4 for n in range(-1, 10))
    assert all(parent < node for node, parent in enumerate(proposal.parents))


@pytest.mark.parametrize(("width", "depth"), [*itertools.product((1, 2, 4), (1, 2, 5))])
def test_plain_forks_are_k_chains_of_their_depth(width, depth):
    proposal = forks(ForkPlan(width=width, depth=depth))
    assert len(proposal.tokens) == width * depth
    assert [len(proposal.path(leaf)) for leaf in proposal.leaves()] == [depth] * width


def test_sampled_drafts_keep_the_exact_distribution_they_were_drawn_from():
    settings = Settings(method="speculative", temperature=0.7, top_p=0.9)
    plan = ForkPlan(width=1, depth=4, sample_first=True, sample_rest=True)
    proposal = forks(plan, settings=settings)
    for node, (token, q) in enumerate(zip(proposal.tokens, proposal.sampled_from, strict=True)):
        above = [proposal.tokens[n] for n in proposal.path(node)[:-1]]
        logits = TARGET(torch.tensor([PROMPT + above])).logits[0, -1, :VOCABULARY].float() / 0.7
        ordered, order = logits.softmax(-1).sort(descending=True)
        kept = order[: int((ordered.cumsum(0) < 0.9).sum()) + 1]
        wanted = torch.zeros(VOCABULARY)
        wanted[kept] = logits.softmax(-1)[kept] / logits.softmax(-1)[kept].sum()
        assert torch.allclose(q, wanted, atol=1e-5)
        assert q[token] > 0


def test_nothing_is_drafted_past_the_drafters_context():
    assert forks(ForkPlan(width=2, depth=4), context=len(PROMPT)).tokens == ()
    assert max(
        len(p.path(n)) for p in [forks(ForkPlan(2, 4), context=len(PROMPT) + 2)]
        for n in range(len(p.tokens))
    ) == 2  # fmt: skip


PROPOSAL = Proposal(
    tokens=(10, 20, 11, 12, 21),
    parents=(-1, -1, 0, 0, 1),
    probabilities=(0.6, 0.3, 0.5, 0.4, None),
    sampled_from=(None,) * 5,
)


@pytest.mark.parametrize("layers", [1, 3, LAYERS])
def test_a_model_judge_scores_the_mean_probability_of_each_fork(layers):
    target = CachedModel(TARGET, VOCABULARY)
    target.forward(PROMPT[:-1], last_only=True)
    target.commit(range(target.pending))
    scores = ModelJudge(target.early_exit(layers), owns_cache=False).score(PROMPT, PROPOSAL)
    assert [score.leaf for score in scores] == [2, 3, 4]
    for score in scores:
        nodes, each = PROPOSAL.path(score.leaf), []
        for place, node in enumerate(nodes):
            before = PROMPT + [PROPOSAL.tokens[n] for n in nodes[:place]]
            state = TARGET(torch.tensor([before]), output_hidden_states=True).hidden_states[layers]
            normed = state if layers == LAYERS else TARGET.model.norm(state)
            p = TARGET.lm_head(normed[0, -1]).softmax(-1)
            each.append(float(p[PROPOSAL.tokens[node]]))
        assert score.score == pytest.approx(sum(each) / len(each), abs=1e-5)
    assert target.rows == target.length == len(PROMPT) - 1


def test_a_small_judge_keeps_a_cache_of_committed_tokens():
    small = CachedModel(blurred(TARGET, 0.1), VOCABULARY)
    judge = ModelJudge(small, owns_cache=True)
    first = judge.score(PROMPT, PROPOSAL)
    assert small.length == small.rows == len(PROMPT)
    longer = [*PROMPT, 10, 11]
    second = judge.score(longer, PROPOSAL)
    assert small.length == len(longer)
    fresh = ModelJudge(CachedModel(small.model, VOCABULARY), owns_cache=True)
    for a, b in zip(second, fresh.score(longer, PROPOSAL), strict=True):
        assert a.score == pytest.approx(b.score, abs=1e-6)
    assert first != second


def test_the_first_token_judge_reads_the_drafter():
    scores = FirstTokenJudge().score(PROMPT, PROPOSAL)
    assert [(s.leaf, s.score) for s in scores] == [(2, 0.6), (3, 0.6), (4, 0.3)]


def test_thresholds_fall_linearly_with_confidence_and_stay_in_their_band():
    chain = Proposal((1, 2, 3), (-1, 0, 1), (1.0, 0.5, None), (None,) * 3)
    confidences, thresholds = confidence_thresholds(chain, 0.1, 0.5)
    assert confidences == (1.0, 0.5, 0.0)
    assert thresholds == pytest.approx((0.1, 0.3, 0.5))


ARTICLE = {"method": "spork", "rules": "article", "fork_shape": "forks", "max_new_tokens": 24}


@pytest.mark.parametrize("judge", ["early_layers", "draft_model"])
def test_one_fork_of_the_target_is_greedy_whoever_judges_and_whatever_tau(judge):
    """With K = 1 the only fork is the target's own path: keeping it or falling back agree."""
    pair = tiny_pair(TARGET, TARGET)
    wanted = naive_greedy(TARGET, PROMPT, 24)
    for threshold in (0.0, 0.3, 1.0):
        settings = Settings(
            **ARTICLE,
            drafter="target",
            judge=judge,
            fork_width=1,
            fork_depth=1,
            verifier_layers=LAYERS,
            accept_threshold=threshold,
        )
        assert list(run_lane(pair, settings, PROMPT).ids) == wanted


@pytest.mark.parametrize("drafter", ["target", "draft_model", "early_exit"])
def test_tau_zero_keeps_every_best_fork_and_tau_one_none(drafter):
    pair = tiny_pair(TARGET, blurred(TARGET, 0.05))
    common = {**ARTICLE, "drafter": drafter, "verifier_layers": 2, "fork_depth": 2}
    every = run_lane(pair, Settings(**common, accept_threshold=0.0), PROMPT)
    assert {token.fate for token in every.tokens} == {"accepted"}
    assert all(len(round_.committed) == 3 for round_ in every.rounds)
    none = run_lane(pair, Settings(**common, accept_threshold=1.0), PROMPT)
    assert {token.fate for token in none.tokens} == {"fallback"}
    assert list(none.ids) == naive_greedy(TARGET, PROMPT, 24)


def test_a_score_equal_to_tau_is_kept():
    pair = tiny_pair(TARGET, TARGET)
    common = {**ARTICLE, "drafter": "target", "judge": "first_token", "max_new_tokens": 4}
    top = run_lane(pair, Settings(**common), PROMPT).rounds[0].scores[0].score
    at = run_lane(pair, Settings(**common, accept_threshold=top), PROMPT).rounds[0]
    above = run_lane(pair, Settings(**common, accept_threshold=top + 1e-9), PROMPT).rounds[0]
    assert at.accepted == 4
    assert above.accepted == 0


def test_forks_the_target_grew_are_not_fed_again_when_one_is_kept():
    pair = tiny_pair(TARGET)
    settings = Settings(
        **ARTICLE, drafter="target", judge="first_token", fork_depth=3, accept_threshold=0.0
    )
    trace = run_lane(pair, settings, PROMPT)
    # 1 + M calls grow the forks, none is needed to keep one: as many calls as greedy
    assert all(round_.target_calls == len(round_.committed) == 4 for round_ in trace.rounds)
