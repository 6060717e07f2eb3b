"""What the loading of a model reports while it runs, and how it says that it cannot go on."""

import errno
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from spork_demo.language import later

Stage = Literal["fetch", "check", "convert", "load", "ready", "failed"]


class ModelUnavailable(Exception):  # noqa: N818 - the name says what the page says
    """A model cannot be used; the message is one sentence for the page, without paths or hosts."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the preparation of a model is. Bytes are 0 where a stage cannot count them."""

    stage: Stage
    done_bytes: int
    total_bytes: int
    message: str


Report = Callable[[Progress], None]


def ignore_progress(progress: Progress) -> None:  # noqa: ARG001 - nobody listens
    """The default report."""


DISK_FULL = later("The disk is full, so the model could not be stored.")
FULL = ("No space left", "code: 28")


def disk_full(error: BaseException) -> bool:
    """Whether `error`, or what led to it, says that a disk takes no more; libraries wrap it."""
    while error is not None:
        told = str(error)
        if getattr(error, "errno", None) == errno.ENOSPC or any(sign in told for sign in FULL):
            return True
        error = error.__cause__ or error.__context__
    return False
