"""At temperature 0 every exact method gives the ids of a naive loop that knows no cache."""

import itertools

import pytest

from spork_demo.decoding.verified import exact_rule, verified
from spork_demo.metrics import measure
from spork_demo.models.cached_model import CachedModel
from spork_demo.settings import Settings
from spork_demo.trace import Trace, fold
from tests.toys import (
    LAYERS,
    VOCABULARY,
    ScriptedDrafter,
    blurred,
    naive_greedy,
    real_run,
    run_lane,
    tiny_llama,
    tiny_pair,
)

PROMPT = [1, 2, 3, 4, 5, 6, 1, 2, 3]
TARGET = tiny_llama(0)
DRAFT = blurred(TARGET, 0.02)
PAIR = tiny_pair(TARGET, DRAFT)
WANTED = naive_greedy(TARGET, PROMPT, 48)

CHAINS = [
    (method, rules, drafter)
    for method, rules in (
        ("speculative", "exact"),
        ("speculative", "article"),
        ("dspark", "article"),
    )
    for drafter in ("ngram", "draft_model", "early_exit", "target")
]
FORKS = list(
    itertools.product(
        ("ngram", "draft_model", "early_exit", "target"),
        ("forks", "tree"),
        ((1, 0), (1, 1), (2, 3), (4, 4)),
    )
)


def scripted(script, *, stop_ids=(), new=24, prompt=PROMPT, probability=0.5):
    """A lane whose drafter says what the test wants, and the model's cache afterwards."""
    settings = Settings(method="spork", max_new_tokens=new)
    model = CachedModel(TARGET, VOCABULARY)
    drafter = ScriptedDrafter(script, probability)
    events = verified(real_run(model, settings, prompt, stop_ids), drafter, exact_rule)
    return fold(Trace(settings, "toy"), events), model


def test_greedy_equals_the_naive_loop():
    assert list(run_lane(PAIR, Settings(max_new_tokens=48), PROMPT).ids) == WANTED


@pytest.mark.parametrize("gamma", [1, 3, 8])
@pytest.mark.parametrize(("method", "rules", "drafter"), CHAINS)
def test_chains_equal_greedy(method, rules, drafter, gamma):
    settings = Settings(
        method=method,
        rules=rules,
        drafter=drafter,
        draft_length=gamma,
        verifier_layers=3,
        max_new_tokens=48,
        min_threshold=0.0,
    )
    trace = run_lane(PAIR, settings, PROMPT)
    assert list(trace.ids) == WANTED
    assert measure(trace).drafted > 0


@pytest.mark.parametrize(("drafter", "shape", "size"), FORKS)
def test_forks_equal_greedy(drafter, shape, size):
    settings = Settings(
        method="spork",
        drafter=drafter,
        fork_shape=shape,
        fork_width=size[0],
        fork_depth=size[1],
        verifier_layers=3,
        max_new_tokens=48,
    )
    trace = run_lane(PAIR, settings, PROMPT)
    assert list(trace.ids) == WANTED
    assert measure(trace).drafted > 0


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_other_targets_and_prompts_agree_too(seed):
    target = tiny_llama(seed)
    prompt = [seed, 7, 9, seed, 7]
    pair = tiny_pair(target, blurred(target, 0.05, seed))
    wanted = naive_greedy(target, prompt, 32)
    for method in ("speculative", "spork"):
        for drafter in ("ngram", "draft_model", "early_exit"):
            settings = Settings(
                method=method, drafter=drafter, verifier_layers=2, max_new_tokens=32
            )
            assert list(run_lane(pair, settings, prompt).ids) == wanted


def test_methods_drafted_accepted_and_rejected_something():
    for method, drafter in (("speculative", "draft_model"), ("spork", "early_exit")):
        trace = run_lane(
            PAIR,
            Settings(method=method, drafter=drafter, verifier_layers=3, max_new_tokens=48),
            PROMPT,
        )
        figures = measure(trace)
        assert figures.accepted > 0
        assert figures.scheduled > figures.accepted


def test_target_as_its_own_drafter_is_always_accepted():
    trace = run_lane(
        tiny_pair(TARGET, TARGET),
        Settings(method="speculative", drafter="draft_model", draft_length=4, max_new_tokens=50),
        PROMPT,
    )
    assert [round_.accepted for round_ in trace.rounds] == [4] * 10
    assert measure(trace).acceptance_rate == 1
    assert measure(trace).accepted_length == 5


def test_a_drafter_that_is_always_wrong_costs_one_round_a_token():
    wrong = {tuple(PROMPT + WANTED[:n]): (WANTED[n] + 1) % VOCABULARY for n in range(47)}
    trace, _ = scripted(lambda tokens: [wrong[tuple(tokens)]] * 3)
    assert list(trace.ids) == WANTED[:24]
    assert measure(trace).accepted == 0
    assert measure(trace).accepted_length == 1
    # the last round has no room to draft in: its token is the target's own
    assert {token.fate for token in trace.tokens[:-1]} == {"correction"}


def test_a_drafted_stop_token_the_target_does_not_want_is_only_a_rejection():
    stop = next(t for t in range(VOCABULARY) if t not in WANTED)
    trace, _ = scripted(lambda tokens: [stop] * 4, stop_ids=[stop])
    assert list(trace.ids) == WANTED[:24]
    assert trace.stop_reason == "length"


def first_new_id(wanted: list[int], least: int = 4) -> int:
    return next(n for n in range(least, len(wanted)) if wanted[n] not in wanted[:n])


@pytest.mark.parametrize("gamma", [1, 3, 8])
@pytest.mark.parametrize("method", ["greedy", "speculative", "dspark", "spork"])
def test_a_stop_token_ends_every_method_at_the_same_place(method, gamma):
    place = first_new_id(WANTED)
    pair = tiny_pair(TARGET, DRAFT, stop_ids={WANTED[place]})
    trace = run_lane(
        pair,
        Settings(
            method=method,
            rules="article" if method == "dspark" else "exact",
            drafter="draft_model",
            draft_length=gamma,
            fork_depth=gamma,
            max_new_tokens=48,
        ),
        PROMPT,
    )
    assert list(trace.ids) == WANTED[: place + 1]
    assert trace.stop_reason == "eos"


def test_nothing_behind_a_stop_token_inside_the_draft_is_counted_or_cached():
    place = first_new_id(WANTED)
    script = {tuple(PROMPT): WANTED[: place + 3]}
    trace, model = scripted(lambda tokens: script[tuple(tokens)], stop_ids=[WANTED[place]])
    (only,) = trace.rounds
    assert [token.fate for token in only.committed] == ["accepted"] * (place + 1)
    assert only.accepted == place + 1
    assert [node.fate for node in only.nodes] == ["accepted"] * (place + 1) + ["rejected"] * 2
    assert measure(trace).acceptance_rate == 1
    assert model.length == len(PROMPT) + place  # everything but the last token
    assert trace.stop_reason == "eos"


def test_a_stop_token_on_the_last_allowed_place_counts_as_the_stop():
    place = first_new_id(WANTED)
    pair = tiny_pair(TARGET, DRAFT, stop_ids={WANTED[place]})
    settings = Settings(method="speculative", drafter="draft_model", max_new_tokens=place + 1)
    trace = run_lane(pair, settings, PROMPT)
    assert (trace.stop_reason, len(trace.ids)) == ("eos", place + 1)


@pytest.mark.parametrize("budget", [1, 2, 7])
@pytest.mark.parametrize("method", ["greedy", "speculative", "dspark", "spork"])
def test_never_more_than_the_asked_number_of_tokens(method, budget):
    settings = Settings(
        method=method,
        rules="article" if method == "dspark" else "exact",
        drafter="target",
        draft_length=4,
        max_new_tokens=budget,
    )
    trace = run_lane(PAIR, settings, PROMPT)
    assert list(trace.ids) == WANTED[:budget]
    assert trace.stop_reason == "length"


def test_one_token_gives_figures_without_division_by_zero():
    figures = measure(run_lane(PAIR, Settings(method="spork", max_new_tokens=1), PROMPT))
    assert figures.committed == 1
    assert figures.acceptance_rate is None  # nothing was drafted: shown as a dash


@pytest.mark.parametrize("method", ["greedy", "speculative", "dspark", "spork"])
@pytest.mark.parametrize("rules", ["exact", "article"])
def test_the_context_limit_is_kept_and_named(method, rules):
    if (method, rules) == ("dspark", "exact"):
        rules = "article"
    small = tiny_llama(0, max_position_embeddings=32)
    pair = tiny_pair(small, blurred(small, 0.02), context=32)
    settings = Settings(
        method=method,
        rules=rules,
        drafter="draft_model",
        judge="auto",
        verifier_layers=LAYERS,
        draft_length=8,
        fork_depth=8,
        max_new_tokens=100,
    )
    trace = run_lane(pair, settings, PROMPT)
    assert trace.prompt_tokens + len(trace.ids) == 32
    assert trace.stop_reason == "context"
    assert "32 tokens" in trace.message


def test_a_drafter_beyond_its_shorter_context_leaves_plain_decoding():
    pair = tiny_pair(TARGET, DRAFT)
    import dataclasses

    pair = dataclasses.replace(pair, draft_context_length=20)
    settings = Settings(method="speculative", drafter="draft_model", max_new_tokens=48)
    trace = run_lane(pair, settings, PROMPT)
    assert list(trace.ids) == WANTED
    late = [round_ for round_ in trace.rounds if round_.draft_calls == 0]
    assert late
    assert all(not round_.nodes for round_ in late)


def test_without_any_stop_token_a_run_goes_to_its_limit():
    assert run_lane(PAIR, Settings(max_new_tokens=30), PROMPT).stop_reason == "length"


def test_a_prompt_of_one_token_works():
    wanted = naive_greedy(TARGET, [5], 12)
    for method in ("greedy", "speculative", "spork"):
        settings = Settings(method=method, drafter="ngram", max_new_tokens=12)
        assert list(run_lane(PAIR, settings, [5]).ids) == wanted


def test_logits_beyond_the_tokenizer_are_never_drafted_accepted_or_emitted():
    wide = tiny_llama(4, vocabulary=72)
    # make the padded rows the most probable ones
    wide.lm_head.weight[VOCABULARY:] = 10 * wide.lm_head.weight[: 72 - VOCABULARY]
    pair = tiny_pair(wide, tiny_llama(5))
    wanted = naive_greedy(wide, PROMPT, 24)
    for method, drafter in (("speculative", "draft_model"), ("spork", "early_exit")):
        settings = Settings(method=method, drafter=drafter, verifier_layers=2, max_new_tokens=24)
        trace = run_lane(pair, settings, PROMPT)
        assert list(trace.ids) == wanted
        assert all(n.token < VOCABULARY for r in trace.rounds for n in r.nodes)


def test_a_refused_draft_leaves_the_accepted_prefix_and_the_correction():
    wrong = (WANTED[2] + 1) % VOCABULARY
    script = {tuple(PROMPT): [*WANTED[:2], wrong, WANTED[3]]}
    trace, _ = scripted(lambda tokens: script.get(tuple(tokens), []), new=6)
    first = trace.rounds[0]
    assert [(t.token, t.fate) for t in first.committed] == [
        (WANTED[0], "accepted"),
        (WANTED[1], "accepted"),
        (WANTED[2], "correction"),
    ]
    assert [node.fate for node in first.nodes] == ["accepted", "accepted", "rejected", "rejected"]


def test_the_first_drafted_token_is_verified_too():
    wrong = (WANTED[0] + 1) % VOCABULARY
    trace, _ = scripted(lambda tokens: [wrong] if len(tokens) == len(PROMPT) else [], new=3)
    assert trace.rounds[0].accepted == 0


def test_one_target_call_a_round_and_the_trace_says_so():
    trace, model = scripted(lambda tokens: [1, 2, 3])
    assert model.calls == len(trace.rounds) + 1  # and one for the prefill
    assert measure(trace).target_calls == len(trace.rounds)


def test_counts_of_every_round_fit_together():
    trace = run_lane(
        PAIR, Settings(method="spork", drafter="draft_model", max_new_tokens=48), PROMPT
    )
    for place, round_ in enumerate(trace.rounds):
        assert round_.index == place
        assert 0 <= round_.accepted <= round_.scheduled <= len(round_.nodes)
        assert len(round_.committed) - round_.accepted in (0, 1)
        assert all(-1 <= node.parent < n for n, node in enumerate(round_.nodes))
    assert sum(len(round_.committed) for round_ in trace.rounds) == len(trace.ids)


@pytest.mark.parametrize("drafter", ["ngram", "draft_model", "early_exit"])
def test_nothing_is_drafted_behind_a_stop_token(drafter):
    stops = {1, 2, 3, *WANTED[:4]}
    pair = tiny_pair(TARGET, DRAFT, stop_ids=stops)
    settings = Settings(method="spork", drafter=drafter, fork_width=8, verifier_layers=2)
    trace = run_lane(pair, settings, PROMPT)
    nodes = trace.rounds[0].nodes
    assert any(node.token in stops for node in nodes)
    assert all(nodes[node.parent].token not in stops for node in nodes if node.parent >= 0)
