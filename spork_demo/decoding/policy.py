"""How wide and deep the next round drafts, and what threshold a fork needs, from how rounds went.

Nothing here looks at a token: it may change what is drafted, never what is kept under exact rules.
"""

import math
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from spork_demo.decoding.drafters.model_forks import ForkPlan
from spork_demo.decoding.drafters.proposal import Drafter
from spork_demo.models.cached_model import CachedModel
from spork_demo.models.memory import free_memory, out_of_memory
from spork_demo.settings import Settings
from spork_demo.trace import Change

WINDOW, MISSES, STREAK = 8, 4, 3
"""More than so many of the last so many rounds without a kept draft make drafts smaller; so many
rounds in a row that kept a fork whole make them larger."""

STEP = 0.05
"""How far one round moves an automatic threshold."""

Result = TypeVar("Result")


class Policy:
    """Width (K) and depth (1 + M, or γ) of the next round.

    plan: what the drafter grows by; width and depth are changed in place. Its first values are
        the most that is ever drafted. Without `adaptive` only want of memory changes them.
    """

    def __init__(self, plan: ForkPlan, *, adaptive: bool = False) -> None:
        self.plan = plan
        self._most = plan.width, plan.depth
        self._adaptive = adaptive
        self._missed: deque[bool] = deque(maxlen=WINDOW)
        self._streak = 0

    def observe(self, reach: int, accepted: int) -> Change | None:
        """A round sent forks of up to `reach` tokens, of which `accepted` were kept."""
        if not self._adaptive or reach < 1:
            return None
        self._missed.append(accepted < 1)
        self._streak = self._streak + 1 if accepted >= reach else 0
        if sum(self._missed) > MISSES:
            return self._resized("misses", self.plan.width - 1, self.plan.depth - 1)
        if self._streak >= STREAK:
            return self._resized("streak", self.plan.width + 1, self.plan.depth + 1)
        return None

    def shrink(self) -> Change | None:
        """Half as many forks, then half as deep, then no drafts; None when nothing is left.

        What did not fit once is not tried again in this run.
        """
        width, depth = self.plan.width, self.plan.depth
        if depth < 1:
            return None
        if width > 1:
            width //= 2
        else:
            depth //= 2
        self.plan.width, self.plan.depth = self._most = width, depth
        return Change("memory", width, depth)

    def _resized(self, cause: str, width: int, depth: int) -> Change | None:
        before = self.plan.width, self.plan.depth
        self.plan.width = max(1, min(self._most[0], width))
        self.plan.depth = max(min(1, self._most[1]), min(self._most[1], depth))
        self._missed.clear()
        self._streak = 0
        if (self.plan.width, self.plan.depth) == before:
            return None
        return Change(cause, self.plan.width, self.plan.depth)


class Threshold:
    """τ of a score judge: fixed, or moved after each round so that the wanted share passes."""

    def __init__(self, settings: Settings) -> None:
        self.value = settings.accept_threshold
        self._wanted = settings.wanted_acceptance
        self._moves = settings.threshold_rule == "auto"

    def observe(self, passed: bool) -> None:
        """Up after a round that passed, down after one that did not; at rest where the shares of
        both, so weighed, are as wanted.
        """
        if self._moves:
            self.value = min(1.0, max(0.0, self.value + STEP * (passed - self._wanted)))


class OutOfReach(Threshold):
    """No fork ever passes: the text stays the target's own while every fork is scored."""

    def __init__(self) -> None:
        self.value = math.inf

    def observe(self, passed: bool) -> None:
        """Nothing moves it."""


def within_memory(
    target: CachedModel, drafter: Drafter, policy: Policy, work: Callable[[], Result]
) -> tuple[Result, Change | None]:
    """`work`, again with smaller drafts where memory does not suffice; it must not commit.

    Raises what `work` raised when even a plain call does not fit.
    """
    change = None
    while True:
        try:
            return work(), change
        except (RuntimeError, MemoryError) as error:
            smaller = policy.shrink() if out_of_memory(error) else None
            if smaller is None:
                raise
            change = smaller
        target.rollback()
        drafter.rollback()
        free_memory()
