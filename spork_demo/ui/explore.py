"""The tab "Explore": one or two knobs swept over prompts, what they gain and what they cost."""

from typing import Any

import gradio as gr

from spork_demo.cells import best_exact
from spork_demo.language import later, say
from spork_demo.ui.entry import SHARED_FIELDS
from spork_demo.ui.events import LIGHT, RUNS
from spork_demo.ui.examples import EXAMPLES
from spork_demo.ui.explore_handlers import Explored, Explorer
from spork_demo.ui.explore_parts import ExploreParts, build_parts, prompts_text
from spork_demo.ui.explore_picks import pick_values, usual_values
from spork_demo.ui.inside import picked
from spork_demo.ui.lane_picker import serving
from spork_demo.ui.notices import notice
from spork_demo.ui.site import Site
from spork_demo.ui.sweep_loading import lane_values, loaded_sentence, prompt_value, shared_values
from spork_demo.ui.turns import in_notice, taking_turns

TITLE = later("Explore")
LOADED_LANE = 1
"""The lane a picked cell becomes, by its place: the first one is greedy unless somebody chose."""

NOTHING_TO_LOAD = later("There is no such cell: run a sweep first.")


def build_explore(site: Site) -> None:
    """Lay the tab out and connect it to the race tab."""
    desk = site.desk
    explorer = Explorer(desk.host, desk.limits, desk.presets, shelf=desk.shelf)
    parts = build_parts(desk.limits, desk.presets, serving(desk.host.pairs()))
    _wire_picks(site, parts)
    _wire_prompts(site, parts)
    _wire_sweep(site, parts, explorer)
    _wire_loading(site, parts)


def _wire_picks(site: Site, parts: ExploreParts) -> None:
    """Menus follow the method, the rules, the model pair and one another."""
    presets, host, pair = site.desk.presets, site.desk.host, site.race_tab.controls.pair

    def chosen(name: Any, *picks: Any) -> list[Any]:
        return pick_values(presets, serving(host.pairs(), name), *picks)

    def waited(name: Any, *picks: Any) -> list[Any]:
        status = host.status()
        if not (status.ready or status.failed):
            return [gr.skip()] * (1 + len(parts.follow))
        return [gr.Timer(active=False), *chosen(name, *picks)]

    asked = [pair, *parts.picks]
    for name, widget in (("method", parts.method), ("rules", parts.rules)):
        widget.input(chosen, asked, parts.follow, api_name=f"explore_{name}", **LIGHT)
    pair.change(chosen, asked, parts.follow, api_name="explore_pair", **LIGHT)
    parts.timer.tick(waited, asked, [parts.timer, *parts.follow], api_name="explore_wait", **LIGHT)

    def values(name: Any, method: Any, rules: Any) -> Any:
        return usual_values(presets, method, rules, name)

    for place, (menu, box) in enumerate(
        ((parts.knob1, parts.values1), (parts.knob2, parts.values2)), 1
    ):
        menu.input(
            values,
            [menu, parts.method, parts.rules],
            box,
            api_name=f"explore_knob{place}",
            **LIGHT,
        )


def _wire_prompts(site: Site, parts: ExploreParts) -> None:
    limit = site.desk.limits.sweep_prompts
    parts.from_race.click(
        lambda prompt: prompts_text([prompt]),
        site.race_tab.controls.prompt,
        parts.prompts,
        api_name="explore_race_prompt",
        **LIGHT,
    )
    parts.from_examples.click(
        lambda: prompts_text([example.prompt for example in EXAMPLES][:limit]),
        None,
        parts.prompts,
        api_name="explore_examples",
        **LIGHT,
    )


def _wire_sweep(site: Site, parts: ExploreParts, explorer: Explorer) -> None:
    controls = site.race_tab.controls
    run = parts.run.click(
        taking_turns(
            site.desk.line, "sweeps", explorer.sweep, in_notice(len(parts.frame), -1), explorer.runs
        ),
        outputs=parts.frame,
        inputs_kwargs={**controls.shared, "pair": controls.pair, **parts.inputs},
        **RUNS,
        show_progress="hidden",
        api_visibility="private",
        api_name="explore_sweep",
    )
    parts.stop.click(None, cancels=[run], api_name="stop_sweep", **LIGHT)

    def settled(explored: Explored | None, measure: Any, said: Any) -> list[Any]:
        return explorer.settle(explored, measure, parts.csv.GRADIO_CACHE, said)

    # The browser fires this once a sweep has ended, also by Stop, and only after the cancel.
    run.then(
        settled,
        [parts.explored, parts.measure, parts.notice],
        [*parts.frame, *parts.files],
        api_name="settle_sweep",
        **LIGHT,
    )
    parts.measure.input(
        explorer.front,
        [parts.explored, parts.measure],
        [parts.front, parts.table],
        api_name="explore_measure",
        **LIGHT,
    )


def _wire_loading(site: Site, parts: ExploreParts) -> None:
    """A picked cell opens the race tab with its settings in the second lane."""
    tab, desk = site.race_tab, site.desk
    lane = tab.controls.lanes[LOADED_LANE]
    shared = [tab.controls.shared[name] for name in SHARED_FIELDS]
    outputs = [site.tabs, parts.notice, tab.notice, tab.controls.prompt, tab.controls.pair]
    outputs += [lane.method, lane.asked, lane.own, *lane.choices, *shared]

    def loaded(explored: Explored | None, index: int) -> list[Any]:
        cells = explored.cells if explored else ()
        if not 0 <= index < len(cells):
            refused = notice(say(NOTHING_TO_LOAD), "refused")
            return [gr.skip(), refused, *[gr.skip()] * (len(outputs) - 2)]
        entry, cell = explored.entry, cells[index]
        pairs = serving(desk.host.pairs(), entry.pair)
        return [
            gr.Tabs(selected="race"),
            gr.skip(),
            notice(loaded_sentence(cell), "done"),
            prompt_value(entry),
            entry.pair or gr.skip(),
            *lane_values(entry, cell, desk.presets, pairs),
            *shared_values(cell),
        ]

    def load_picked(explored: Explored | None, event: gr.EventData) -> list[Any]:
        return loaded(explored, picked(event))

    def load_best(explored: Explored | None) -> list[Any]:
        cells = explored.cells if explored else ()
        best = best_exact(cells)
        return loaded(explored, cells.index(best) if best is not None else -1)

    for name, event in (
        ("speed", parts.speed.node_click),
        ("front", parts.front.node_click),
        ("table", parts.table.row_click),
    ):
        event(load_picked, parts.explored, outputs, api_name=f"load_cell_{name}", **LIGHT)
    parts.load.click(load_best, parts.explored, outputs, api_name="load_best", **LIGHT)
