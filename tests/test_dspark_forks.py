"""DSpark as a SPORK proposer: forks of one block."""

import pytest
import torch

from spork_demo.decoding.drafters.blocks import Blocks
from spork_demo.decoding.drafters.dspark import DSparkForks
from spork_demo.decoding.drafters.model_forks import ForkPlan
from spork_demo.models.cached_model import CachedModel
from spork_demo.settings import Settings
from tests.dspark_lanes import lane_trace, parity_pair
from tests.dspark_parity import (
    IO,
    PROMPTS,
    VOCABULARY,
    parity_drafter,
    parity_target,
)

FORKS = [
    (shape, width, depth, budget)
    for shape, budget in (("tree", 6), ("tree", 20), ("forks", 12))
    for width, depth in ((1, 0), (2, 2), (4, 4), (3, 8))
]


@pytest.mark.parametrize("drafter", ["vanilla", "rnn", "dflash"])
@pytest.mark.parametrize(("shape", "width", "depth", "budget"), FORKS)
def test_forks_of_a_block_equal_greedy(drafter, shape, width, depth, budget):
    settings = Settings(
        method="spork",
        drafter="dspark",
        fork_shape=shape,
        fork_width=width,
        fork_depth=depth,
        node_budget=budget,
        max_new_tokens=30,
    )
    trace = lane_trace(parity_pair(drafter), settings, PROMPTS[2])
    wanted = IO["plain_greedy"]["p2.stop"]["output_ids"][len(PROMPTS[2]) :][:30]
    assert list(trace.ids) == wanted
    deepest = min(1 + depth, 5)
    for round_ in trace.rounds:
        most = budget if shape == "tree" else width * deepest
        assert len(round_.nodes) <= most


def test_forks_keep_the_most_probable_nodes_of_the_whole_tree():
    network, plan = parity_drafter("vanilla"), ForkPlan(width=3, depth=3, shape="tree", budget=8)
    settings = Settings(method="spork")
    blocks = Blocks(network, VOCABULARY)
    drafter = DSparkForks(blocks, plan, settings, torch.Generator())
    target = CachedModel(parity_target(), VOCABULARY)
    drafter.observe([], target.forward(PROMPTS[0][:-1], features=drafter.features))
    proposal = drafter.propose(PROMPTS[0], 9)
    joint = []
    for node in range(len(proposal.tokens)):
        above = joint[proposal.parents[node]] if proposal.parents[node] >= 0 else 1.0
        joint.append(above * proposal.probabilities[node])
    # the whole tree of 3 + 9 + 27 nodes by plain recursion over the same block
    hidden, _ = blocks.context.block(PROMPTS[0][-1])
    base = network.base_logits(hidden)
    whole = []

    def grow(slot, previous, above):
        bias, _ = network.markov_head(hidden[slot], torch.tensor(previous), network.first_state())
        top = (base[slot] + bias).softmax(-1).topk(3)
        for token, p in zip(top.indices.tolist(), top.values.tolist(), strict=True):
            whole.append(above * p)
            if slot < 2:
                grow(slot + 1, token, above * p)

    grow(0, PROMPTS[0][-1], 1.0)
    assert joint == pytest.approx(sorted(whole, reverse=True)[:8], rel=1e-5)
