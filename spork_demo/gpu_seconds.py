"""How long a run will hold a GPU: a guess on the safe side, and what was measured once it was.

Who lends a GPU for one call at a time wants to know beforehand for how long, and ends a call that
takes longer. Plain arithmetic; the rates below are deliberately slow ones, as nobody has timed this
program on such a machine yet.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from spork_demo.settings import Settings

LAYER_SECONDS = 1e-3
"""To launch the kernels of one layer, when a busy CPU launches them one by one."""

BYTES_A_SECOND = 5e11
"""At which a call reads weights."""

OPERATIONS_A_SECOND = 5e13
"""At which a prompt is read."""

PLACED_BYTES_A_SECOND = 2e9
"""At which weights are brought onto the GPU."""

TOKENS_A_ROUND = 1.5
"""That a round of drafts is sure to commit, by and large: fewer than any lane here was seen to."""

START_SECONDS, COST_SECONDS, MARGIN = 2.0, 2.0, 1.25
COST_CALLS, LANE_CALLS, RACE_CALLS = 60, 10, 12
"""Calls off every lane's clock: measuring costs, warming one lane up, comparing at the end."""

SHORTEST, LONGEST = 5, 60
"""Seconds. A visitor without an account has 120 a day; half a GPU counts one and a half times."""

REMEMBERED = 256


@dataclass(frozen=True, slots=True)
class Network:
    """What decides how long a call takes."""

    layers: int
    weight_bytes: int

    @property
    def call_seconds(self) -> float:
        return self.layers * LAYER_SECONDS + self.weight_bytes / BYTES_A_SECOND


@dataclass(frozen=True, slots=True)
class Networks:
    """The networks of one pair; what it does not have is None."""

    target: Network
    draft: Network | None = None
    dspark: Network | None = None

    @property
    def weight_bytes(self) -> int:
        present = (self.target, self.draft, self.dspark)
        return sum(network.weight_bytes for network in present if network is not None)


class Rates:
    """Seconds a token took, by pair and settings, from runs that were watched."""

    def __init__(self) -> None:
        self._measured: dict[tuple[str, Settings], float] = {}

    def learn(self, pair: str, settings: Settings, tokens: int, seconds: float) -> None:
        """A lane with these settings committed `tokens` in `seconds` of its own clock."""
        if tokens < 1 or seconds <= 0.0:
            return
        key = _key(pair, settings)
        self._measured.pop(key, None)  # the latest is last, the oldest is forgotten first
        self._measured[key] = seconds / tokens
        while len(self._measured) > REMEMBERED:
            del self._measured[next(iter(self._measured))]

    def lane(self, pair: str, networks: Networks, settings: Settings) -> float:
        """Decoding of one lane."""
        measured = self._measured.get(_key(pair, settings))
        if measured is not None:
            return measured * settings.max_new_tokens
        return lane_seconds(networks, settings)

    def race(
        self, pair: str, networks: Networks, lanes: Sequence[Settings], prompt_tokens: int
    ) -> float:
        """All lanes of a race, with what is done before and after them."""
        call = networks.target.call_seconds
        prompt = call + prompt_tokens * networks.target.weight_bytes / OPERATIONS_A_SECOND
        spent = sum(self.lane(pair, networks, settings) for settings in lanes)
        spent += (RACE_CALLS + LANE_CALLS * len(lanes)) * call + (2 + 3 * len(lanes)) * prompt
        if any(weighs_costs(settings) for settings in lanes):
            spent += COST_SECONDS + COST_CALLS * call
        return spent


def lane_seconds(networks: Networks, settings: Settings) -> float:
    """Decoding of a lane nobody has timed yet."""
    target = networks.target.call_seconds
    if settings.method == "greedy":
        return settings.max_new_tokens * target
    rounds = settings.max_new_tokens / TOKENS_A_ROUND
    early = target * settings.verifier_layers / networks.target.layers
    draft = networks.draft.call_seconds if networks.draft else 0.0
    block = networks.dspark.call_seconds if networks.dspark else 0.0
    steps = 1 + settings.fork_depth if settings.method == "spork" else settings.draft_length
    drafting = {
        "target": steps * target,
        "early_exit": steps * early,
        "draft_model": steps * draft,
        "dspark": block,
        "merged": block,
    }.get(settings.drafter, 0.0)
    judging = {"early_layers": early, "draft_model": draft}.get(settings.judge, 0.0)
    return rounds * (target + drafting + judging)


def weighs_costs(settings: Settings) -> bool:
    """Whether a lane needs to know first what calls cost."""
    if settings.method == "dspark":
        return settings.exact and settings.schedule == "hardware"
    return settings.method == "spork" and settings.exact and settings.fork_shape == "tree"


def placing_seconds(pairs: Iterable[Networks]) -> float:
    """Until the weights are on the GPU: those of all pairs, whichever is to run."""
    return START_SECONDS + sum(pair.weight_bytes for pair in pairs) / PLACED_BYTES_A_SECOND


def asked_seconds(placing: float, work: float, longest: int) -> int:
    """Whole seconds to ask for, never more than what may be asked."""
    return round(max(SHORTEST, min(MARGIN * (placing + work), LONGEST, longest)))


def _key(pair: str, settings: Settings) -> tuple[str, Settings]:
    return pair, replace(settings, seed=0, max_new_tokens=1)
