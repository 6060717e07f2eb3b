"""The cache against fresh, uncached passes: forks, rollback, early exit, what it costs."""

import pytest
import torch

from spork_demo.decoding.drafters.model_forks import ForkPlan, ModelForks
from spork_demo.decoding.verified import exact_rule, verified
from spork_demo.models.cached_model import CachedModel
from spork_demo.models.row_cache import FIRST_CAPACITY
from spork_demo.settings import Settings
from tests.toys import LAYERS, VOCABULARY, ScriptedDrafter, blurred, real_run, tiny_llama

TARGET = tiny_llama(0)
PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]


def filled(prompt=PROMPT) -> CachedModel:
    model = CachedModel(TARGET, VOCABULARY)
    model.forward(prompt, last_only=True)
    model.commit(range(model.pending))
    return model


def fresh_logits(tokens, model=TARGET) -> torch.Tensor:
    return model(torch.tensor([list(tokens)])).logits[0, -1, :VOCABULARY].float()


def test_a_chain_fed_in_pieces_equals_one_uncached_pass():
    model = filled(PROMPT[:3])
    got = model.forward(PROMPT[3:]).logits
    whole = TARGET(torch.tensor([PROMPT])).logits[0, 3:, :VOCABULARY]
    assert torch.allclose(got.double(), whole, atol=1e-6)


@pytest.mark.parametrize("branch", [0, 1, 2])
def test_each_fork_sees_its_own_branch_only(branch):
    tokens, parents = [10, 20, 30, 11, 21, 31, 12, 22, 32], [-1, -1, -1, 0, 1, 2, 3, 4, 5]
    model = filled()
    scores = model.forward(tokens, parents)
    path = [branch, branch + 3, branch + 6]
    for depth, node in enumerate(path):
        alone = fresh_logits(PROMPT + [tokens[n] for n in path[: depth + 1]])
        assert torch.allclose(scores.logits[node], alone, atol=1e-5)
    model.commit(path)
    assert model.length == len(PROMPT) + 3
    after = model.forward([7]).logits[-1]
    assert torch.allclose(after, fresh_logits([*PROMPT, *(tokens[n] for n in path), 7]), atol=1e-5)


def test_a_tree_grown_level_by_level_equals_one_fed_at_once():
    model = filled()
    at_once = model.forward([10, 20, 11, 21, 22], [-1, -1, 0, 1, 1]).logits
    model.rollback()
    first = model.forward([10, 20], [-1, -1]).logits
    second = model.forward([11, 21, 22], [0, 1, 1]).logits
    assert torch.allclose(torch.cat([first, second]), at_once, atol=1e-6)


def test_forks_cost_exactly_their_nodes_in_cache_rows():
    model = filled()
    model.forward([10, 20, 30, 11], [-1, -1, -1, 0])
    assert (model.length, model.pending, model.rows) == (len(PROMPT), 4, len(PROMPT) + 4)
    assert all(layer.rows == model.rows for layer in model.layers)
    model.commit([0, 3])
    assert (model.length, model.pending, model.rows) == (len(PROMPT) + 2, 0, len(PROMPT) + 2)


def test_forks_share_the_buffer_of_their_context():
    model = filled()
    before = [layer._buffers[0].data_ptr() for layer in model.layers]
    for _ in range(6):
        model.forward([10, 20, 30], [-1, 0, 0])
        model.commit([0, 2])
    assert [layer._buffers[0].data_ptr() for layer in model.layers] == before


def test_the_cache_grows_past_its_first_capacity():
    model = CachedModel(tiny_llama(0, max_position_embeddings=4096), VOCABULARY)
    prompt = [(7 * n) % VOCABULARY for n in range(2 * FIRST_CAPACITY + 5)]
    model.forward(prompt[:20], last_only=True)
    model.commit(range(model.pending))
    for start in range(20, len(prompt) - 1, 50):
        model.forward(prompt[start : min(start + 50, len(prompt) - 1)])
        model.commit(range(model.pending))
    got = model.forward(prompt[-1:]).logits[-1]
    assert torch.allclose(got, fresh_logits(prompt), atol=1e-5)


def test_forward_rollback_forward_equals_forward():
    model = filled()
    once = model.forward([10, 20]).logits
    model.rollback()
    model.forward([30, 40, 50], [-1, 0, 0])
    model.rollback(to=len(PROMPT))
    assert torch.equal(model.forward([10, 20]).logits, once)


def test_rollback_twice_changes_nothing_and_forward_is_refused():
    model = filled()
    model.rollback(to=5)
    model.rollback(to=5)
    assert model.length == model.rows == 5
    assert torch.allclose(model.forward([9]).logits[-1], fresh_logits([*PROMPT[:5], 9]), atol=1e-6)
    with pytest.raises(ValueError, match="forward"):
        model.rollback(to=7)


def test_committing_nothing_drops_nothing_committed():
    model = filled()
    model.forward([10, 20])
    model.commit([])
    assert model.length == model.rows == len(PROMPT)


@pytest.mark.parametrize("rows", [[2], [1, 0], [0, 0], [-1]])
def test_impossible_commits_are_refused(rows):
    model = filled()
    model.forward([10, 20])
    with pytest.raises(ValueError, match="pending"):
        model.commit(rows)


def test_a_token_before_its_parent_is_refused():
    with pytest.raises(ValueError, match="parent"):
        filled().forward([10, 20], [1, -1])


def test_an_empty_call_is_harmless():
    model = CachedModel(TARGET, VOCABULARY)
    assert model.forward([]).logits.shape == (0, VOCABULARY)
    assert (model.calls, model.length) == (0, 0)


def test_early_exit_at_the_last_layer_is_the_target():
    model = filled()
    view = model.early_exit(LAYERS)
    got = view.forward([10, 20]).logits
    view.rollback()
    assert torch.allclose(got, model.forward([10, 20]).logits, atol=1e-6)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_early_exit_reads_the_first_layers_through_norm_and_head(layers):
    got = filled().early_exit(layers).forward([10, 20]).logits[-1]
    hidden = TARGET(torch.tensor([[*PROMPT, 10, 20]]), output_hidden_states=True).hidden_states[
        layers
    ]
    wanted = TARGET.lm_head(TARGET.model.norm(hidden[0, -1]))
    assert torch.allclose(got.double(), wanted, atol=1e-6)


def test_early_exit_leaves_the_target_as_it_found_it():
    model = filled()
    view = model.early_exit(2)
    view.forward([10, 20, 30], [-1, -1, 0])
    view.rollback()
    assert model.rows == model.length == len(PROMPT)
    assert torch.allclose(model.forward([7]).logits[-1], fresh_logits([*PROMPT, 7]), atol=1e-6)


def test_early_exit_can_judge_while_the_target_holds_forks():
    model = filled()
    rows = model.forward([10, 20, 11], [-1, -1, 0]).logits
    view = model.early_exit(2)
    seen = view.forward([10, 11]).logits[-1]
    view.rollback()
    hidden = TARGET(torch.tensor([[*PROMPT, 10, 11]]), output_hidden_states=True).hidden_states[2]
    assert torch.allclose(
        seen.double(), TARGET.lm_head(TARGET.model.norm(hidden[0, -1])), atol=1e-6
    )
    model.commit([0, 2])
    assert torch.allclose(rows[2], fresh_logits([*PROMPT, 10, 11]), atol=1e-6)
    got = model.forward([7]).logits[-1]
    assert torch.allclose(got, fresh_logits([*PROMPT, 10, 11, 7]), atol=1e-6)


def test_early_exit_commits_nothing():
    view = filled().early_exit(2)
    view.forward([10])
    with pytest.raises(ValueError, match="commits nothing"):
        view.commit([0])


def test_features_are_the_outputs_of_the_named_layers():
    scores = filled().forward([10, 20], features=(0, 2))
    states = TARGET(torch.tensor([[*PROMPT, 10, 20]]), output_hidden_states=True).hidden_states
    for layer in (0, 2):
        assert torch.allclose(scores.features[layer], states[layer + 1][0, -2:], atol=1e-9)


@pytest.mark.parametrize("accept", [0, 2, 4])
def test_between_rounds_the_cache_holds_all_but_the_anchor(accept):
    from tests.toys import naive_greedy

    wanted = naive_greedy(TARGET, PROMPT, 40)
    model = CachedModel(TARGET, VOCABULARY)

    def script(tokens):
        done = len(tokens) - len(PROMPT)
        good = wanted[done : done + accept]
        return (good + [(wanted[done + accept] + 1) % VOCABULARY] * (4 - accept))[:4]

    settings = Settings(method="spork", max_new_tokens=30)
    tokens = len(PROMPT)
    for event in verified(real_run(model, settings, PROMPT), ScriptedDrafter(script), exact_rule):
        if hasattr(event, "committed"):
            tokens += len(event.committed)
            assert model.length == model.rows == tokens - 1
            assert event.cache_rows == tokens - len(event.committed) + len(event.nodes)


def test_a_draft_cache_holds_committed_tokens_only_and_never_falls_out_of_step():
    draft = CachedModel(blurred(TARGET, 0.1), VOCABULARY)
    drafter = ModelForks(
        draft,
        ForkPlan(width=3, depth=3),
        Settings(method="spork"),
        torch.Generator(),
        source="draft_model",
        owns_cache=True,
        context=256,
    )
    model = CachedModel(TARGET, VOCABULARY)
    tokens = len(PROMPT)
    run = real_run(model, Settings(method="spork", max_new_tokens=30), PROMPT)
    for event in verified(run, drafter, exact_rule):
        if hasattr(event, "committed"):
            # its lag: what it fed for this round's proposal, the anchor included
            assert draft.length == draft.rows <= tokens
            assert event.nodes == () or draft.length == tokens
            tokens += len(event.committed)


def test_each_fork_a_model_grows_continues_as_a_fresh_prefill_would():
    model = filled(PROMPT[:-1])
    drafter = ModelForks(
        model,
        ForkPlan(width=3, depth=4),
        Settings(method="spork"),
        torch.Generator(),
        source="target",
        owns_cache=False,
        context=256,
    )
    proposal = drafter.propose(PROMPT, 10)
    assert model.rows == model.length
    firsts = fresh_logits(PROMPT).topk(3).indices.tolist()
    assert [proposal.tokens[path[0]] for path in map(proposal.path, proposal.leaves())] == firsts
    for leaf in proposal.leaves():
        path = [proposal.tokens[node] for node in proposal.path(leaf)]
        for place in range(1, 4):
            assert int(fresh_logits(PROMPT + path[:place]).argmax()) == path[place]
