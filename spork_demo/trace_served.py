"""What a lane that was decoded by another server knows of itself, beside its stream.

Seen from outside, a stream is pieces of text and the moments they came: which tokens were drafted,
accepted or corrected does not show in it. What the server counts about that is kept here.
"""

from dataclasses import dataclass
from typing import Literal

UNKNOWN_ID = -1
"""The id of a token whose text is all that is known of it."""

Counted = Literal["chunk", "total", "pieces"]


@dataclass(frozen=True, slots=True)
class Served:
    """A served lane's own facts; sent while it waits, and once more when all is known.

    server: the name in the Spacefile. comparable: the Spacefile states that the target and the
        device are those of the lanes beside it; the engine is another one in any case.
    counted: how its tokens are: with each `chunk`, in `total` at the end, or not, so that `pieces`
        of text stand for them. tokens: the server's own count, None where it gave none.
    counters: whose acceptance counters were read: `vllm`, `sglang`, or "" for nobody's.
    rounds: drafts the target verified. drafted, accepted: tokens. kept[k]: drafts of which more
        than k tokens were accepted. alone: whether the server wrote no other text meanwhile, which
        its counters would hold as well; None where it does not tell.
    """

    server: str
    model: str = ""
    comparable: bool = False
    counted: Counted = "pieces"
    tokens: int | None = None
    counters: str = ""
    rounds: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    kept: tuple[int, ...] = ()
    alone: bool | None = None
