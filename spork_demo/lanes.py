"""From settings to a running lane: which drafter, judge and loop a method is made of."""

from collections.abc import Iterator, Sequence

import torch

from spork_demo.decoding.drafters.blocks import Blocks
from spork_demo.decoding.drafters.counts import NgramCounts
from spork_demo.decoding.drafters.dspark import DSparkChain, DSparkForks
from spork_demo.decoding.drafters.mixture import Mixture
from spork_demo.decoding.drafters.model_forks import ForkPlan, ModelForks
from spork_demo.decoding.drafters.ngram import NgramForks
from spork_demo.decoding.drafters.proposal import Drafter
from spork_demo.decoding.greedy import greedy
from spork_demo.decoding.judges import FirstTokenJudge, Judge, ModelJudge, Panel
from spork_demo.decoding.measured_costs import CostTables
from spork_demo.decoding.node_budget import NodeBudget, Worthwhile
from spork_demo.decoding.policy import OutOfReach, Policy
from spork_demo.decoding.run import Run, Text
from spork_demo.decoding.schedule import Scheduler, scheduler, send_all
from spork_demo.decoding.scored import scored
from spork_demo.decoding.stopwatch import Stopwatch, synchroniser
from spork_demo.decoding.verified import article_rule, confidence_rule, exact_rule, verified
from spork_demo.models.cached_model import CachedModel
from spork_demo.models.dspark_config import MixtureConfig
from spork_demo.models.pair import Pair
from spork_demo.settings import Settings
from spork_demo.trace import Event


class Lane:
    """One run of one method on one prompt, with caches of its own.

    settings must be resolved (no `auto`) for this pair. `context` caps the pair's own limit.
    costs: the pair's measured cost tables, kept from lane to lane; without, measured anew.
    """

    def __init__(
        self,
        pair: Pair,
        settings: Settings,
        prompt: Sequence[int],
        text: Text,
        context: int,
        costs: CostTables | None = None,
    ) -> None:
        self._pair = pair
        self._settings = settings
        self._target = CachedModel(pair.target, pair.vocab_size)
        self._costs = costs or CostTables(pair)
        self._models: list[CachedModel | Blocks] = []
        device = self._target.device
        self._generator = torch.Generator(device).manual_seed(settings.seed)
        self._run = Run(
            settings=settings,
            prompt=tuple(prompt),
            target=self._target,
            stop_ids=pair.stop_ids,
            context=min(context, pair.context_length),
            generator=self._generator,
            watch=Stopwatch(synchroniser(device)),
            text=text,
        )

    def events(self) -> Iterator[Event]:
        """The method's events; closing the iterator ends the run.

        What has to be measured first is measured here, before any clock of the lane runs.
        """
        settings = self._settings
        if settings.method == "greedy":
            return greedy(self._run)
        if settings.method == "dspark" and settings.exact:
            policy = Policy(self._chain(), adaptive=settings.policy == "adaptive")
            return verified(self._run, self._dspark(), exact_rule, self._draft_calls, policy)
        plan = self._forks() if settings.method == "spork" else self._chain()
        policy = Policy(plan, adaptive=settings.policy == "adaptive")
        drafter = self._drafter(plan)
        if settings.method == "spork" and not settings.exact:
            return scored(
                self._run, drafter, self._judge(settings.judge), self._draft_calls, policy
            )
        rule = exact_rule if settings.exact else article_rule
        if settings.method == "dspark":
            rule = confidence_rule
        return verified(self._run, drafter, rule, self._draft_calls, policy)

    def watched(self, judges: Sequence[str]) -> tuple[Iterator[Event], Panel]:
        """Greedy decoding during which the forks of an article lane are drafted and scored by each
        of `judges` at every position, and none is kept. The panel holds the last scores.
        """
        plan = self._forks()
        panel = Panel({name: self._judge(name, keeps_states=True) for name in judges})
        drafter, policy = self._drafter(plan), Policy(plan)
        events = scored(self._run, drafter, panel, self._draft_calls, policy, OutOfReach())
        return events, panel

    def _forks(self) -> ForkPlan:
        settings = self._settings
        return ForkPlan(
            width=settings.fork_width,
            depth=1 + settings.fork_depth,
            shape=settings.fork_shape,
            budget=settings.node_budget,
            sample_rest=settings.fork_sampling == "top_p",
        )

    def _chain(self) -> ForkPlan:
        sampled = self._settings.method == "speculative"  # DSpark of the article drafts greedily
        return ForkPlan(
            width=1,
            depth=self._settings.draft_length,
            sample_first=sampled,
            sample_rest=sampled,
        )

    def _dspark(self) -> DSparkChain:
        return DSparkChain(
            self._blocks(),
            self._settings,
            self._generator,
            self._scheduler(),
            mixture=self._mixture(),
            stop_ids=self._pair.stop_ids,
        )

    def _scheduler(self) -> Scheduler:
        settings = self._settings
        if not self._pair.dspark.config.confidence:
            return send_all
        if settings.schedule != "hardware":
            return scheduler(settings)
        return scheduler(settings, self._costs.near(self._halfway))

    @property
    def _halfway(self) -> int:
        return len(self._run.prompt) + self._settings.max_new_tokens // 2

    def _worth(self, plan: ForkPlan, *, drafts_blocks: bool) -> NodeBudget | None:
        """How many nodes of a tree the target is sent; measured before any clock runs."""
        if plan.shape != "tree" or not self._settings.exact:
            return None
        costs = self._costs.near(self._halfway)
        return Worthwhile(costs, costs.draft_seconds if drafts_blocks else 0.0)

    def _counts(self) -> NgramCounts:
        """What the settings let counts look at."""
        kind, order = self._settings.drafter, self._settings.ngram_order
        if kind == "recycle":
            return NgramCounts(1, recycle=True)
        return NgramCounts(order, self._pair.ngram_table, recycle=kind == "merged")

    def _mixture(self) -> Mixture | None:
        if self._settings.drafter != "merged":
            return None
        return Mixture(self._counts(), self._pair.dspark.config.mixture or MixtureConfig())

    def _drafter(self, plan: ForkPlan) -> Drafter:
        settings, kind = self._settings, self._settings.drafter
        if kind == "dspark" or (kind == "merged" and self._pair.dspark is not None):
            return DSparkForks(
                self._blocks(),
                plan,
                settings,
                self._generator,
                mixture=self._mixture(),
                worth=self._worth(plan, drafts_blocks=True),
                stop_ids=self._pair.stop_ids,
            )
        if kind in ("ngram", "recycle", "merged"):
            worth = self._worth(plan, drafts_blocks=False)
            stop_ids = self._pair.stop_ids
            return NgramForks(self._counts(), plan, source=kind, worth=worth, stop_ids=stop_ids)
        owns_cache = kind == "draft_model"
        model = {
            "target": lambda: self._target,
            "early_exit": lambda: self._counted(self._target.early_exit(settings.verifier_layers)),
            "draft_model": self._draft_model,
        }[kind]()
        return ModelForks(
            model,
            plan,
            settings,
            self._generator,
            source=kind,
            owns_cache=owns_cache,
            context=self._draft_context() if owns_cache else self._run.context,
            keep_rows=kind == "target" and settings.method == "spork" and not settings.exact,
            stop_ids=self._pair.stop_ids,
        )

    def _judge(self, kind: str, *, keeps_states: bool = False) -> Judge:
        if kind == "first_token":
            return FirstTokenJudge()
        if kind == "draft_model":
            return ModelJudge(self._draft_model(), owns_cache=True)
        early = self._counted(self._target.early_exit(self._settings.verifier_layers))
        return ModelJudge(early, owns_cache=False, keeps_states=keeps_states)

    def _draft_model(self) -> CachedModel:
        return self._counted(CachedModel(self._pair.draft, self._pair.vocab_size))

    def _draft_context(self) -> int:
        return min(self._run.context, self._pair.draft_context_length or self._run.context)

    def _blocks(self) -> Blocks:
        return self._counted(Blocks(self._pair.dspark, self._pair.vocab_size))

    def _counted(self, model):
        self._models.append(model)
        return model

    def _draft_calls(self) -> int:
        """Calls of anything but the target: draft model, early exit, DSpark block, small judge."""
        return sum(model.calls for model in self._models)
