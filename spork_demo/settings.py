"""One lane's whole configuration and its checks; the knobs themselves are in `knobs`.

Plain data only. A `Settings` is one lane's whole configuration; together with the prompt and the
model pair it reproduces the run token for token.
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spork_demo.knobs import FORK_NODE_LIMIT, KNOBS, Knob
from spork_demo.knobs import SEED_LIMIT as SEED_LIMIT
from spork_demo.language import say

METHODS = ("greedy", "speculative", "spork", "dspark")
SERVED = "served"
"""The method of a lane that another server decodes; how, is its own business."""
RULES = ("exact", "article")
DRAFTERS = (
    "auto",
    "target",
    "early_exit",
    "draft_model",
    "ngram",
    "recycle",
    "dspark",
    "merged",
)
JUDGES = ("auto", "target", "early_layers", "draft_model", "first_token")
FORK_SHAPES = ("forks", "hierarchical", "tree")
FORK_SAMPLING = ("greedy", "top_p")
POLICIES = ("fixed", "adaptive")
THRESHOLD_RULES = ("fixed", "auto")
SCHEDULES = ("full", "threshold", "hardware")

SERVER_NAME_LIMIT = 80


class SettingsError(ValueError):
    """A setting is missing, of the wrong kind or out of range. The message is one sentence."""


CHOICES = {
    "method": METHODS,
    "rules": RULES,
    "drafter": DRAFTERS,
    "judge": JUDGES,
    "fork_shape": FORK_SHAPES,
    "fork_sampling": FORK_SAMPLING,
    "schedule": SCHEDULES,
    "policy": POLICIES,
    "threshold_rule": THRESHOLD_RULES,
}

GREEDY_BELOW = 1e-3
"""Temperatures under this are greedy: dividing logits by less overflows float32."""


@dataclass(frozen=True, slots=True)
class Settings:
    """One lane's configuration. Raises SettingsError on construction when anything is off.

    fork_shape: `forks` is the article's shape, K forks of 1 + M tokens; `hierarchical` grows K
        forks half as deep and goes on with the more probable half of them; `tree` gives every
        node up to K children and grows best-first under `node_budget`.
    fork_sampling: how forks go on after their first token when temperature > 0.
    schedule: how much of a block exact DSpark sends to the target: `full` all of it, `threshold`
        the drafts before the first whose confidence is below `confidence_threshold`, `hardware`
        what the measured cost of target calls makes worth while.
    policy: `adaptive` lets the outcome of rounds choose K, M and γ, up to the values given.
    threshold_rule: `auto` moves τ until `wanted_acceptance` of the rounds keep a fork.
    server: the name of the server that decodes a `served` lane.
    """

    method: str = "greedy"
    rules: str = "exact"
    drafter: str = "auto"
    judge: str = "auto"
    fork_shape: str = "tree"
    fork_sampling: str = "greedy"
    schedule: str = "hardware"
    policy: str = "fixed"
    threshold_rule: str = "fixed"
    fork_width: int = KNOBS["fork_width"].default
    fork_depth: int = KNOBS["fork_depth"].default
    node_budget: int = KNOBS["node_budget"].default
    draft_length: int = KNOBS["draft_length"].default
    accept_threshold: float = KNOBS["accept_threshold"].default
    min_threshold: float = KNOBS["min_threshold"].default
    max_threshold: float = KNOBS["max_threshold"].default
    verifier_layers: int = KNOBS["verifier_layers"].default
    temperature: float = KNOBS["temperature"].default
    top_p: float = KNOBS["top_p"].default
    top_k: int = KNOBS["top_k"].default
    seed: int = KNOBS["seed"].default
    max_new_tokens: int = KNOBS["max_new_tokens"].default
    confidence_threshold: float = KNOBS["confidence_threshold"].default
    ngram_order: int = KNOBS["ngram_order"].default
    wanted_acceptance: float = KNOBS["wanted_acceptance"].default
    server: str = ""

    def __post_init__(self) -> None:
        for name, allowed in CHOICES.items():
            given = getattr(self, name)
            if given not in allowed and (name, given) != ("method", SERVED):
                raise SettingsError(
                    say("{name} must be one of {choices}.", name=name, choices=", ".join(allowed))
                )
        for knob in KNOBS.values():
            object.__setattr__(self, knob.name, checked_number(knob, getattr(self, knob.name)))
        self._check_together()

    def _check_together(self) -> None:
        if not isinstance(self.server, str) or len(self.server) > SERVER_NAME_LIMIT:
            raise SettingsError(
                say("server must be a name of at most {limit} characters.", limit=SERVER_NAME_LIMIT)
            )
        if bool(self.server) != (self.method == SERVED):
            raise SettingsError(say("A served lane, and no other, names a server."))
        if self.min_threshold > self.max_threshold:
            raise SettingsError(say("min_threshold must not be above max_threshold."))
        if self.fork_shape != "tree" and self.plain_nodes > FORK_NODE_LIMIT:
            raise SettingsError(
                say(
                    "fork_width {width} and fork_depth {depth} ask for {nodes} fork "
                    "tokens a round; the limit is {limit}.",
                    width=self.fork_width,
                    depth=self.fork_depth,
                    nodes=self.plain_nodes,
                    limit=FORK_NODE_LIMIT,
                )
            )
        if self.method != "spork":
            return
        if self.rules == "exact" and self.judge not in ("auto", "target"):
            raise SettingsError(
                say(
                    "Under exact rules only the target may judge; choose judge target or rules "
                    "article."
                )
            )
        if self.rules == "article" and self.judge == "target":
            raise SettingsError(
                say(
                    "Under article rules a score judges; choose early_layers, draft_model or "
                    "first_token, or rules exact."
                )
            )

    @property
    def plain_nodes(self) -> int:
        """Nodes of K forks of 1 + M tokens."""
        return self.fork_width * (1 + self.fork_depth)

    @property
    def greedy(self) -> bool:
        """Whether the target's most probable token is taken rather than a sample."""
        return self.temperature < GREEDY_BELOW

    @property
    def exits_early(self) -> bool:
        """Whether the target's first layers draft or judge."""
        return self.drafter == "early_exit" or self.judge == "early_layers"

    @property
    def exact(self) -> bool:
        """Whether the rules promise the target's own output."""
        return self.method == "greedy" or (self.rules == "exact" and self.method != SERVED)

    def to_plain(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> "Settings":
        """Build from untrusted names and values; unknown names are refused."""
        unknown = sorted(set(values) - set(cls.__slots__))
        if unknown:
            raise SettingsError(
                say("There is no setting called {name}.", name=repr(str(unknown[0])[:40]))
            )
        return cls(**values)


def checked_number(knob: Knob, value: Any) -> int | float:
    """Return `value` as the knob's kind of number; raise SettingsError when it is not one.

    Booleans, strings, NaN and infinities are refused: sliders and the API let them through.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SettingsError(say("{name} must be a number.", name=knob.name))
    if isinstance(value, float) and not math.isfinite(value):
        raise SettingsError(say("{name} must be a finite number.", name=knob.name))
    if knob.whole and value != int(value):
        raise SettingsError(say("{name} must be a whole number.", name=knob.name))
    if not knob.low <= value <= knob.high:
        low, high = f"{knob.low:g}", f"{knob.high:g}"
        told = say("{name} must be between {low} and {high}.", name=knob.name, low=low, high=high)
        raise SettingsError(told)
    return int(value) if knob.whole else float(value)


def resolve(
    settings: Settings,
    *,
    has_draft_model: bool,
    has_dspark: bool = False,
    merges: bool = False,
    counted: bool = False,
    layers: int | None = None,
) -> Settings:
    """Replace `auto` by the choice this model pair can serve, and check the others against it.

    has_dspark: whether the pair has a trained DSpark drafter. merges: whether that drafter was
        fitted to be merged with counts. counted: whether text of the target's own was counted for
        it; a chain from counts then beats a draft model that has to be run.
    layers: decoder layers of the target; `verifier_layers` above it is refused.
    """
    if settings.method == SERVED:
        raise SettingsError(say("A served lane runs on its server, not on this machine's models."))
    runs_draft_model = has_draft_model and not (counted and settings.rules == "exact")
    drafter = _resolve_drafter(settings, runs_draft_model, has_dspark, merges)
    judge = settings.judge
    if judge == "auto":
        judge = "target" if settings.rules == "exact" else "early_layers"
    if not has_draft_model and "draft_model" in (drafter, judge) and settings.method != "greedy":
        raise SettingsError(
            say("This model pair has no draft model; choose another drafter or judge.")
        )
    if drafter == "dspark" and not has_dspark and settings.method != "greedy":
        raise SettingsError(say("This model pair has no DSpark drafter; choose another drafter."))
    uses_layers = settings.method != "greedy" and (
        drafter == "early_exit" or (settings.method == "spork" and judge == "early_layers")
    )
    if uses_layers and layers is not None and settings.verifier_layers > layers:
        raise SettingsError(
            say("verifier_layers must be between 1 and {layers} for this model.", layers=layers)
        )
    return dataclasses.replace(settings, drafter=drafter, judge=judge)


def _resolve_drafter(
    settings: Settings, runs_draft_model: bool, has_dspark: bool, merges: bool
) -> str:
    own = "merged" if merges else "dspark"
    if settings.method == "dspark" and settings.rules == "exact":
        if not has_dspark:
            raise SettingsError(
                say(
                    "Exact DSpark needs its own trained drafter, which this model pair does not "
                    "have; "
                    "choose rules article, or spork or speculative with rules exact."
                )
            )
        if settings.drafter not in ("auto", "dspark", "merged"):
            raise SettingsError(
                say(
                    "Exact DSpark drafts with its own drafter; choose drafter dspark or merged, or "
                    "method speculative for another one."
                )
            )
        return own if settings.drafter == "auto" else settings.drafter
    if settings.drafter != "auto":
        return settings.drafter
    if settings.method == "spork" and settings.rules == "article":
        return "target"
    if settings.method == "spork" or not runs_draft_model:
        return "ngram"
    return "draft_model"
