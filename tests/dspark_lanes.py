"""DSpark lanes for tests: on the reference models, with known costs, watched between rounds."""

import dataclasses

from spork_demo.decoding.cost_table import CostTable
from spork_demo.decoding.drafters.blocks import Blocks
from spork_demo.decoding.drafters.dspark import DSparkChain
from spork_demo.decoding.schedule import send_all
from spork_demo.decoding.verified import exact_rule, verified
from spork_demo.lanes import Lane
from spork_demo.models.cached_model import CachedModel
from spork_demo.models.pair import Pair
from spork_demo.settings import Settings, resolve
from spork_demo.trace import Trace, fold
from tests.dspark_parity import (
    STOP,
    VOCABULARY,
    parity_drafter,
    parity_target,
)
from tests.toys import (
    LAYERS,
    NumberText,
    real_run,
    tiny_pair,
)


class FixedCosts:
    """A cost table that was not measured here."""

    def __init__(self, *call_seconds: float, draft: float = 0.0) -> None:
        self.table = CostTable(64, draft, call_seconds)

    def near(self, length: int) -> CostTable:
        return self.table


class WatchedTarget(CachedModel):
    """Counts the rows of every call."""

    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        self.fed: list[int] = []

    def forward(self, tokens, *arguments, **options):
        self.fed.append(len(tokens))
        return super().forward(tokens, *arguments, **options)


def parity_pair(drafter: str = "vanilla", stop=(STOP,)) -> Pair:
    pair = tiny_pair(parity_target(), stop_ids=stop)
    return dataclasses.replace(pair, vocab_size=VOCABULARY, dspark=parity_drafter(drafter))


def lane_trace(pair: Pair, settings: Settings, prompt, costs=None) -> Trace:
    settings = resolve(settings, has_draft_model=False, has_dspark=True, layers=LAYERS)
    lane = Lane(pair, settings, prompt, NumberText(), 256, costs)
    return fold(Trace(settings, "toy"), lane.events())


def watched(pair: Pair, settings: Settings, prompt, schedule=send_all, stop=()):
    """A chain lane whose target and context can be looked at between rounds."""
    target = WatchedTarget(pair.target, pair.vocab_size)
    run = real_run(target, settings, prompt, stop)
    blocks = Blocks(pair.dspark, pair.vocab_size)
    drafter = DSparkChain(blocks, settings, run.generator, schedule)
    return verified(run, drafter, exact_rule), target, blocks
