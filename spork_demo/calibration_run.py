"""Score the forks of held-out prompts while greedy writes, and learn which of them it agrees with.

A lane of article SPORK whose threshold is out of reach *is* greedy decoding: at every position it
drafts its forks, its judges score them, and the target's own token is taken. What greedy wrote
afterwards labels the forks.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from spork_demo.calibration import (
    Calibration,
    CalibrationPlan,
    CalibrationProgress,
    Fork,
    HeadFit,
    auc,
)
from spork_demo.decoding.judges import Panel
from spork_demo.decoding.scoring_head import fit_head, untrained_heads
from spork_demo.engine import Engine
from spork_demo.reliability import Prediction, predictions
from spork_demo.settings import Settings
from spork_demo.trace import Finished, Round
from spork_demo.train.data import SEED
from spork_demo.train.prompts import held_out_prompts

SNAPSHOT_SECONDS = 1.0
"""Results so far are handed out this often while a prompt is read."""

FITTED_ON = 300
"""The first so many held-out prompts of the training seed may have fitted a drafter's own
temperatures and are left out."""

HEADS = 20
"""Random heads that stand for the untrained one."""

LEAST_OF_EACH = 10
"""Agreeing and disagreeing forks the head needs on either side of the split."""


def calibration_prompts(count: int, seed: int = 0) -> list[str]:
    """`count` prompts of our own that nothing was trained or fitted on."""
    used = set(held_out_prompts(FITTED_ON, SEED + 1))
    fresh = held_out_prompts(count + FITTED_ON, SEED + 2 + seed)
    return [prompt for prompt in fresh if prompt not in used][:count]


def readable(engine: Engine, prompts: Sequence[str], limit: int) -> list[list[int]]:
    """The prompts as ids; ValueError with a sentence for one of more than `limit` tokens."""
    return [engine.encode(prompt, limit) for prompt in prompts]


def run_calibration(
    engine: Engine,
    plan: CalibrationPlan,
    prompts: Sequence[Sequence[int]],
    *,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[CalibrationProgress]:
    """Progress after every round; the last one has all results, also when time ran out.

    plan.settings must be resolved, and prompts are ids. Closing the iterator ends it at the round
    it is in.
    """
    study = Study(engine, plan.settings)
    begun = shown = clock()
    for done, prompt in enumerate(prompts):
        with closing(study.read(prompt)) as rounds:
            for share in rounds:
                now = clock()
                late, due = now - begun > seconds, now - shown > SNAPSHOT_SECONDS
                if late or due:
                    shown = now
                share = (done + share) / len(prompts)
                found = study.found() if late or due else None
                yield CalibrationProgress(done, len(prompts), share, now - begun, found, late)
                if late:
                    return
        study.close_prompt()
        share = (done + 1) / len(prompts)
        yield CalibrationProgress(
            done + 1, len(prompts), share, clock() - begun, found=study.found()
        )


@dataclass(slots=True)
class _Place:
    """One position: its forks' tokens, what each judge gave them, and their states."""

    forks: list[tuple[int, ...]]
    scores: list[tuple[float, ...]]
    states: Tensor | None


@dataclass(slots=True)
class _Text:
    """A prompt being read: what greedy wrote, and the positions it came past."""

    written: list[int] = field(default_factory=list)
    places: list[_Place] = field(default_factory=list)
    ended: bool = False


class Study:
    """What a calibration has seen so far."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine = engine
        self._settings = settings
        self._depth = 1 + settings.fork_depth
        self._judges = judges_of(engine, settings)
        self._texts: list[_Text] = []
        self._drafts: list[tuple[Prediction, ...]] = []
        self._head: HeadFit | None = None
        self._read = 0
        self._provenance = engine.provenance()

    def read(self, prompt: Sequence[int]) -> Iterator[float]:
        """Decode one prompt, once with all forks and once with whole DSpark blocks.

        Yields the share that is done after every round.
        """
        text = _Text()
        self._texts.append(text)
        network = self._engine.pair.dspark
        drafts = network is not None and network.config.confidence
        wanted = self._settings.max_new_tokens * (2 if drafts else 1)
        events, panel = self._engine.lane(self._settings, prompt).watched(self._judges)
        with closing(events):
            for event in events:
                if isinstance(event, Round):
                    self._watch(text, event, panel)
                    yield len(text.written) / wanted
                elif isinstance(event, Finished):
                    text.ended = event.stop_reason == "eos"
        if drafts:
            yield from self._read_blocks(prompt, wanted)

    def close_prompt(self) -> None:
        """The newest prompt is read; fit the head again where there is more to fit on."""
        self._read += 1
        if "early_layers" in self._judges:
            self._head = self._fit()

    def found(self) -> Calibration:
        """The results so far."""
        forks: list[Fork] = []
        places = 0
        for number, text in enumerate(self._texts):
            for place, labels in labelled(text, self._depth):
                if labels:
                    scored = zip(labels, place.scores, strict=True)
                    forks += [Fork(number, places, agrees, scores) for agrees, scores in scored]
                places += 1
        return Calibration(
            pair=self._engine.pair.name,
            settings=self._settings,
            judges=self._judges,
            forks=tuple(forks),
            places=places,
            head=self._head,
            drafts=tuple(self._drafts),
            prompts=self._read,
            provenance=self._provenance,
        )

    def _watch(self, text: _Text, round_: Round, panel: Panel) -> None:
        text.written += [token.token for token in round_.committed]
        forks = [_path(round_, score.leaf) for score in round_.scores]
        scores = list(zip(*([s.score for s in told] for told in panel.heard), strict=True))
        state = None
        if forks and "early_layers" in panel.judges:
            state = panel.judges["early_layers"].states.float().cpu()
        text.places.append(_Place(forks, scores if forks else [], state))

    def _read_blocks(self, prompt: Sequence[int], wanted: int) -> Iterator[float]:
        settings = self._engine.resolve(
            Settings(
                "dspark",
                schedule="full",
                draft_length=self._engine.pair.dspark.config.block_size,
                max_new_tokens=self._settings.max_new_tokens,
            )
        )
        written = wanted // 2
        with closing(self._engine.lane(settings, prompt).events()) as events:
            for event in events:
                if isinstance(event, Round):
                    self._drafts += filter(None, [predictions([event])])
                    written += len(event.committed)
                    yield min(1.0, written / wanted)

    def _fit(self) -> HeadFit | None:
        """Fit on every second prompt, try on the others."""
        sides = [self._examples(self._texts[start::2]) for start in range(2)]
        counts = [int(side[1].sum()) for side in sides]
        if any(
            not LEAST_OF_EACH <= count <= len(side[1]) - LEAST_OF_EACH
            for count, side in zip(counts, sides, strict=True)
        ):
            return None
        (states, agrees, _), (unseen, labels, means) = sides
        weights, _ = fit_head(states, agrees)
        unseen = unseen.double()
        heads = untrained_heads(unseen.shape[1], HEADS, self._settings.seed)
        return HeadFit(
            fitted=_auc(unseen @ weights, labels),
            untrained=tuple(sorted(_auc(unseen @ head, labels) for head in heads)),
            mean_probability=_auc(means, labels),
            fitted_on=len(agrees),
            tried_on=len(labels),
        )

    def _examples(self, texts: Sequence[_Text]) -> tuple[Tensor, Tensor, Tensor]:
        """States, labels and mean probabilities of all labelled forks of `texts`."""
        own = self._judges.index("early_layers")
        known = [
            (place, labels)
            for text in texts
            for place, labels in labelled(text, self._depth)
            if labels
        ]
        if not known:
            return torch.empty(0, 0), torch.empty(0, dtype=torch.bool), torch.empty(0)
        return (
            torch.cat([place.states for place, _ in known]),
            torch.tensor([label for _, labels in known for label in labels]),
            torch.tensor([scores[own] for place, _ in known for scores in place.scores]).double(),
        )


def judges_of(engine: Engine, settings: Settings) -> tuple[str, ...]:
    """The score judges this pair has, the one of the lane first."""
    able = ["early_layers", "first_token"]
    if engine.pair.draft is not None:
        able.insert(1, "draft_model")
    return tuple(sorted(able, key=lambda judge: judge != settings.judge))


def labelled(text: _Text, depth: int) -> Iterator[tuple[_Place, list[bool]]]:
    """Positions whose whole forks can be compared, with whether each is what greedy wrote.

    A text that was cut off says nothing about forks that reach beyond its end; one that a stop
    token ended does.
    """
    whole = len(text.places) if text.ended else max(0, len(text.written) - depth + 1)
    for start, place in enumerate(text.places[:whole]):
        yield place, [tuple(text.written[start : start + len(f)]) == f for f in place.forks]


def on_pair(engine: Engine, plan: CalibrationPlan) -> CalibrationPlan:
    """`plan` on this pair: greedy, and with width, depth and threshold at rest.

    Raises SettingsError where the pair cannot serve it.
    """
    settings = replace(
        plan.settings,
        method="spork",
        rules="article",
        temperature=0.0,
        policy="fixed",
        threshold_rule="fixed",
    )
    return replace(plan, settings=engine.resolve(settings))


def _path(round_: Round, leaf: int) -> tuple[int, ...]:
    tokens: list[int] = []
    while leaf >= 0:
        tokens.append(round_.nodes[leaf].token)
        leaf = round_.nodes[leaf].parent
    return tuple(reversed(tokens))


def _auc(scores: Tensor, labels: Tensor) -> float:
    found = auc(scores[labels].tolist(), scores[~labels].tolist())
    return 0.5 if found is None else found
