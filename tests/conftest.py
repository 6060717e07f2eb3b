"""What every test shares: one torch thread, and the embedded model, on disk and loaded."""

from pathlib import Path

import pytest
import torch

from spork_demo import language
from spork_demo.decoding.cost_table import CostTable
from spork_demo.engine import Engine
from spork_demo.models.embedded import prepare
from spork_demo.models.pair import load_pair
from spork_demo.spacefile import ModelRef, PairSpec

torch.set_num_threads(1)  # tiny models: handing work between threads costs more than it saves


def refuse_untranslated(text: str, code: str) -> None:
    raise AssertionError(f"nothing in {code} for {text!r}")


@pytest.fixture(autouse=True)
def every_sentence_translated(monkeypatch) -> None:
    """A sentence without a translation is an error in a test, where the product only logs it."""
    monkeypatch.setattr(language, "missing", refuse_untranslated)


@pytest.fixture(autouse=True)
def known_costs(monkeypatch) -> None:
    """One cost curve for every pair: a measured one lets the machine's mood choose the drafts."""

    def curve(_pair, context: int) -> CostTable:
        return CostTable(context, 0.1, tuple(1.0 + 0.02 * row for row in range(32)))

    monkeypatch.setattr("spork_demo.decoding.measured_costs.measure_costs", curve)


@pytest.fixture(scope="session")
def embedded_folder() -> Path:
    """The embedded model's checkpoint, fetched on the first run on a machine."""
    return prepare()


@pytest.fixture(scope="session")
def engine(embedded_folder: Path) -> Engine:
    """The embedded model in float32, loaded once."""
    return Engine(load_pair(PairSpec("embedded", ModelRef("folder", str(embedded_folder)))))
