"""The race view: every lane, token by token, in one HTML component drawn by assets/race.js.

The template is constant and nothing is ever interpolated into it: the value, lines of JSON from
`token_view`, is only watched by the script, which builds the page with text nodes.
"""

from pathlib import Path

import gradio as gr

from spork_demo.language import say
from spork_demo.ui import words

ASSETS = Path(__file__).resolve().parents[2] / "assets"
SCRIPT = ASSETS / "race.js"
STYLE = ASSETS / "style.css"

TEMPLATE = '<section class="race"></section>'
MOUNT = """
const start = () => window.sporkRace
  ? window.sporkRace.mount({ element, props, watch, open: (data) => trigger('open_round', data) })
  : setTimeout(start, 30);
start();
watch('value', () => window.sporkStage?.feed(props.value));
"""
"""The script arrives through launch(head=...) and may come later than the component."""


def race_view(value: str) -> gr.HTML:
    """The component; its custom event `open_round` carries a lane and a round."""
    return gr.HTML(
        value,
        elem_id="race-view",
        label=say(words.TAB_RACE),
        html_template=TEMPLATE,
        js_on_load=MOUNT,
        apply_default_css=False,
    )


def script_tag() -> str:
    """The script as an inline tag: no request, so it works offline and under any root path."""
    return f"<script>\n{SCRIPT.read_text(encoding='utf-8')}\n</script>"
