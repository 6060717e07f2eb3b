"""One round's text with its tokens marked, and a component that shows a sentence about it."""

import json
from pathlib import Path
from typing import Any

import gradio as gr

from spork_demo.charts.figure import visible
from spork_demo.charts.palette import FATES, fate_name
from spork_demo.language import say
from spork_demo.trace import Round, Token
from spork_demo.ui import words

ASSETS = Path(__file__).resolve().parents[2] / "assets"
SCRIPT = ASSETS / "rounds.js"
SHEET = ASSETS / "rounds.css"
TEMPLATE = '<section class="round-text"></section>'
MOUNT = """
const start = () => window.sporkRounds
  ? window.sporkRounds.mountText({ element, props, watch })
  : setTimeout(start, 30);
start();
"""
MARKS = "\n".join(
    f".rt-{name} {{ background: var(--fate-{name}-wash, transparent); text-decoration: underline"
    f" {look.underline} var(--fate-{name}, {look.hue.light}); }}"
    for name, look in FATES.items()
    if look.underline
)
MARKS += "\n".join(
    f".rt-{name} .rt-glyph {{ color: var(--fate-{name}, {look.hue.light}); }}"
    for name, look in FATES.items()
)
STYLE = f"{SHEET.read_text(encoding='utf-8')}\n{MARKS}"
"""For launch(css=...), once a page."""


def script_tag() -> str:
    """The script for launch(head=...), inline: it works offline and under any root path."""
    return f"<script>\n{SCRIPT.read_text(encoding='utf-8')}\n</script>"


def text_view(value: str | None = None, **options: Any) -> gr.HTML:
    """A component that writes what `text_value` returns."""
    return gr.HTML(value, html_template=TEMPLATE, js_on_load=MOUNT, **options)


def text_value(place: str, verdict: str, committed: list[list[str]] | None = None) -> str:
    """A small heading, a sentence, and marked tokens as `committed_marks` gives them."""
    return encoded(place=place, verdict=verdict, committed=committed or [], **shared())


def shared() -> dict[str, Any]:
    """What the script needs to mark tokens, in the current language."""
    return {
        "fates": {n: {"glyph": x.glyph, "name": fate_name(n)} for n, x in FATES.items()},
        "about": say("The text so far, this round's tokens marked"),
        "dropped_words": say(words.NOT_KEPT),
    }


def committed_marks(tokens: tuple[Token, ...]) -> list[list[str]]:
    """Text and fate of each token, and how it is shown where its text alone would not be seen."""
    return [[token.text, token.fate, *_shown(token)] for token in tokens]


def dropped_marks(round_: Round) -> list[list[str]]:
    """What a chain drafted in vain; the forks of a tree are not one text, so it shows its own."""
    chain = all(node.parent == place - 1 for place, node in enumerate(round_.nodes))
    return [
        [visible(node.text.strip() or node.text) or f"#{node.token}", node.fate]
        for node in round_.nodes
        if chain and node.fate != "accepted"
    ]


def _shown(token: Token) -> list[str]:
    if not token.text:
        return [f"#{token.token}"]
    if not token.text.isspace():
        return []
    return [visible(token.text) + ("\n" if "\n" in token.text else "")]


def encoded(**fields: Any) -> str:
    """JSON for a script of the page."""
    # No "<" leaves here, so that nothing on the way to the page can take text for a tag.
    return json.dumps(fields, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
