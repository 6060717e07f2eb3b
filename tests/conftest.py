"""What every test shares: one torch thread, and the embedded model, on disk and loaded."""

from pathlib import Path

import pytest
import torch

from spork_demo.engine import Engine
from spork_demo.models.embedded import prepare
from spork_demo.models.pair import load_pair
from spork_demo.spacefile import ModelRef, PairSpec

torch.set_num_threads(1)  # tiny models: handing work between threads costs more than it saves


@pytest.fixture(scope="session")
def embedded_folder() -> Path:
    """The embedded model's checkpoint, fetched on the first run on a machine."""
    return prepare()


@pytest.fixture(scope="session")
def engine(embedded_folder: Path) -> Engine:
    """The embedded model in float32, loaded once."""
    return Engine(load_pair(PairSpec("embedded", ModelRef("folder", str(embedded_folder)))))
