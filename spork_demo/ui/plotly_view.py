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

STYLE = """
.plotly-view { margin: 0; min-width: 0; }
.plotly-view[hidden], .plotly-view [hidden] { display: none; }
.pv-head { display: flex; justify-content: space-between; align-items: baseline; gap: 12px; }
.pv-title { font-weight: 600; font-size: 16px; }
.pv-files { flex: none; }
.pv-save, .pv-svg { font-size: 12px; font-weight: 400; padding: 2px 8px; border-radius: 6px;
  background: transparent; border: 1px solid var(--border-color-primary); color: inherit; }
.pv-scroll { overflow: hidden; }
.pv-scroll[data-scrolls] { overflow: auto; }
.pv-caption { font-size: 14px; margin-top: 4px; line-height: 1.45; color: inherit; }
.pv-words, .pv-hidden { position: absolute; width: 1px; height: 1px; overflow: hidden;
  clip-path: inset(50%); white-space: nowrap; }
.plotly-view[data-state="words"] .pv-words { position: static; width: auto; height: auto;
  clip-path: none; white-space: normal; }
.pv-table { overflow: auto; max-height: 332px; margin-top: 10px; }
.pv-table table { border-collapse: collapse; border: 0; min-width: 100%; margin: 0;
  font-size: 13px; }
.pv-table tr, .pv-table th, .pv-table td { border: 0; }
.pv-table th, .pv-table td { text-align: left; padding: 2px 12px; white-space: nowrap;
  border-bottom: 1px solid var(--border-color-primary); font-variant-numeric: tabular-nums;
  color: inherit; }
.pv-table thead th { position: sticky; top: 0; background: var(--background-fill-primary);
  font-weight: 600; }
.pv-table tbody th { border-left: 5px solid var(--row, transparent); font-weight: 400; }
.pv-table tr[data-selected] { background: var(--background-fill-secondary); }
.pv-table button { font-family: var(--font-mono); font-size: 13px; font-weight: 400;
  padding: 1px 6px; border-radius: 4px; border: 1px solid var(--border-color-primary);
  background: transparent; color: inherit; cursor: pointer; }
.pv-table button:hover, .pv-table button[aria-pressed="true"] { border-color: currentColor; }
.plotly-view button:focus-visible, .pv-scroll:focus-visible {
  outline: 2px solid var(--color-accent); outline-offset: -1px; }
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
    """A component that draws what `payload` returns; the page must have `head()` in its launch.

    `view.node_click(handler)` passes gr.EventData with `.index`. A function and not a subclass of
    gr.HTML, because Gradio writes a stub file beside every subclass.
    """
    return gr.HTML(value, html_template=TEMPLATE, css_template=STYLE, js_on_load=ON_LOAD, **options)


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
