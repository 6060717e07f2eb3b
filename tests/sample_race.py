"""Handmade races and a host that replays them: for tests only, no model anywhere."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from spork_demo.calibration import CalibrationPlan, CalibrationProgress
from spork_demo.cells import Cell
from spork_demo.host import MachineCosts, PairInfo, RuleCounts, RunRefusedError, Status
from spork_demo.settings import Settings
from spork_demo.spacefile import Limits, Preset
from spork_demo.sweep import Sweep, sweep
from spork_demo.trace import (
    Fidelity,
    ForkScore,
    LaneEvent,
    Node,
    Provenance,
    Race,
    Round,
    Token,
    Trace,
)
from tests.dspark_rounds import dspark_lane
from tests.sample_calibration import sample_progress

WORDS = (
    "Here", " is", " the", " plan", ":\n", "\n", "def", " add", "(", "a", ",", " b", "):\n",
    "  ", " return", " a", " +", " b", "\n\n", "It", " adds", " two", " numbers", ",", " and",
    "  ", "it", " does", " so", " in", " one", " line", ".", " ", "水", "的", "化学式", "是",
    " H", "2", "O", ".", " The", " quick", " brown", " fox", " jumps", " over", " the", " lazy",
    " dog", ".", " The", " quick", " brown", " fox", " jumps", " over", " the", " lazy", " dog",
    ".", "\n", "1", ",", " 2", ",", " 3", ",", " 4", ",", " 5", ".",
)  # fmt: skip
PLACE = Provenance(
    app="0.1.0",
    target="SmolLM2-135M-Instruct",
    device="CPU, 2 cores",
    dtype="float32",
    threads=2,
    date="2026-11-20T10:00:00Z",
)
LIMITS = Limits(
    prompt_characters=200,
    prompt_tokens=512,
    new_tokens=128,
    fork_nodes=32,
    lanes=4,
    seconds_per_run=60,
    queue_races=4,
    queue_sweeps=2,
    queue_calibrations=2,
    queue_lessons=2,
    queue_calls=3,
    upload_mb=2,
    visitors=8,
    sweep_cells=24,
    sweep_prompts=4,
    sweep_seconds=120,
)
PRESETS = (
    Preset("Speculative, n-gram", "speculative", drafter="ngram"),
    Preset("SPORK, n-gram forks", "spork", drafter="ngram"),
    Preset("SPORK as in the article", "spork", "article", "target", "early_layers"),
    Preset("DSpark as in the article", "dspark", "article", "draft_model"),
    Preset("DSpark, its own drafter", "dspark", "exact", "dspark"),
)
PAIR = PairInfo("SmolLM2-135M-Instruct", layers=30, has_draft_model=True, languages=("en",))
DSPARK_PAIR = PairInfo(
    "SmolLM2-135M-Instruct, DSpark",
    layers=30,
    has_draft_model=True,
    languages=("en",),
    has_dspark=True,
    about="Student and DSpark drafter learned from 2 million tokens this target wrote.",
)
COSTS = MachineCosts(
    place=replace(PLACE, date="2026-11-21T10:00:00Z"),
    context=64,
    rows=(1, 2, 4, 8, 16, 32),
    call_seconds=tuple(0.0195 + 0.0005 * rows for rows in range(1, 33)),
    block_seconds=0.003,
    block_size=5,
    chain_seconds=0.002,
)
"""Handmade: 20 ms for a call on one row, half a millisecond for each further one."""

SOURCES = ("table", "context", "draft_model")


def token(place: int, fate: str, text: str | None = None) -> Token:
    """The committed token at `place` of the sample text."""
    drafted = fate not in ("plain", "correction", "fallback")
    return Token(
        token=100 + place,
        text=WORDS[place % len(WORDS)] if text is None else text,
        fate=fate,
        target_probability=0.5 + (place % 5) / 10,
        draft_probability=0.4 + (place % 6) / 10 if drafted else None,
        confidence=0.75 if drafted else None,
        margin=0.3 + place % 4,
    )


def greedy_round(index: int) -> Round:
    return Round(index, (), (token(index, "plain"),), 0, 0, 1, 0, 40 + index, 0.04, 0, 0.038, 0.001)


def forked_round(index: int, place: int, accepted: int, last: str, score: bool = False) -> Round:
    """A chain that was accepted for `accepted` tokens, with two siblings that were not."""
    nodes = [
        Node(
            100 + place + k,
            WORDS[(place + k) % len(WORDS)],
            k - 1,
            "accepted",
            0.8,
            0.9,
            0.8,
            source=SOURCES[k % 3],
        )
        for k in range(accepted)
    ]
    nodes.append(Node(900, " maybe", accepted - 1, "rejected", 0.3, 0.05, 0.4, 0.5, "context"))
    nodes.append(Node(901, " later", accepted, "cut", 0.1, None, 0.2, 0.5, "recycled"))
    committed = [token(place + k, "accepted") for k in range(accepted)]
    committed.append(token(place + accepted, last))
    return Round(
        index=index,
        nodes=tuple(nodes),
        committed=tuple(committed),
        scheduled=accepted + 1,
        accepted=accepted,
        target_calls=1,
        draft_calls=0,
        cache_rows=60 + place,
        seconds=0.055,
        draft_seconds=0.004,
        judge_seconds=0.047,
        commit_seconds=0.002,
        scores=(ForkScore(accepted, 0.8),) if score else (),
        accept_threshold=0.7 if score else None,
    )


def greedy_lane(prompt: str, tokens: int = 60) -> Trace:
    settings = Settings(max_new_tokens=tokens)
    rounds = tuple(greedy_round(index) for index in range(tokens))
    return Trace(settings, prompt, "1 Greedy", 30, 0.21, rounds, "length", provenance=PLACE)


def forked_lane(
    prompt: str, settings: Settings, label: str, pattern: Sequence[tuple[int, str]], tokens: int
) -> Trace:
    rounds: list[Round] = []
    place = 0
    while place < tokens:
        accepted, last = pattern[len(rounds) % len(pattern)]
        rounds.append(forked_round(len(rounds), place, accepted, last, settings.rules == "article"))
        place += accepted + 1
    return Trace(settings, prompt, label, 30, 0.21, tuple(rounds), "length", provenance=PLACE)


def sample_race(prompt: str = "Write a tiny Python function.", tokens: int = 60) -> Race:
    """Greedy, SPORK exact and DSpark article: the page's default lanes."""
    spork = Settings("spork", "exact", drafter="ngram", judge="target", max_new_tokens=tokens)
    dspark = Settings(
        "dspark", "article", drafter="draft_model", judge="early_layers", max_new_tokens=tokens
    )
    lanes = (
        greedy_lane(prompt, tokens),
        replace(
            forked_lane(prompt, spork, "2 SPORK exact", [(3, "bonus"), (0, "bonus"), (2, "bonus")],
                        tokens),
            fidelity=Fidelity(equal_tokens=1.0, perplexity=3.1, greedy_perplexity=3.1,
                              rouge_l=1.0, bleu=1.0),
        ),
        replace(
            forked_lane(prompt, dspark, "3 DSpark article",
                        [(1, "correction"), (0, "fallback"), (2, "bonus"), (0, "correction")],
                        tokens),
            fidelity=Fidelity(16, " slow", " quick", 0.02, 0.4, 4.2, 3.1, 0.61, 0.44),
        ),
    )  # fmt: skip
    return Race("A tiny function", lanes, recorded=True)


def dspark_race(prompt: str = "Write a tiny Python function.", tokens: int = 60) -> Race:
    """Greedy, SPORK and exact DSpark, as the page opens where a pair has a DSpark drafter."""
    greedy, spork, _ = sample_race(prompt, tokens).lanes
    settings = Settings("dspark", drafter="dspark", draft_length=7, max_new_tokens=tokens)
    dspark = dspark_lane(settings, prompt, "3 DSpark exact", tokens, WORDS)
    lanes = (greedy, spork, replace(dspark, fidelity=Fidelity(equal_tokens=1.0)))
    return Race("Exact DSpark", lanes, recorded=True)


@dataclass(slots=True)
class FakeHost:
    """Replays the sample lanes for whatever is asked. `gap` sleeps between events.

    refuse: the sentence of a refusal at the start. break_after: raise `fault` after so many events.
    """

    gap: float = 0.0
    state: Status = Status("The model is ready.", ready=True)
    refuse: str = ""
    break_after: int | None = None
    fault: str = "a bug at /secret/path"
    texts: Sequence[str] = ()
    offers: Sequence[PairInfo] = (PAIR,)
    closed: list[str] = field(default_factory=list)
    asked: list[tuple] = field(default_factory=list)
    measured: MachineCosts | None = None

    def status(self) -> Status:
        return self.state

    def pairs(self) -> Sequence[PairInfo]:
        return tuple(self.offers) if self.state.ready else ()

    def race(
        self, prompt: str, lanes: Sequence[Settings], labels: Sequence[str], pair: str = ""
    ) -> Iterator[Race | LaneEvent]:
        self.asked.append((prompt, tuple(lanes), tuple(labels), pair))
        if self.refuse:
            raise RunRefusedError(self.refuse)
        whole = [self._lane(prompt, *pick) for pick in zip(lanes, labels, strict=True)]
        try:
            empty = tuple(
                Trace(lane.settings, prompt, lane.label, provenance=PLACE) for lane in whole
            )
            yield Race("", empty)
            yield from self._events(whole)
        finally:
            self.closed.append(prompt)

    def sweep(
        self, prompts: Sequence[str], grid: Sequence[Cell], repeats: int = 1, pair: str = ""
    ) -> Iterator[Sweep]:
        """Every cell replays the sample lanes of its method."""
        yield from sweep(
            lambda prompt, lanes: self.race(prompt, lanes, [""] * len(lanes), pair),
            prompts,
            grid,
            repeats,
        )

    def costs(self, pair: str = "") -> MachineCosts | None:
        return self.measured if self.state.ready else None

    def rule_counts(
        self, p: Sequence[float], q: Sequence[float], draws: int, seed: int
    ) -> RuleCounts | None:
        """Counts as even as whole numbers can be, the article's all on the draft's favourite."""
        if not self.state.ready:
            return None
        even = [draws // len(p)] * (len(p) - 1)
        favourite = max(range(len(q)), key=q.__getitem__)
        return RuleCounts(
            (*even, draws - sum(even)), tuple(draws * (n == favourite) for n in range(len(p)))
        )

    def calibrate(self, plan: CalibrationPlan, pair: str = "") -> Iterator[CalibrationProgress]:
        self.asked.append((plan, pair))
        if self.refuse:
            raise RunRefusedError(self.refuse)
        blocks = any(offer.has_dspark for offer in self.offers)
        try:
            for sent, step in enumerate(sample_progress(plan, self.gap, blocks=blocks)):
                if self.break_after is not None and sent >= self.break_after:
                    raise RuntimeError(self.fault)
                yield step
        finally:
            self.closed.append("calibration")

    def _events(self, lanes: Sequence[Trace]) -> Iterator[LaneEvent]:
        sent = 0
        streams = {index: lane.events() for index, lane in enumerate(lanes)}
        while streams:
            for index in list(streams):
                event = next(streams[index], None)
                if event is None:
                    del streams[index]
                    continue
                if self.break_after is not None and sent >= self.break_after:
                    raise RuntimeError(self.fault)
                sent += 1
                time.sleep(self.gap)
                yield LaneEvent(index, event)

    def _lane(self, prompt: str, settings: Settings, label: str) -> Trace:
        tokens = settings.max_new_tokens
        if settings.method == "greedy":
            lane = replace(greedy_lane(prompt, tokens), settings=settings, label=label)
        elif settings.method == "dspark" and settings.exact:
            lane = dspark_lane(settings, prompt, label, tokens, WORDS)
            lane = replace(lane, fidelity=Fidelity(equal_tokens=1.0))
        else:
            last = "bonus" if settings.exact else "correction"
            reach = settings.fork_width if settings.method == "spork" else settings.draft_length
            pattern = [(min(5, reach - 1), last), (max(0, settings.fork_depth - 4), last)]
            lane = forked_lane(prompt, settings, label, pattern, tokens)
            closeness = 1.0 if settings.exact else 0.5
            lane = replace(lane, fidelity=Fidelity(
                equal_tokens=closeness, perplexity=3.0, greedy_perplexity=3.0,
                rouge_l=closeness, bleu=closeness))  # fmt: skip
        return with_texts(lane, self.texts) if self.texts else lane


def with_texts(lane: Trace, texts: Sequence[str]) -> Trace:
    """The same lane with `texts` written over its committed tokens, round and round."""
    rounds = []
    for round_ in lane.rounds:
        committed = tuple(
            replace(t, text=texts[(t.token - 100) % len(texts)]) for t in round_.committed
        )
        rounds.append(replace(round_, committed=committed))
    return replace(lane, rounds=tuple(rounds))


def live_events(race: Race) -> list[LaneEvent]:
    """A race's events, lanes one after another."""
    return [LaneEvent(index, event) for index, lane in enumerate(race.lanes)
            for event in lane.events()]  # fmt: skip
