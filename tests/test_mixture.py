"""The network and counts as one distribution, against whole vectors added naively."""

import dataclasses

import pytest
import torch

from spork_demo.decoding.drafters.blocks import Blocks
from spork_demo.decoding.drafters.counts import NgramCounts
from spork_demo.decoding.drafters.dspark import DSparkChain
from spork_demo.decoding.drafters.mixture import Mixture, Part
from spork_demo.decoding.sampling import distribution
from spork_demo.decoding.schedule import send_all
from spork_demo.models.cached_model import CachedModel
from spork_demo.models.dspark_config import MixtureConfig
from spork_demo.settings import Settings
from tests.toys import VOCABULARY, dspark_pair, naive_greedy, run_lane, tiny_dspark, tiny_llama

TARGET = tiny_llama(0)
PROMPT = [1, 2, 3, 4, 5, 6, 1, 2, 3]
FORECAST = {7: (0.5, "table"), 40: (0.2, "context"), 11: (0.1, "recycled")}
SPOKEN = torch.tensor(sorted([*range(0, 60, 3), 7, 11]))


def speaking(ids: torch.Tensor | None, seed: int = 0):
    """A random drafter; with `ids` it speaks only these."""
    if ids is None:
        return tiny_dspark(seed)
    network = tiny_dspark(seed, draft_rows=len(ids))
    network.draft_ids.copy_(ids)
    return network


def block_of(network):
    blocks = Blocks(network, VOCABULARY)
    target = CachedModel(TARGET, VOCABULARY)
    blocks.observe(target.forward(PROMPT[:-1], features=blocks.features))
    return blocks.run(PROMPT, 4)


def naive(part: Part, ids, weight: float, settings: Settings) -> torch.Tensor:
    network = torch.zeros(VOCABULARY)
    said = distribution(part.logits[None].float(), settings)[0]
    network[ids if ids is not None else torch.arange(VOCABULARY)] = said
    counts = torch.zeros(VOCABULARY)
    for token, (probability, _) in FORECAST.items():
        counts[token] = probability
    return (1 - weight * counts.sum()) * network + weight * counts


@pytest.mark.parametrize("ids", [None, SPOKEN], ids=["all", "selection"])
@pytest.mark.parametrize("weight", [0.0, 0.4, 1.0])
def test_a_mixture_is_the_sum_of_both(ids, weight):
    block = block_of(speaking(ids))
    logits, _ = block.slot(0, PROMPT[-1], block.network.first_state())
    part = Part(block, logits, FORECAST, weight)
    for settings in (Settings(temperature=1.0), Settings(temperature=0.7, top_k=9)):
        q = part.distribution(settings)
        assert q.shape == (VOCABULARY,)
        assert float(q.sum()) == pytest.approx(1.0, abs=1e-5)
        assert torch.allclose(q, naive(part, ids, weight, settings), atol=1e-6)
    whole = naive(part, ids, weight, Settings(temperature=1.0))
    top = whole.topk(5)
    said = part.likeliest(5)
    assert [p for _, p, _ in said] == pytest.approx(top.values.tolist(), abs=1e-6)
    assert sorted(token for token, _, _ in said) == sorted(top.indices.tolist())


def test_the_source_is_what_gave_most():
    block = block_of(speaking(None))
    logits = torch.full((VOCABULARY,), -9.0)
    logits[40] = 3.0
    part = Part(block, logits, FORECAST, 0.5)
    said = {token: source for token, _, source in part.likeliest(4)}
    assert (said[7], said[40], said[11]) == ("table", "dspark", "recycled")
    q = part.distribution(Settings(temperature=1.0))
    assert [part.source(token, q) for token in (7, 40, 11)] == ["table", "dspark", "recycled"]
    assert Part(block, logits).likeliest(1)[0][2] == "dspark"


@pytest.mark.parametrize("ids", [None, SPOKEN], ids=["all", "selection"])
@pytest.mark.parametrize("method", ["spork", "dspark"])
@pytest.mark.parametrize("drafter", ["dspark", "merged"])
def test_lanes_equal_greedy(ids, method, drafter):
    pair = dspark_pair(speaking(ids), target=TARGET)
    for schedule in ("full", "threshold"):
        settings = Settings(
            method=method, drafter=drafter, schedule=schedule, node_budget=9, max_new_tokens=30
        )
        trace = run_lane(pair, settings, PROMPT)
        assert list(trace.ids) == naive_greedy(TARGET, PROMPT, 30)
        if ids is not None and drafter == "dspark":
            drafted = {node.token for round_ in trace.rounds for node in round_.nodes}
            assert drafted <= set(ids.tolist())


def test_a_merged_tree_holds_tokens_of_several_sources():
    settings = Settings(method="spork", drafter="merged", node_budget=24, max_new_tokens=40)
    trace = run_lane(dspark_pair(speaking(SPOKEN), target=TARGET), settings, PROMPT)
    sources = {node.source for round_ in trace.rounds for node in round_.nodes}
    assert {"dspark", "context"} <= sources


def test_confidence_sees_the_distribution_and_never_the_draw():
    """The same prefix gives the same confidence whatever token was drawn at the slot."""
    network = speaking(None)
    config = MixtureConfig(0.5, (0.3, 1.2, 0.8))
    seen: dict[tuple[int, ...], set[float]] = {}
    for seed in range(30):
        settings = Settings(method="dspark", temperature=1.5)
        blocks = Blocks(network, VOCABULARY)
        drafter = DSparkChain(
            blocks, settings, torch.Generator().manual_seed(seed), send_all,
            mixture=Mixture(NgramCounts(4), config),
        )  # fmt: skip
        target = CachedModel(TARGET, VOCABULARY)
        drafter.observe(PROMPT, target.forward(PROMPT[:-1], features=drafter.features))
        proposal = drafter.propose(PROMPT, 4)
        for slot, confidence in enumerate(proposal.confidences):
            seen.setdefault(proposal.tokens[:slot], set()).add(round(confidence, 6))
    assert len(seen[()]) == 1
    assert all(len(values) == 1 for values in seen.values())
    assert len(seen) > 10


def test_mixture_confidence_by_hand():
    block = block_of(speaking(None))
    part = Part(block, torch.zeros(VOCABULARY), {7: (0.9, "table")}, 0.5)
    best = 0.45 + 0.55 / VOCABULARY
    surest = part.likeliest(1)[0][1]
    assert surest == pytest.approx(best)
    odds = torch.tensor(best / (1 - best)).log()
    mixture = Mixture(NgramCounts(4), MixtureConfig(0.5, (0.3, 2.0, -1.0)))
    value = mixture.confidence(0.25, surest)
    assert float(value) == pytest.approx(0.3 + 0.5 - float(odds), abs=1e-5)


def test_a_drafter_fitted_for_it_is_merged_by_default_in_exact_dspark():
    plain, fitted = speaking(None), tiny_dspark(0, mixture=MixtureConfig())
    assert plain.config.mixture is None
    from spork_demo.settings import resolve

    for method in ("dspark", "spork"):
        choice = [
            resolve(
                Settings(method=method),
                has_draft_model=False,
                has_dspark=True,
                merges=network.config.mixture is not None,
            ).drafter
            for network in (plain, fitted)
        ]
        assert choice == {"dspark": ["dspark", "merged"], "spork": ["ngram", "ngram"]}[method]
    assert dataclasses.asdict(fitted.config.mixture)["weight"] == 0.5
