"""The round player: lane, scrubber, clock, verdict, text and cost, drawn by assets/rounds.js.

The template is constant and nothing is interpolated into it; the value is what `reel` makes.
"""

from typing import Any

import gradio as gr

TEMPLATE = '<section class="rounds"></section>'
MOUNT = """
const start = () => window.sporkRounds
  ? window.sporkRounds.mountPlayer(
      { element, props, watch, settle: (data) => trigger('settled', data) })
  : setTimeout(start, 30);
start();
"""


def round_player(value: str | None = None, **options: Any) -> gr.HTML:
    """The component; its custom event `settled` carries the lane and round it came to rest on."""
    return gr.HTML(value, html_template=TEMPLATE, js_on_load=MOUNT, **options)
