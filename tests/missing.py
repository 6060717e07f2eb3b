"""What a test does where the machine lacks something: it skips, but in CI it fails."""

import os
from typing import NoReturn

import pytest


def missing(reason: str) -> NoReturn:
    """End the test because of `reason`."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
