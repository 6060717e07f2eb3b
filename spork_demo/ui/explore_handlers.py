"""What happens on Sweep and Stop: values in, values out, no widgets.

An `Explorer` holds only what all visitors share; a visitor's sweep lives in gr.State.
"""

import functools
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import gradio as gr

from spork_demo.cells import Cell
from spork_demo.charts.figure import paragraph
from spork_demo.host import Host, RunRefusedError
from spork_demo.language import known, later, say
from spork_demo.race import memory_sentence
from spork_demo.settings import SettingsError
from spork_demo.spacefile import Limits, Preset
from spork_demo.sweep import Sweep
from spork_demo.ui.notices import notice
from spork_demo.ui.pace import frames
from spork_demo.ui.planned import planned
from spork_demo.ui.shelf import KEPT_FILES, Shelf
from spork_demo.ui.sweep_entry import SweepEntry, read_sweep
from spork_demo.ui.sweep_results import (
    FILES,
    best_html,
    file_values,
    measure_of,
    progress,
    result_values,
)
from spork_demo.ui.turns import left_line

LOG = logging.getLogger(__name__)

FRAME_SECONDS = 0.4
"""Shortest time between two updates of the bar, and of what Stop keeps."""

RESULT_SECONDS = 2.0
"""Shortest time between two drawings of the results while a sweep runs."""

SWEEPING = later("Sweeping live: results appear as they come.")
SWEPT = later("Finished: {cells} cells over {races} races.")
STOPPED = later("Stopped. What is done is kept: {done} of {races} races are complete.")
TIME_LIMIT = later(
    "The sweep reached this page's limit of {seconds} seconds. What is done is kept: {done} of "
    "{races} races are complete."
)
BROKE = later("The sweep failed on the server and was ended. What is done is kept; try again.")
LEFT_OUT = later("Combinations left out: {count}. {reason}")


@dataclass(frozen=True, slots=True)
class Explored:
    """A visitor's sweep: what was asked for and how far it got. over: nothing more will come."""

    entry: SweepEntry
    sweep: Sweep
    over: bool = False

    @property
    def cells(self) -> tuple[Cell, ...]:
        return self.sweep.so_far()


class Frame(NamedTuple):
    """Values of the tab's widgets, in the order of `ExploreParts.frame`."""

    progress: Any
    explored: Any
    speed: Any
    front: Any
    table: Any
    best: Any
    notice: Any


UNCHANGED = Frame(*[gr.skip()] * len(Frame._fields))


@dataclass(frozen=True, slots=True)
class Explorer:
    """The handlers of the Explore tab, with what they all need."""

    host: Host
    limits: Limits
    presets: Sequence[Preset]
    clock: Callable[[], float] = time.monotonic
    shelf: Shelf = field(default_factory=lambda: Shelf(KEPT_FILES))

    def sweep(self, **values: Any) -> Iterator[Frame]:
        """Run a sweep and stream it. Closing the generator stops it at the next round."""
        entry, refusal = self._read(values)
        if entry is None:
            yield UNCHANGED._replace(notice=notice(refusal, "refused"))
            return
        yield from self._run(entry, measure_of(values.get("measure")))

    def runs(self, **values: Any) -> bool:
        """Whether `sweep` of the same values would need the device."""
        return self._read(values)[0] is not None

    def _read(self, values: Mapping[str, Any]) -> tuple[SweepEntry | None, str]:
        """The sweep that is asked for, or why it cannot be."""
        read = functools.partial(read_sweep, values, self.limits, self.presets)
        return planned(read, self.host, values.get("pair"))

    def _run(self, entry: SweepEntry, measure: str) -> Iterator[Frame]:
        reel = Reel(entry, measure, self.clock, self.limits.sweep_seconds)
        try:
            with closing(
                self.host.sweep(entry.prompts, entry.grid, entry.repeats, entry.pair)
            ) as states:
                yield from frames(reel, states)
        except (RunRefusedError, SettingsError) as error:
            reel.cut(known(str(error)))
        except Exception as error:
            LOG.exception("a sweep failed")
            reel.cut(say(memory_sentence(error) or BROKE))
        yield reel.last()

    def settle(
        self, explored: Explored | None, measure: Any, folder: str | Path, said: Any = None
    ) -> list[Any]:
        """After a sweep has ended in any way: its files; where Stop cut it off, its last frame.

        said: the notice on the page.
        """
        if left := left_line(said):
            return [*UNCHANGED._replace(notice=left), *[gr.skip()] * FILES]
        if explored is None:
            return [*UNCHANGED, *[gr.skip()] * FILES]
        files = file_values(explored.sweep, explored.entry.prompts, self.shelf, folder)
        if explored.over:
            return [*UNCHANGED._replace(progress=progress()), *files]
        told = say(STOPPED, **counts(explored.sweep))
        frame = drawn(replace(explored, over=True), measure_of(measure), notice(told, "done"))
        return [*frame, *files]

    def front(self, explored: Explored | None, measure: Any) -> list[Any]:
        """Front and table for another measure of fidelity."""
        if explored is None or not any(cell.rounds for cell in explored.cells):
            return [gr.skip(), gr.skip()]
        _, front, table = result_values(explored.cells, measure_of(measure))
        return [front, table]


class Reel:
    """A sweep being watched: how far it is, and when bar and results are due."""

    def __init__(self, entry: SweepEntry, measure: str, clock: Callable[[], float], limit: float):
        self._limit = limit
        self._entry = entry
        self._measure = measure
        self._clock = clock
        self._begun: float | None = None
        self._shown = self._drawn = float("-inf")
        self._state: Sweep | None = None
        self._ending = ""

    def take(self, state: Sweep) -> None:
        if self._begun is None:  # the device is ours from here on
            self._begun = self._clock()
        self._state = state

    @property
    def seconds(self) -> float:
        return self._clock() - (self._begun or 0.0)

    @property
    def late(self) -> bool:
        return self.seconds > self._limit

    @property
    def due(self) -> bool:
        return self._clock() - self._shown >= FRAME_SECONDS

    def cut(self, sentence: str) -> None:
        """Nothing more will come; the notice says why."""
        self._ending = sentence

    def expire(self) -> None:
        """Its time is over."""
        self.cut(say(TIME_LIMIT, seconds=self._limit, **counts(self._state)))

    def frame(self) -> Frame:
        """The bar, and the results where they are due."""
        self._shown = self._clock()
        explored = Explored(self._entry, self._state)
        told = paragraph([say(SWEEPING), left_out(self._entry)])
        bar = {"progress": progress(self._state, self.seconds), "notice": notice(told)}
        if self._shown - self._drawn < RESULT_SECONDS:
            return UNCHANGED._replace(explored=explored, **bar)
        self._drawn = self._shown
        return drawn(explored, self._measure, "")._replace(**bar)

    def last(self) -> Frame:
        """The final frame; what was on the page stays when the sweep never began."""
        if self._state is None:
            return UNCHANGED._replace(notice=notice(self._ending or say(BROKE), "refused"))
        explored = Explored(self._entry, self._state, over=True)
        told = self._ending or say(SWEPT, cells=len(self._entry.grid), races=self._state.races)
        told = paragraph([told, left_out(self._entry)])
        return drawn(explored, self._measure, notice(told, "refused" if self._ending else "done"))


def drawn(explored: Explored, measure: str, said: str) -> Frame:
    """Everything a sweep shows, its bar gone."""
    cells = explored.cells
    return Frame(progress(), explored, *result_values(cells, measure), best_html(cells), said)


def counts(state: Sweep) -> dict[str, int]:
    return {"done": state.races_done, "races": state.races}


def left_out(entry: SweepEntry) -> str:
    """That some combinations contradict themselves, and the first one's reason."""
    if not entry.left_out:
        return ""
    return say(LEFT_OUT, count=len(entry.left_out), reason=entry.left_out[0])
