"""Copy a link to the page as it stands, and open the page as such a link says."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr

from spork_demo.charts.figure import paragraph
from spork_demo.language import say
from spork_demo.trace import Race
from spork_demo.ui import words
from spork_demo.ui.controls import Controls
from spork_demo.ui.entry import SHARED_FIELDS
from spork_demo.ui.events import LIGHT
from spork_demo.ui.handlers import NO_RECORDING, Desk
from spork_demo.ui.inside import InsideParts
from spork_demo.ui.notices import notice
from spork_demo.ui.race_tab import RaceTab
from spork_demo.ui.share import Link, holds_prompt, read_query, write_query

SCRIPT = Path(__file__).resolve().parents[2] / "assets" / "share.js"
TEMPLATE = '<div class="share-link"></div>'
STYLE = """
.share-told { margin: 0 0 4px; font-size: 14px; color: var(--body-text-color); }
.share-field { width: 100%; font-size: 13px; padding: 4px 8px; border-radius: 6px;
  border: 1px solid var(--border-color-primary); background: var(--background-fill-primary);
  color: var(--body-text-color); }
"""
WHICH_TAB = """(...values) => {
  const open = document.querySelector('#tabs > .tab-wrapper [role=tab][aria-selected=true]');
  return [open?.dataset.tabId ?? '', ...values.slice(1)];
}"""
"""Only the browser knows which tab is open: its id is sent as the first value."""

NAMED = 4
"""How many bad parts of a link are named."""


@dataclass(frozen=True, slots=True)
class ShareParts:
    """The button, where the link appears, and the id of the open tab."""

    copy: gr.Button
    link: gr.HTML
    tab: gr.Textbox


def build_share() -> ShareParts:
    """The button and, below it once it is pressed, the link."""
    copy = gr.Button(say("Copy link"), size="sm", min_width=110, elem_id="copy-link")
    tab = gr.Textbox(visible=False)
    script = SCRIPT.read_text(encoding="utf-8")
    link = gr.HTML(
        html_template=TEMPLATE,
        css_template=STYLE,
        js_on_load=script,
        elem_id="share-link",
        padding=False,
    )
    return ShareParts(copy, link, tab)


def asked_inputs(controls: Controls) -> dict[str, Any]:
    """Like the inputs of a run, with the rules a lane asks for in place of those it can have."""
    inputs = controls.inputs()
    asked = {f"lane{n}_rules": lane.asked for n, lane in enumerate(controls.lanes, 1)}
    return {**inputs, **asked}


def link_value(
    desk: Desk, race: Race | None, tab: str, place: tuple[Any, Any], values: Mapping[str, Any]
) -> str:
    """The value of the link's component: a query and what is said about it."""
    first = next((pair.name for pair in desk.host.pairs()), "")
    values = {n: "" if v in (words.AUTOMATIC, first) else v for n, v in values.items()}
    recording = desk.place(race)
    shown: dict[str, Any] = {"tab": "" if tab == "race" else tab}
    if recording != NO_RECORDING:
        shown |= {"recording": recording + 1} if recording or tab != "race" else {}
        if tab == "inside" and all(isinstance(n, int | float) for n in place):
            shown |= {"lane": int(place[0]) + 1, "round": int(place[1])}
    query = write_query(values, desk.limits, shown)
    notes = []
    if values.get("prompt") and not holds_prompt(query):
        notes.append(say("The prompt is too long for a link, so the link holds the settings only."))
    if race is not None and recording == NO_RECORDING:
        notes.append(
            say("It holds the settings, not this run; the race file, to download, holds the run.")
        )
    told = {
        "copied": paragraph([say("Link copied."), *notes]),
        "select": paragraph([*notes, say("Copy the link from this field:")]),
        "link": say("Link to this page as it stands"),
    }
    pressed = time.monotonic_ns()  # the same link once more is still news
    value = {"query": query, "words": told, "pressed": pressed}
    return json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")


def problem_sentence(problems: Sequence[str]) -> str:
    """What of a link could not be restored; empty where all could."""
    if not problems:
        return ""
    named = ", ".join(repr(name[:40]) for name in problems[:NAMED])
    if len(problems) > NAMED:
        return say(
            "Of the link, {count} parts are not known here or have values that cannot be, {names} "
            "among them; the rest was restored.",
            count=len(problems),
            names=named,
        )
    return say(
        "Parts of the link are not known here or have values that cannot be ({names}); the rest "
        "was restored.",
        names=named,
    )


@dataclass(frozen=True, slots=True)
class Restorer:
    """Fills the page's widgets from a link; pair and presets wait until they are known."""

    desk: Desk
    tab: RaceTab
    tabs: tuple[str, ...]

    @property
    def outputs(self) -> list[Any]:
        controls, tab = self.tab.controls, self.tab
        lanes = [w for lane in controls.lanes for w in (lane.method, lane.own, lane.asked)]
        knobs = [controls.shared[name] for name in SHARED_FIELDS]
        shown = [tab.notice, tab.recordings, tab.view]
        return [*shown, controls.prompt, controls.count, *lanes, *knobs]

    def restore(self, link: Link) -> list[Any]:
        """Values of `outputs`, then the race to show."""
        race = self._race(link)
        place = self.desk.place(race) if race else gr.skip()
        view = self.desk.recording(place)[0] if race else gr.skip()
        said = problem_sentence([*link.problems, *self._unknown(link)])
        values = link.values
        parts = ("method", "own", "rules")
        lanes = [
            values.get(f"lane{n}_{part}", gr.skip())
            for n in range(1, len(self.tab.controls.lanes) + 1)
            for part in parts
        ]
        return [
            notice(said, "refused") if said else gr.skip(),
            place,
            view,
            values.get("prompt", gr.skip()),
            values.get("lanes", gr.skip()),
            *lanes,
            *(values.get(name, gr.skip()) for name in SHARED_FIELDS),
            race or gr.skip(),
        ]

    def _race(self, link: Link) -> Race | None:
        place = link.shown.get("recording", 0)
        return self.desk.recorded[place - 1] if 0 < place <= len(self.desk.recorded) else None

    def _unknown(self, link: Link) -> list[str]:
        """What only this page can tell is wrong."""
        unknown = []
        if "recording" in link.shown and self._race(link) is None:
            unknown.append("recording")
        if link.shown.get("tab", "race") not in self.tabs:
            unknown.append("tab")
        names = {preset.name for preset in self.desk.presets}
        presets = {n: v for n, v in link.values.items() if n.endswith("_preset")}
        return unknown + [name for name, value in presets.items() if value not in names]


def wanted_later(link: Link) -> dict[str, Any] | None:
    """What of a link must wait until the model pairs are known."""
    late = ("pair", *(f"lane{n}_preset" for n in range(1, 5)))
    return {name: link.values[name] for name in late if name in link.values} or None


@dataclass(frozen=True, slots=True)
class Restored:
    """What follows a page's opening.

    filled: the event after which its widgets are as a link asked, settled: and the right tab is
    open. wanted: what waits for the pairs. place: what was to be shown.
    """

    filled: Any
    settled: Any
    wanted: gr.State
    place: gr.State


def wire_share(
    page: gr.Blocks, desk: Desk, tab: RaceTab, race: gr.State, tabs: gr.Tabs, inside: InsideParts,
    share: ShareParts, results: tuple[Any, list[Any]], names: Sequence[str],
) -> Restored:  # fmt: skip
    """The button that copies a link, and what a link does to a page that opens.

    results: what fills the charts for a race, and what it fills. names: ids of the tabs in order.
    """
    inputs = asked_inputs(tab.controls)
    restorer = Restorer(desk, tab, tuple(names))
    wanted, place = gr.State(None), gr.State(None)

    def copied(name: Any, current: Race | None, at: tuple[int, int], *values: Any) -> str:
        open_tab = name if name in names else "race"
        told = dict(zip(inputs, values, strict=True))
        return link_value(desk, current, open_tab, (at[0], at[1] + 1), told)

    def restored(request: gr.Request) -> list[Any]:
        link = read_query(dict(request.query_params), desk.limits)
        if link.empty:
            return [gr.skip()] * (len(restorer.outputs) + 3)
        return [*restorer.restore(link), wanted_later(link), dict(link.shown)]

    def shown(current: Race | None, at: dict[str, Any] | None) -> list[Any]:
        fill, views = results
        if not at:
            return [gr.skip()] * (1 + len(views))
        name = at.get("tab", "race")
        filled = fill(current)
        if "round" in at:
            found = inside.show(current, at.get("lane", 1) - 1, at["round"] - 1)
            filled = [*filled[: -len(found)], *found]
        return [gr.Tabs(selected=name if name in names else "race"), *filled]

    share.copy.click(
        copied,
        [share.tab, race, inside.at, *inputs.values()],
        share.link,
        js=WHICH_TAB,
        api_name="copy_link",
        **LIGHT,
    )
    outputs = [*restorer.outputs, race, wanted, place]
    filled = page.load(restored, None, outputs, api_name="restore", **LIGHT)
    settled = filled.then(
        shown, [race, place], [tabs, *results[1]], api_name="restore_shown", **LIGHT
    )
    return Restored(filled, settled, wanted, place)
