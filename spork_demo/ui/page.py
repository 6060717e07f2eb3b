"""Puts the page together, once for each language, on one server.

The English page is at the root, any other at the path of its language. To add a tab, write a
builder that takes a `Site` and name it in `TABS`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import gradio as gr
from starlette.middleware import Middleware

from spork_demo import language
from spork_demo.charts import palette
from spork_demo.compression import compression
from spork_demo.gate import Gate
from spork_demo.host import Host
from spork_demo.language import LANGUAGES, later, say, speaking
from spork_demo.line import Line
from spork_demo.spacefile import Limits, Preset
from spork_demo.trace import Race
from spork_demo.ui import calibrate, explore, parts, plotly_view, round_text, words
from spork_demo.ui.api import build_api
from spork_demo.ui.events import LIGHT, speak_here
from spork_demo.ui.guard import guard
from spork_demo.ui.handlers import FRAME_SECONDS, Desk
from spork_demo.ui.inside import build_inside
from spork_demo.ui.language_switch import language_script, language_switch
from spork_demo.ui.learn import STYLE as LEARN_STYLE
from spork_demo.ui.learn import build_learn
from spork_demo.ui.race_tab import RaceTab, build_race_tab, wire_open_round, wire_race
from spork_demo.ui.race_view import STYLE, script_tag
from spork_demo.ui.sessions import Lifespan, own_sessions
from spork_demo.ui.sharing import Restored, build_share, wire_share
from spork_demo.ui.shelf import Shelf
from spork_demo.ui.site import Site
from spork_demo.ui.stage import build_stage, stage_head, wire_stage
from spork_demo.ui.theme import calm_style, theme
from spork_demo.ui.waiting import host_news, lane_outputs, lane_picks, opening_strip, pair_news

CACHE_SWEEP_SECONDS = 3600
CACHE_AGE_SECONDS = 6 * 3600
THREADS = 40
"""Threads for light events."""


TABS: tuple[tuple[str, str, Callable[[Site], None]], ...] = (
    (explore.TITLE, "explore", explore.build_explore),
    (calibrate.TITLE, "calibrate", calibrate.build_calibrate),
    (later("Learn"), "learn", build_learn),
)
"""Title (marked with `later`), id and builder of every tab after Inside a round, in their order."""


def build_page(
    host: Host,
    limits: Limits,
    presets: Sequence[Preset],
    recorded: Sequence[Race],
    line: Line | None = None,
    frame_seconds: float = FRAME_SECONDS,
) -> gr.Blocks:
    """The whole page. It opens on `recorded[0]`, complete, and runs live once `host` is ready.

    line: where runs wait for the device; one of its own where none is given. frame_seconds: the
    shortest time between two updates of a live race.
    """
    line, shelf = line or Line(limits.queues), Shelf(limits.visitors)
    desk = Desk(
        host, limits, presets, recorded, line=line, shelf=shelf, frame_seconds=frame_seconds
    )
    page = gr.Blocks(
        title=say(words.TITLE),
        fill_width=True,
        analytics_enabled=False,
        delete_cache=(CACHE_SWEEP_SECONDS, CACHE_AGE_SECONDS),
    )
    for code, name in LANGUAGES.items():
        route = page if code == language.ENGLISH else page.route(name, code, show_in_navbar=False)
        with route, speaking(code):
            _fill(page, desk)
            if code == language.ENGLISH:
                build_api(desk)
            speak_here(page)
    guard(page)
    return page


def _fill(page: gr.Blocks, desk: Desk) -> None:
    """Everything on the page, in the current language."""
    gr.Navbar(visible=False)
    race = gr.State(desk.recorded[0] if desk.recorded else None)
    with gr.Row(elem_id="top"):
        gr.Markdown(f"# {say(words.HEADING)}\n\n{say(words.INTRO)}", elem_id="heading")
        with gr.Column(elem_id="host"):
            with gr.Row(elem_id="links"):
                language_switch()
                share, stage = build_share(), build_stage()
            strip = gr.HTML(opening_strip(desk.host), elem_id="host-status")
    timer = gr.Timer(1.0, active=False)  # `host_news` starts it
    with gr.Tabs(selected="race", overflow_behavior="wrap", elem_id="tabs") as tabs:
        with gr.Tab(say(words.TAB_RACE), id="race"):
            tab = build_race_tab(desk)
        with gr.Tab(say(words.TAB_INSIDE), id="inside"):
            inside = build_inside(race)
        for title, name, build in TABS:
            with gr.Tab(say(title), id=name):
                build(Site(page, desk, race, tabs, tab, inside))
    results = wire_race(page, desk, tab, race, inside)
    names = ("race", "inside", *(name for _, name, _ in TABS))
    restored = wire_share(page, desk, tab, race, tabs, inside, share, results, names)
    _wire_waiting(desk, tab, strip, timer, restored)
    wire_stage(stage, race, restored)
    wire_open_round(tab, race, tabs, inside)


def launch_options(limits: Limits, lifespan: Lifespan | None = None) -> dict[str, Any]:
    """Keyword arguments of launch() this page needs. lifespan: of what else the server serves."""
    return {
        "theme": theme(),
        "css": f"{palette.css_variables()}\n{round_text.STYLE}",
        "css_paths": [STYLE, LEARN_STYLE, plotly_view.STYLE],
        "head": "".join(
            (
                language_script(),
                parts.script_tag(),
                plotly_view.head(),
                script_tag(),
                round_text.script_tag(),
                stage_head(),
                calm_style(),
            )
        ),
        "footer_links": ["api", "settings"],
        "ssr_mode": False,
        "run_history": False,
        "enable_monitoring": False,
        "show_error": False,
        "max_file_size": f"{limits.upload_mb}mb",
        "app_kwargs": {
            "lifespan": own_sessions(lifespan),
            "middleware": [Middleware(Gate, limits.upload_mb * 1_000_000), compression()],
        },
        "state_session_capacity": limits.visitors,
        "max_threads": THREADS + sum(limits.queues.values()),  # whoever waits has a job of them
    }


def queue_options(limits: Limits) -> dict[str, Any]:
    """Keyword arguments of queue(). It lets everybody in: who waits for the device, and how many
    may, is up to `Line`. No request may go past it.
    """
    most = limits.visitors + sum(limits.queues.values())
    return {"max_size": most, "default_concurrency_limit": None, "api_open": False}


def _wire_waiting(
    desk: Desk, tab: RaceTab, strip: gr.HTML, timer: gr.Timer, restored: Restored
) -> None:
    """What the host has to tell comes once the page is as a link asked, and then every second."""
    controls = tab.controls
    layers = controls.shared["verifier_layers"]
    picks, choices = lane_picks(controls.lanes), lane_outputs(controls.lanes)

    def news(*told: Any) -> list[Any]:
        return host_news(desk.host, desk.presets, *told)

    inputs = [restored.wanted, layers, *picks]
    outputs = [restored.wanted, strip, timer, controls.pair, layers, *choices]
    restored.filled.then(news, inputs, outputs, api_name="status_on_load", **LIGHT)
    timer.tick(news, inputs, outputs, api_name="status", **LIGHT)
    controls.pair.input(
        lambda *told: pair_news(desk.host, desk.presets, *told),
        [controls.pair, layers, *picks],
        [strip, layers, *choices],
        api_name="pair_news",
        **LIGHT,
    )
