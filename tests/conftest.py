"""What every test shares: one torch thread, and the embedded model on disk."""

from pathlib import Path

import pytest
import torch

from spork_demo.models.embedded import prepare

torch.set_num_threads(1)  # tiny models: handing work between threads costs more than it saves


@pytest.fixture(scope="session")
def embedded_folder() -> Path:
    """The embedded model's checkpoint, fetched on the first run on a machine."""
    return prepare()
