"""Forks scored while greedy writes: labels, states and the head, on models of known answers."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from spork_demo.calibration import CalibrationPlan, auc
from spork_demo.calibration_run import (
    FITTED_ON,
    Study,
    calibration_prompts,
    labelled,
    on_pair,
    run_calibration,
)
from spork_demo.decoding.scoring_head import fit_head, untrained_heads
from spork_demo.lanes import Lane
from spork_demo.settings import Settings, SettingsError, resolve
from spork_demo.trace import Provenance
from spork_demo.train.data import SEED
from spork_demo.train.prompts import held_out_prompts
from tests.toys import (
    LAYERS,
    NumberText,
    blurred,
    dspark_pair,
    naive_greedy,
    tiny_llama,
    tiny_pair,
)

PROMPT = (5, 9, 3, 40, 22, 7)
NEW = 20
SPORK = Settings(
    "spork",
    "article",
    drafter="target",
    judge="early_layers",
    fork_shape="forks",
    fork_width=3,
    fork_depth=2,
    verifier_layers=2,
    max_new_tokens=NEW,
)


class ToyEngine:
    """What a calibration needs of an engine, on a tiny pair."""

    def __init__(self, pair):
        self.pair = pair

    def resolve(self, settings):
        draft = self.pair.draft is not None
        dspark = self.pair.dspark is not None
        return resolve(settings, has_draft_model=draft, has_dspark=dspark, layers=LAYERS)

    def lane(self, settings, prompt):
        costs = SimpleNamespace(near=lambda _length: None)
        return Lane(self.pair, settings, prompt, NumberText(), 256, costs)

    def provenance(self):
        return Provenance()


def toy_engine(**options) -> ToyEngine:
    target = tiny_llama()
    return ToyEngine(tiny_pair(target, blurred(target, 0.02), **options))


def studied(engine, settings, *prompts) -> Study:
    study = Study(engine, settings)
    for prompt in prompts:
        for _ in study.read(prompt):
            pass
        study.close_prompt()
    return study


@pytest.mark.parametrize("drafter", ["target", "draft_model", "early_exit", "ngram"])
@pytest.mark.parametrize("shape", ["forks", "tree"])
def test_the_text_is_greedy_s_and_the_labels_are_a_plain_comparison(drafter, shape):
    engine = toy_engine()
    study = studied(engine, replace(SPORK, drafter=drafter, fork_shape=shape), PROMPT)
    written = naive_greedy(engine.pair.target, PROMPT, NEW)
    (text,) = study._texts
    assert text.written == written
    seen = 0
    for start, (place, labels) in enumerate(labelled(text, 3)):
        for fork, agrees in zip(place.forks, labels, strict=True):
            assert agrees == (list(fork) == written[start : start + len(fork)])
            seen += 1
    assert seen == len(study.found().forks)
    assert len(list(labelled(text, 3))) == NEW - 2


def test_the_target_s_own_first_fork_always_agrees():
    found = studied(toy_engine(), SPORK, PROMPT).found()
    assert found.places == NEW - 2
    assert len(found.forks) == 3 * (NEW - 2)
    assert sum(fork.agrees for fork in found.forks) == NEW - 2
    assert found.judges == ("early_layers", "draft_model", "first_token")
    assert all(0 <= score <= 1 for fork in found.forks for score in fork.scores)


def test_scores_and_states_are_those_of_one_pass_without_a_cache():
    """Mean probability after N layers, and the state of the fork's last token there."""
    engine = toy_engine()
    model = engine.pair.target
    (text,) = studied(engine, SPORK, PROMPT)._texts
    for start in (0, 7, NEW - 3):
        place = text.places[start]
        before = [*PROMPT, *text.written[:start]]
        for n, fork in enumerate(place.forks):
            states = model(torch.tensor([[*before, *fork]]), output_hidden_states=True)
            state = states.hidden_states[SPORK.verifier_layers][0]
            logits = model.lm_head(model.model.norm(state))
            p = logits[len(before) - 1 : -1].softmax(dim=-1)
            mean = sum(float(p[k, token]) for k, token in enumerate(fork)) / len(fork)
            assert place.scores[n][0] == pytest.approx(mean, abs=1e-6)
            assert torch.allclose(place.states[n].double(), state[-1], atol=1e-4)


def test_behind_a_stop_token_every_position_is_labelled():
    engine = toy_engine()
    stop = naive_greedy(engine.pair.target, PROMPT, NEW)[6]
    ended = toy_engine(stop_ids={stop})
    (text,) = studied(ended, SPORK, PROMPT)._texts
    assert text.ended
    assert len(list(labelled(text, 3))) == len(text.written) <= 7
    *_, (place, labels) = labelled(text, 3)
    assert [fork for fork, agrees in zip(place.forks, labels, strict=True) if agrees] == [(stop,)]


def test_progress_grows_and_ends_with_everything():
    engine = toy_engine()
    plan = on_pair(engine, CalibrationPlan(SPORK, 3))
    steps = list(run_calibration(engine, plan, [PROMPT, PROMPT[::-1], PROMPT[2:]], seconds=60))
    shares = [step.share for step in steps]
    assert shares == sorted(shares)
    assert steps[-1].share == 1.0
    assert steps[-1].prompts_done == steps[-1].found.prompts == 3
    assert {fork.prompt for fork in steps[-1].found.forks} == {0, 1, 2}
    head = steps[-1].found.head
    assert head.fitted_on + head.tried_on == len(steps[-1].found.forks)


def test_when_time_runs_out_what_was_found_is_kept():
    ticks = iter(range(10_000))
    engine = toy_engine()
    plan = on_pair(engine, CalibrationPlan(SPORK, 3))
    steps = list(
        run_calibration(engine, plan, [PROMPT] * 3, seconds=10, clock=lambda: float(next(ticks)))
    )
    assert steps[-1].late
    assert steps[-1].prompts_done == 0
    assert 0 < len(steps[-1].found.forks) < 3 * NEW


def test_whole_dspark_blocks_are_read_beside_the_forks():
    engine = ToyEngine(dspark_pair())
    study = Study(engine, on_pair(engine, CalibrationPlan(SPORK)).settings)
    shares = list(study.read(PROMPT))
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    drafts = study.found().drafts
    assert drafts
    assert max(len(round_) for round_ in drafts) == 4
    assert study.found().judges == ("early_layers", "first_token")


def test_a_calibration_is_greedy_whatever_the_sliders_say():
    settings = replace(
        SPORK, temperature=0.9, policy="adaptive", threshold_rule="auto", judge="first_token"
    )
    found = on_pair(toy_engine(), CalibrationPlan(settings)).settings
    assert (found.temperature, found.policy, found.threshold_rule) == (0.0, "fixed", "fixed")
    with pytest.raises(SettingsError, match="between 1 and 4"):
        on_pair(toy_engine(), CalibrationPlan(replace(SPORK, verifier_layers=LAYERS + 1)))


def test_prompts_are_ours_and_nothing_was_fitted_on_them():
    prompts = calibration_prompts(24)
    assert len(set(prompts)) == 24
    assert not set(prompts) & set(held_out_prompts(FITTED_ON, SEED + 1))
    assert prompts[:5] == calibration_prompts(5)


def examples(count: int, *, signal: float, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(count, 24, generator=generator, dtype=torch.float64)
    agrees = torch.rand(count, generator=generator) < 0.3
    states[:, 5] += signal * agrees
    return 7 * states + 3, agrees


def head_auc(weights: torch.Tensor, states: torch.Tensor, agrees: torch.Tensor) -> float:
    scores = states @ weights
    return auc(scores[agrees].tolist(), scores[~agrees].tolist())


def test_the_fitted_head_tells_apart_what_a_line_can():
    states, agrees = examples(400, signal=9.0, seed=1)
    weights, bias = fit_head(states, agrees)
    unseen, labels = examples(400, signal=9.0, seed=2)
    assert head_auc(weights, unseen, labels) > 0.999
    right = ((unseen @ weights + bias) > 0) == labels
    assert right.double().mean() > 0.98


def test_on_noise_the_fitted_head_guesses():
    states, agrees = examples(600, signal=0.0, seed=3)
    weights, _ = fit_head(states, agrees)
    unseen, labels = examples(3000, signal=0.0, seed=4)
    assert head_auc(weights, states, agrees) > 0.55
    assert abs(head_auc(weights, unseen, labels) - 0.5) < 0.04


def test_the_fit_is_where_no_direction_lowers_its_loss():
    """Against the gradient of the penalised loss, written out."""
    from spork_demo.decoding.scoring_head import PENALTY

    states, agrees = examples(300, signal=1.0, seed=5)
    weights, bias = fit_head(states, agrees)
    mean, scale = states.mean(dim=0), states.std(dim=0)
    x, y = (states - mean) / scale, agrees.double()
    w = weights * scale
    share = y.mean()
    each = torch.where(agrees, 0.5 / share, 0.5 / (1 - share)) / len(y)
    off = ((x @ w + bias + mean @ weights).sigmoid() - y) * each
    assert (x.T @ off + PENALTY * w).abs().max() < 1e-5
    assert abs(off.sum()) < 1e-5


def test_untrained_heads_are_as_a_linear_layer_is_created():
    heads = untrained_heads(64, 500, seed=0)
    assert heads.abs().max() <= 64**-0.5
    assert heads.std().item() == pytest.approx(64**-0.5 / 3**0.5, rel=0.02)
    assert torch.equal(heads, untrained_heads(64, 500, seed=0))
    states, agrees = examples(500, signal=0.0, seed=6)
    found = [head_auc(head[:24], states, agrees) for head in heads]
    assert sum(found) / len(found) == pytest.approx(0.5, abs=0.02)
