"""From the lesson to the rest of the page: a recorded round or race, or a setting."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gradio as gr

from spork_demo.language import later, say
from spork_demo.lesson.examples import Place
from spork_demo.ui import controls, words
from spork_demo.ui.events import LIGHT
from spork_demo.ui.learn_tables import TROUBLES, trouble_table
from spork_demo.ui.results import chart_values, race_bytes, race_file
from spork_demo.ui.site import Site

SCRIPT = Path(__file__).resolve().parents[2] / "assets" / "learn_tables.js"
STOP_FIRST = "() => { document.querySelector('button#stop, #stop button')?.click(); }"
"""A run would write over what is opened during it; pressing Stop where none runs does nothing."""

ELSEWHERE = {
    "lanes": (later("the lanes"), "lanes", ("lanes",)),
    "pair": (later("the model pair"), "pair", ("lanes",)),
    "prompt": (later("the prompt"), "prompt", ()),
}
"""What is no knob: its name, its place on the page, and the accordions around it."""


def link_to_race(button: gr.Button, site: Site, place: Place, tab: str = "race") -> None:
    """A press opens the recorded race of `place`, and inside it the round where `tab` says so."""
    race = site.desk.recorded[place.race]
    parts = site.race_tab
    outputs = [
        site.tabs, parts.recordings, parts.view, site.race, parts.notice, *parts.charts,
        parts.download, *site.inside.outputs,
    ]  # fmt: skip

    def opened() -> list[Any]:
        lines, current, notice = site.desk.recording(place.race)
        return [
            gr.Tabs(selected=tab),
            place.race,
            lines,
            current,
            notice,
            *chart_values(race),
            race_file(race_bytes(race), site.desk.shelf, parts.download.GRADIO_CACHE),
            *site.inside.show(race, place.lane, place.round),
        ]

    stopped = button.click(None, js=STOP_FIRST, **LIGHT)
    stopped.then(opened, outputs=outputs, api_name=f"lesson_{button.elem_id}", **LIGHT)


def trouble_view(site: Site) -> gr.HTML:
    """The troubleshooting table, whose buttons open the race tab at a setting."""
    view = gr.HTML(
        trouble_table(setting_names()),
        js_on_load=SCRIPT.read_text(encoding="utf-8"),
        places=json.dumps(setting_places()),
        apply_default_css=False,
        elem_id="learn-trouble",
    )
    view.open_setting(
        lambda: gr.Tabs(selected="race"), None, site.tabs, api_name="open_setting", **LIGHT
    )
    return view


def setting_names() -> dict[str, str]:
    """What each setting of the table is called on the race page."""
    return {
        name: say(ELSEWHERE[name][0])
        if name in ELSEWHERE
        else say((words.KNOB_LABELS | words.CHOICE_LABELS)[name])
        for name in _named()
    }


def setting_places() -> Mapping[str, dict[str, Any]]:
    """The element of each setting and the accordions it stands in, the outer one first."""
    places = {}
    for name in _named():
        if name in ELSEWHERE:
            _, element, within = ELSEWHERE[name]
        else:
            element, within = f"knob-{name}", ("knobs", *_group(name))
        places[name] = {"id": element, "within": list(within)}
    return places


def _group(name: str) -> tuple[str, ...]:
    return tuple(f"knobs-{group}" for group, names in controls.GROUPS.items() if name in names)


def _named() -> list[str]:
    return sorted({knob for trouble in TROUBLES for knob in trouble.knobs})
