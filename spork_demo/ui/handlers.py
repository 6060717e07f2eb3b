"""What happens on Run, Stop, upload and choosing a recording: values in, values out, no widgets.

A `Desk` holds only what all visitors share and never changes; a visitor's race lives in gr.State.
"""

import functools
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import gradio as gr

from spork_demo import trace_file
from spork_demo.host import Host, RunRefusedError
from spork_demo.language import current, known, say
from spork_demo.line import Line
from spork_demo.race import memory_sentence
from spork_demo.settings import SettingsError
from spork_demo.spacefile import Limits, Preset
from spork_demo.trace import Finished, LaneEvent, Race, StopReason, advance
from spork_demo.trace_file import TraceError
from spork_demo.ui import words
from spork_demo.ui.entry import Entry, read_entry
from spork_demo.ui.notices import notice
from spork_demo.ui.pace import frames
from spork_demo.ui.planned import planned
from spork_demo.ui.reliability_view import race_reliability
from spork_demo.ui.shelf import KEPT_FILES, Shelf
from spork_demo.ui.token_view import event_line, head_line, race_lines, summary_line
from spork_demo.ui.turns import left_line

LOG = logging.getLogger(__name__)

FRAME_SECONDS = 1 / 10
"""Shortest time between two updates of the page."""

SUMMARY_SECONDS = 1.0
"""Shortest time between two result strips while a race runs."""

CHART_SECONDS = 2.0
"""Shortest time between two reliability diagrams while a race runs."""

NO_RECORDING = -1
"""The menu entry that shows no recording."""

Frame = tuple[Any, Any, Any]
"""Race view, race state, notice."""


@dataclass(frozen=True, slots=True)
class Desk:
    """The handlers of the race tab, with what they all need."""

    host: Host
    limits: Limits
    presets: Sequence[Preset]
    recorded: Sequence[Race]
    clock: Callable[[], float] = time.monotonic
    line: Line = field(default_factory=Line)
    shelf: Shelf = field(default_factory=lambda: Shelf(KEPT_FILES))
    drawn: dict[tuple[Any, ...], Any] = field(default_factory=dict)
    frame_seconds: float = FRAME_SECONDS

    def race(self, **values: Any) -> Iterator[Frame]:
        """Run all lanes on one prompt and stream them. Closing the generator stops the run.

        Yields the race view (one JSON event a line), the race so far, and a sentence.
        """
        entry, refusal = self._read(values)
        if entry is None:
            yield gr.skip(), gr.skip(), notice(refusal, "refused")
            return
        yield from self._run(entry)

    def runs(self, **values: Any) -> bool:
        """Whether `race` of the same values would need the device."""
        return self._read(values)[0] is not None

    def _read(self, values: Mapping[str, Any]) -> tuple[Entry | None, str]:
        """The run that is asked for, or why it cannot be."""
        read = functools.partial(read_entry, values, self.limits, self.presets)
        return planned(read, self.host, values.get("pair"))

    def live(self, **values: Any) -> Iterator[tuple[Any, ...]]:
        """`race` with the reliability diagram so far beside each frame.

        Drawn here, between two rounds: beside a round it would slow the lane that is timed.
        """
        drawn = self.clock() - CHART_SECONDS
        with closing(self.race(**values)) as frames:
            for frame in frames:
                due = isinstance(frame[1], Race) and self.clock() - drawn >= CHART_SECONDS
                chart = gr.skip()
                if due:
                    drawn, chart = self.clock(), race_reliability(frame[1])
                yield (*frame, chart)

    def _run(self, entry: Entry) -> Iterator[Frame]:
        film = Film(self.clock, self.limits.seconds_per_run, self.frame_seconds)
        try:
            with closing(
                self.host.race(entry.prompt, entry.lanes, entry.labels, entry.pair)
            ) as news:
                yield from frames(film, news)
        except (RunRefusedError, SettingsError) as error:
            film.cut("stopped", known(str(error)))
        except Exception as error:
            LOG.exception("a race failed")
            film.cut("failed", say(memory_sentence(error) or words.RUN_FAILED))
        yield film.last()

    def settle(
        self, race: Race | None, picked: Any = NO_RECORDING, file: str | None = None,
        said: Any = None,
    ) -> Frame:  # fmt: skip
        """After a run has ended in any way: where Stop cut it off, close its open lanes.

        picked, file: the recording or the file that was opened and so ended the run; a last frame
        of the run may have come after it, so it is shown once more. said: the notice on the page.
        """
        if picked != NO_RECORDING:
            return self.recording(picked)
        opened = self.upload(file) if file else None
        if opened and isinstance(opened[1], Race):
            return opened
        if left := left_line(said):
            return gr.skip(), gr.skip(), left
        if race is None or race.recorded or not unfinished(race):
            return gr.skip(), gr.skip(), gr.skip()
        race, _ = halted(race, "stopped")
        return race_lines(race), race, opened[2] if opened else notice(say(words.STOPPED))

    def upload(self, path: str | None) -> Frame:
        """Replace the race by one from a file; a bad file leaves everything as it was."""
        limit = self.limits.upload_mb
        try:
            file = Path(path or "")
            if file.stat().st_size > limit * 1_000_000:
                return _kept(say(words.UPLOAD_TOO_LARGE, limit=limit))
            race = replace(trace_file.loads(file.read_bytes()), recorded=True)
        except TraceError as error:
            return _kept(str(error))
        except OSError:
            return gr.skip(), gr.skip(), notice(say(words.UPLOAD_UNREADABLE), "refused")
        text = say(words.UPLOADED, title=shown_title(race))
        return race_lines(race), race, notice(text, "done")

    def recording(self, place: Any) -> Frame:
        """Show one of the recorded races the page came with."""
        if place == NO_RECORDING:
            return gr.skip(), gr.skip(), gr.skip()
        whole = isinstance(place, int) and not isinstance(place, bool)
        if not whole or not 0 <= place < len(self.recorded):
            return gr.skip(), gr.skip(), notice(say(words.UNKNOWN_RECORDING), "refused")
        race = self.recorded[place]
        return race_lines(race), race, notice(say(words.OPENING))

    def place(self, race: Race | None) -> int:
        """Where `race` stands among the recordings."""
        places = (place for place, recorded in enumerate(self.recorded) if recorded == race)
        return next(places, NO_RECORDING)

    def once(self, race: Race | None, make: Callable[[Race | None], Any]) -> Any:
        """`make(race)`, made once for a recording and a language: neither ever changes."""
        place = self.place(race)
        if place == NO_RECORDING:
            return make(race)
        key = (make.__qualname__, place, current())
        if key not in self.drawn:
            self.drawn[key] = make(race)
        return self.drawn[key]


class Film:
    """A race being watched: the race so far, its lines, and when the next frame is due."""

    def __init__(self, clock: Callable[[], float], seconds: float, every: float):
        self.seconds = seconds
        self._every = every
        self._clock = clock
        self._begun = self._summed = clock()
        self._shown = -every + self._begun
        self._race: Race | None = None
        self._lines = ""
        self._ending = self._again = self._said = ""

    @property
    def due(self) -> bool:
        return self._clock() - self._shown >= self._every

    @property
    def late(self) -> bool:
        return self._clock() - self._begun > self.seconds

    def take(self, item: Race | LaneEvent) -> None:
        """Add the empty race, which comes first, or an event of one of its lanes."""
        if isinstance(item, Race):
            self._again = say(words.AGAIN) if self._race is not None else ""
            self._race = item
            self._lines = head_line(item)
        elif self._race is not None:
            self._race = advance(self._race, item)
            self._lines += event_line(item)

    def cut(self, reason: StopReason, sentence: str) -> None:
        """End every open lane; the notice will say why."""
        self._ending = sentence
        if self._race is not None:
            self._race, lines = halted(self._race, reason)
            self._lines += lines

    def expire(self) -> None:
        """Its time is over."""
        self.cut("stopped", say(words.TIME_LIMIT, seconds=self.seconds))

    def frame(self) -> Frame:
        self._shown = self._clock()
        if self._race is not None and self._shown - self._summed >= SUMMARY_SECONDS:
            self._summed = self._shown
            self._lines += summary_line(self._race)
        return self._lines, self._race, self._news(self._again or say(words.RUNNING))

    def _news(self, said: str) -> Any:
        """The notice of a race that goes on, when it is new: the browser takes up each one anew."""
        known_already, self._said = said == self._said, said
        return gr.skip() if known_already else notice(said)

    def last(self) -> Frame:
        """The final frame; what was on the page stays when the run never began."""
        if self._race is None:
            return gr.skip(), gr.skip(), notice(self._ending or say(words.RUN_FAILED), "refused")
        self._lines += summary_line(self._race)
        if self._ending:
            return self._lines, self._race, notice(self._ending, "refused")
        told = " ".join(filter(None, (self._again, say(words.FINISHED))))
        return self._lines, self._race, notice(told, "done")


def shown_title(race: Race) -> str:
    """What a race is called on the page: its title, or how its prompt begins."""
    return known(race.title) or race.lanes[0].prompt[:60]


def unfinished(race: Race) -> bool:
    """Whether some lane has no end yet."""
    return any(lane.stop_reason is None for lane in race.lanes)


def halted(race: Race, reason: StopReason) -> tuple[Race, str]:
    """The race with every open lane ended for `reason`, and the lines that say so."""
    lines = ""
    for place, lane in enumerate(race.lanes):
        if lane.stop_reason is None:
            news = LaneEvent(place, Finished(reason))
            race = advance(race, news)
            lines += event_line(news)
    return race, lines


def _kept(reason: str) -> Frame:
    text = say(words.UPLOAD_KEPT, reason=reason)
    return gr.skip(), gr.skip(), notice(text, "refused")
