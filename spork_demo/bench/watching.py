"""How a browser keeps up: `python -m spork_demo.bench.watching`.

A recorded race is streamed at a steady pace, with no model, to the page in a browser whose
processor is slowed down. What is told is how long after its last event the page has shown it.
"""

import argparse
import contextlib
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from spork_demo.bench.browser import POLL_MS, Opened
from spork_demo.host import PairInfo, Status
from spork_demo.settings import Settings
from spork_demo.spacefile import read_spacefile
from spork_demo.trace import Finished, LaneEvent, Race, Started, Trace
from spork_demo.trace_file import read_races

ROOT = Path(__file__).resolve().parents[2]
TOKENS = 300
LANES = 3
LONG_MS = 50

WATCH = """
() => {
  window.sporkWatched = { long: [], shown: null };
  new PerformanceObserver((list) => list.getEntries().forEach((entry) =>
    window.sporkWatched.long.push(entry.duration))).observe({ type: "longtask" });
  const look = () => {
    const lanes = document.querySelectorAll(".race-lanes .lane");
    const over = document.querySelectorAll(".race-lanes .lane.is-finished").length === LANES;
    if (!over || lanes.length !== LANES) return;
    watch.disconnect();
    requestAnimationFrame(() => setTimeout(() => (window.sporkWatched.shown = Date.now())));
  };
  const watch = new MutationObserver(look);
  const whole = { subtree: true, childList: true, attributes: true, attributeFilter: ["class"] };
  watch.observe(document.querySelector("#race-view"), whole);
}
"""
"""Notes long tasks, and when the frame is on screen in which the last lane ends."""


class PacedHost:
    """Streams the lanes of one recorded race, `rate` events a second in every lane."""

    def __init__(self, recorded: Race, rate: float) -> None:
        self._lanes = [long_lane(lane, TOKENS) for lane in recorded.lanes[:LANES]]
        self._rate = rate
        self.begun = self.ideal = 0.0

    def status(self) -> Status:
        return Status("Ready: lanes run live.", ready=True)

    def pairs(self) -> tuple[PairInfo, ...]:
        return (PairInfo("recorded", layers=30, has_draft_model=True, has_dspark=True),)

    def race(
        self, prompt: str, _lanes: Sequence[Settings], _labels: Sequence[str], _pair: str = ""
    ) -> Iterator[Race | LaneEvent]:
        """See `Host.race`. Every lane is streamed to its end, whatever was asked."""
        yield Race("", tuple(Trace(lane.settings, prompt, lane.label) for lane in self._lanes))
        streams = [list(_events(lane)) for lane in self._lanes]
        most = max(map(len, streams))
        self.begun = time.time()
        self.ideal = self.begun + (most - 1) / self._rate
        for number in range(most):
            time.sleep(max(0.0, self.begun + number / self._rate - time.time()))
            for place, events in enumerate(streams):
                if number < len(events):
                    yield LaneEvent(place, events[number])

    def costs(self, _pair: str = "") -> None:
        """See `Host.costs`; not what is measured here."""

    def rule_counts(self, *_: Any) -> None:
        """See `Host.rule_counts`."""


def long_lane(lane: Trace, tokens: int) -> Trace:
    """`lane` with its rounds again and again until it has so many tokens."""
    rounds, count = [], 0
    for number, round_ in enumerate(cycle(lane.rounds)):
        if count >= tokens:
            break
        rounds.append(replace(round_, index=number))
        count += len(round_.committed)
    return replace(lane, rounds=tuple(rounds), stop_reason="length")


def _events(lane: Trace) -> Iterator[Any]:
    yield Started(lane.prompt_tokens, lane.prefill_seconds)
    yield from lane.rounds
    yield Finished("length")


def watched(host: PacedHost, page: Opened, slower: float, turns: int) -> list[dict[str, float]]:
    """What each of `turns` runs showed, after one that warms up."""
    session = page.tab.context.new_cdp_session(page.tab)
    found = []
    for turn in range(1 + turns):
        session.send("Emulation.setCPUThrottlingRate", {"rate": slower})
        page.tab.evaluate(WATCH.replace("LANES", str(LANES)))
        page.run(f"Turn {turn}")
        page.tab.wait_for_function("window.sporkWatched.shown", polling=POLL_MS)
        told = page.tab.evaluate("window.sporkWatched")
        shown = told["shown"] / 1000
        long = [task for task in told["long"] if task > LONG_MS]
        session.send("Emulation.setCPUThrottlingRate", {"rate": 1})
        found.append(
            {
                "ideal_seconds": host.ideal - host.begun,
                "ratio": (shown - host.begun) / (host.ideal - host.begun),
                "long_tasks": len(long),
                "longest_ms": max(long, default=0.0),
            }
        )
    return found[1:]


def main() -> None:
    """Print a line a run, and the median ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slower", type=float, default=4, help="how much slower the browser is")
    parser.add_argument("--rate", type=float, default=20, help="events a second in each lane")
    parser.add_argument("--updates", type=float, default=20, help="updates a second of the page")
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    spacefile = read_spacefile(ROOT / "Spacefile")
    host = PacedHost(next(islice(read_races(ROOT / "assets" / "traces"), 1)), options.rate)
    pace = {"frame_seconds": 1 / options.updates}
    with contextlib.closing(Opened.on(host, spacefile, TOKENS, **pace)) as page:
        if page.tab is None:
            sys.exit("There is no browser on this machine, or playwright is not installed.")
        found = watched(host, page, options.slower, options.turns)
    for run in found:
        sys.stdout.write("  ".join(f"{name} {value:.3f}" for name, value in run.items()) + "\n")
    median = statistics.median(run["ratio"] for run in found)
    sys.stdout.write(f"shown after {median:.3f} of the ideal time\n")


if __name__ == "__main__":
    main()
