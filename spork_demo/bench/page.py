"""What the page costs: lane seconds of a race in a browser against the same race without one.

Both run in this process on one engine. The browser runs on this machine too and takes its share of
the processor, so a visitor's browser elsewhere costs less than what is measured here.
"""

import contextlib
import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from spork_demo.bench.browser import Opened
from spork_demo.engine import Engine, empty_race, run_lanes
from spork_demo.host import PairInfo, Status
from spork_demo.settings import Settings
from spork_demo.spacefile import Spacefile
from spork_demo.trace import LaneEvent, Race, advance

TURNS = 5
NEW_TOKENS = 96
LANES = (Settings(), Settings(method="spork"), Settings(method="dspark"))


class EngineHost:
    """One engine behind a page. Keeps the lane seconds of the last race."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.lane_seconds = 0.0

    def status(self) -> Status:
        return Status("Ready: lanes run live.", ready=True)

    def pairs(self) -> tuple[PairInfo, ...]:
        pair = self._engine.pair
        has_draft, has_dspark = pair.draft is not None, pair.dspark is not None
        return (PairInfo(pair.name, self._engine.layers, has_draft, has_dspark=has_dspark),)

    def race(
        self, prompt: str, lanes: Sequence[Settings], labels: Sequence[str], _pair: str = ""
    ) -> Iterator[Race | LaneEvent]:
        """See `Host.race`; there is one pair only."""
        resolved = [self._engine.resolve(settings) for settings in lanes]
        race = empty_race(self._engine, prompt, resolved, labels)
        yield race
        for news in run_lanes(
            self._engine, race, self._engine.encode(prompt, self._engine.pair.context_length)
        ):
            race = advance(race, news)
            yield news
        self.lane_seconds = sum(round_.seconds for lane in race.lanes for round_ in lane.rounds)

    def costs(self, _pair: str = "") -> None:
        """See `Host.costs`; the lesson is not what is timed here."""

    def rule_counts(self, *_: Any) -> None:
        """See `Host.rule_counts`."""


def page_overhead(engine: Engine, spacefile: Spacefile, prompt: str) -> dict[str, float] | None:
    """Medians over turns of lane seconds with and without a browser, and of their ratios; None
    where there is no browser, or the page's own lanes cannot run on this pair.
    """
    if engine.pair.dspark is None:
        return None
    with contextlib.ExitStack() as stack:
        host = EngineHost(engine)
        page = stack.enter_context(contextlib.closing(Opened.on(host, spacefile, NEW_TOKENS)))
        if page.tab is None:
            return None
        bare, shown = [], []
        for _ in range(1 + TURNS):
            _without(host, prompt)
            bare.append(host.lane_seconds)
            page.run(prompt)
            shown.append(host.lane_seconds)
    del bare[0], shown[0]  # the first ones warm up
    ratios = [with_page / alone for with_page, alone in zip(shown, bare, strict=True)]
    return {
        "lane_seconds_without_page": statistics.median(bare),
        "lane_seconds_with_browser": statistics.median(shown),
        "ratio": statistics.median(ratios),
    }


def _without(host: EngineHost, prompt: str) -> None:
    lanes = [
        Settings.from_plain(settings.to_plain() | {"max_new_tokens": NEW_TOKENS})
        for settings in LANES
    ]
    for _ in host.race(prompt, lanes, ["", "", ""]):
        pass
