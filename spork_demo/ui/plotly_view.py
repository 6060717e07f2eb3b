"""A Gradio component that draws a Plotly figure and tells Python which point was clicked.

gr.Plot has no click event, is rebuilt on every change and ignores dark pages. This one keeps its
node, follows the theme, and puts the chart in words beside it. The template is constant: what the
chart says arrives as JSON and is placed with textContent.
"""

import json
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import gradio as gr
import plotly.graph_objects as go

from spork_demo.charts.palette import DARK, PAGE
from spork_demo.language import later, say

ASSETS = Path(__file__).resolve().parents[2] / "assets"
SCRIPT = ASSETS / "plotly_view.js"
STYLE = ASSETS / "plotly_view.css"
LIBRARY = ASSETS / "vendor" / "plotly-cartesian.min.js"
"""A third of the script that plotly.py carries: the trace types of maps and 3-D are left out."""


@dataclass(frozen=True, slots=True)
class PickRow:
    """One line of the table under a chart. Pressing its first cell is clicking point `index`."""

    index: int
    cells: tuple[str, ...]
    colour: str = ""
    selected: bool = False


@dataclass(frozen=True, slots=True)
class PickTable:
    """The chart as a table: its text alternative and the keyboard's way to its points."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[PickRow, ...]


WORDS = {
    "save": later("Save picture"),
    "save_svg": later("Save as SVG"),
    "unloaded": later("The chart library could not be loaded, so this chart is given in words:"),
    "undrawn": later("This chart could not be drawn; in words:"),
    "chart": later("chart"),
}

TEMPLATE = """
<figure class="plotly-view" hidden>
  <div class="pv-head"><span class="pv-title"></span>
    <span class="pv-files"><button type="button" class="pv-save" hidden></button>
    <button type="button" class="pv-svg" hidden></button></span></div>
  <div class="pv-scroll"><div class="pv-chart" role="img"></div></div>
  <p class="pv-words" aria-hidden="true"></p>
  <figcaption class="pv-caption"></figcaption>
  <div class="pv-table" hidden></div>
</figure>
"""

ON_LOAD = """
const start = () => window.sporkPlotly.mount(
  element, props, watch, (name, data) => trigger('node_click', data));
if (window.sporkPlotly) start();
else {
  const waiting = setInterval(() => {
    if (!window.sporkPlotly) return;
    clearInterval(waiting);
    start();
  }, 50);
}
"""


def plotly_view(value: str | None = None, **options: Any) -> gr.HTML:
    """A component that draws what `payload` returns; the page must have `head()` and
    the sheet STYLE in its launch.

    `view.node_click(handler)` passes gr.EventData with `.index`. A function and not a subclass of
    gr.HTML, because Gradio writes a stub file beside every subclass.
    """
    return gr.HTML(value, html_template=TEMPLATE, js_on_load=ON_LOAD, **options)


def payload(
    figure: go.Figure,
    alt: str,
    *,
    title: str = "",
    caption: str = "",
    table: PickTable | None = None,
    min_width: int = 0,
    max_height: int = 0,
) -> str:
    """The value of a plotly_view.

    alt: the chart in one or two sentences, for those who do not see it. title and caption are
    shown. min_width, max_height: pixels below and above which the chart scrolls.
    """
    value = {
        "figure": json.loads(figure.to_json()),
        "alt": alt,
        "title": title,
        "caption": caption,
        "table": asdict(table) if table else None,
        "min_width": min_width,
        "max_height": max_height,
        "dark": DARK,
        "page": PAGE.light,
        "words": {
            "save": say("Save picture"),
            "save_svg": say("Save as SVG"),
            "unloaded": say(
                "The chart library could not be loaded, so this chart is given in words:"
            ),
            "undrawn": say("This chart could not be drawn; in words:"),
            "chart": say("chart"),
            "gap": say(" "),
        },
    }
    # No "<" leaves here, so that nothing on the way to the page can take text for a tag.
    return json.dumps(value, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")


@cache
def head() -> str:
    """The script tag for launch(head=...). Lets Gradio serve plotly's one script file."""
    if LIBRARY.is_file():
        gr.set_static_paths([LIBRARY])
    address = LIBRARY.as_posix() if LIBRARY.is_file() else None
    script = SCRIPT.read_text(encoding="utf-8")
    return f"<script>window.sporkPlotlyFile = {json.dumps(address)};\n{script}</script>"
