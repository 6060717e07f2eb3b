"""While the model loads: what the page says, and what changes once it is there."""

from typing import Any

import gradio as gr

from spork_demo.host import Host, PairInfo
from spork_demo.settings import KNOBS
from spork_demo.ui.notices import status_strip

LAYERS = KNOBS["verifier_layers"]


def host_news(host: Host) -> list[Any]:
    """Status strip, timer, model pairs, verifier layers. The timer stops when nothing changes."""
    status = host.status()
    strip = status_strip(status)
    if not (status.ready or status.failed):
        return [strip, gr.skip(), gr.skip(), gr.skip()]
    pairs = host.pairs()
    names = [pair.name for pair in pairs]
    menu = gr.update(choices=names, value=names[0] if names else None, visible=len(names) > 1)
    return [strip, gr.Timer(active=False), menu, _layers(pairs[0]) if pairs else gr.skip()]


def pair_news(host: Host, name: Any) -> Any:
    """What the verifier layers say for another pair."""
    chosen = next((pair for pair in host.pairs() if pair.name == name), None)
    return _layers(chosen) if chosen else gr.skip()


def _layers(pair: PairInfo) -> Any:
    if not pair.layers:  # not loaded yet
        return gr.skip()
    value = min(LAYERS.default, pair.layers)
    return gr.update(
        value=value, maximum=pair.layers, info=f"{LAYERS.meaning}; {pair.name} has {pair.layers}"
    )
