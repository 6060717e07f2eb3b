"""While the model loads: what the page says, and what changes once it is there."""

from collections.abc import Sequence
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


def host_news(host: Host, presets: Sequence[Preset], *picks: Any) -> list[Any]:
    """Status strip, timer, model pairs, verifier layers and the choices of every lane.

    picks: method, rules asked for and preset, lane after lane. The timer stops when nothing
    changes any more.
    """
    status = host.status()
    if not (status.ready or status.failed):
        waiting = [gr.skip()] * (3 + len(picks))
        return [status_strip(status), *waiting]
    pairs = host.pairs()
    names = [pair.name for pair in pairs]
    menu = gr.update(choices=names, value=names[0] if names else None, visible=len(names) > 1)
    first = serving(pairs)
    return [
        status_strip(status, _learned(first)),
        gr.Timer(active=False),
        menu,
        _layers(first),
        *_lanes(presets, first, picks),
    ]


def pair_news(host: Host, presets: Sequence[Preset], name: Any, *picks: Any) -> list[Any]:
    """Status strip, verifier layers and the choices of every lane for another pair."""
    pair = serving(host.pairs(), name)
    strip = status_strip(host.status(), _learned(pair))
    return [strip, _layers(pair), *_lanes(presets, pair, picks)]


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


def _layers(pairs: Sequence[PairInfo]) -> Any:
    if not pairs or not pairs[0].layers:  # not loaded yet
        return gr.skip()
    pair = pairs[0]
    value = min(LAYERS.default, pair.layers)
    info = say(
        "{meaning}; {name} has {layers}",
        meaning=say(LAYERS.meaning),
        name=pair.name,
        layers=pair.layers,
    )
    return gr.update(value=value, maximum=pair.layers, info=info)
