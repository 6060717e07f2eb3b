"""While the model loads: what the page says, and what changes once it is there."""

from collections.abc import Mapping, Sequence
from typing import Any

import gradio as gr

from spork_demo.host import Host, PairInfo
from spork_demo.language import known, say
from spork_demo.settings import KNOBS
from spork_demo.spacefile import Preset
from spork_demo.ui.lane_picker import LaneWidgets, lane_choices, serving
from spork_demo.ui.notices import status_strip

LAYERS = KNOBS["verifier_layers"]
PICKS = 3
"""Values a lane's pickers send: see `LaneWidgets.picks`."""


def opening_strip(host: Host) -> str:
    """The status strip the page comes with."""
    return status_strip(host.status(), _learned(serving(host.pairs())))


def host_news(
    host: Host,
    presets: Sequence[Preset],
    wanted: Mapping[str, Any] | None,
    layers: Any,
    *picks: Any,
) -> list[Any]:
    """What is wanted still, status strip, timer, pairs, verifier layers, choices of every lane.

    wanted: pair and presets a link asks for, by name. layers: what the slider stands at. picks:
    method, rules asked for and preset, lane after lane. The timer runs until nothing changes any
    more, and only then is anything but the strip touched: an answer on its way for long would
    undo what a visitor chose meanwhile.
    """
    status = host.status()
    if not (status.ready or status.failed):
        waiting = [gr.skip()] * (2 + len(picks))
        return [gr.skip(), status_strip(status), gr.Timer(active=True), *waiting]
    wanted, pairs = wanted or {}, host.pairs()
    names = [pair.name for pair in pairs]
    pair = serving(pairs, wanted.get("pair"))
    chosen = pair[0].name if pair else None
    menu = gr.update(choices=names, value=chosen, visible=len(names) > 1)
    presets_wanted = {
        place: wanted[f"lane{place // PICKS + 1}_preset"]
        for place in range(PICKS - 1, len(picks), PICKS)
        if f"lane{place // PICKS + 1}_preset" in wanted
    }
    picked = [presets_wanted.get(place, pick) for place, pick in enumerate(picks)]
    strip = status_strip(status, _learned(pair))
    changed = [_layers(pair, layers), *_lanes(presets, pair, picked)]
    return [None, strip, gr.Timer(active=False), menu, *changed]


def pair_news(
    host: Host, presets: Sequence[Preset], name: Any, layers: Any, *picks: Any
) -> list[Any]:
    """Status strip, verifier layers and the choices of every lane for another pair."""
    pair = serving(host.pairs(), name)
    strip = status_strip(host.status(), _learned(pair))
    return [strip, _layers(pair, layers), *_lanes(presets, pair, picks)]


def lane_outputs(lanes: Sequence[LaneWidgets]) -> list[Any]:
    """What `host_news` and `pair_news` fill for the lanes."""
    return [widget for lane in lanes for widget in lane.choices]


def lane_picks(lanes: Sequence[LaneWidgets]) -> list[Any]:
    """What `host_news` and `pair_news` read of the lanes."""
    return [widget for lane in lanes for widget in lane.picks]


def _lanes(presets: Sequence[Preset], pair: Sequence[PairInfo], picks: Sequence[Any]) -> list[Any]:
    lanes = [picks[start : start + PICKS] for start in range(0, len(picks), PICKS)]
    return [update for lane in lanes for update in lane_choices(presets, pair, *lane)]


def _learned(pairs: Sequence[PairInfo]) -> str:
    return known(pairs[0].about) if pairs else ""


def _layers(pairs: Sequence[PairInfo], layers: Any) -> Any:
    """The slider for a pair: where it stands, or as far as the pair goes."""
    if not pairs or not pairs[0].layers:  # not loaded yet
        return gr.skip()
    pair = pairs[0]
    usable = isinstance(layers, int | float) and 1 <= layers <= pair.layers
    value = layers if usable else min(LAYERS.default, pair.layers)
    info = say(
        "{meaning}; {name} has {layers}",
        meaning=say(LAYERS.meaning),
        name=pair.name,
        layers=pair.layers,
    )
    return gr.update(value=value, maximum=pair.layers, info=info)
