"""One round in words: its place, its verdict, and the text so far with its tokens marked."""

import json
from pathlib import Path
from typing import Any

import gradio as gr

from spork_demo.charts.figure import visible
from spork_demo.charts.palette import FATES, fate_name
from spork_demo.language import say
from spork_demo.trace import Node, Round, Token, Trace
from spork_demo.ui import words

SCRIPT = Path(__file__).resolve().parents[2] / "assets" / "round_text.js"
BEFORE_CHARACTERS = 700
ELLIPSIS = "… "
TEMPLATE = '<section class="round-text"></section>'
STYLE = """
.round-text p { margin: 0; }
.rt-place { font-size: 13px; color: var(--muted, #59636E); }
.rt-verdict { font-size: 17px; line-height: 1.5; margin-top: 2px !important; max-width: 75em; }
.rt-text { margin-top: 10px !important; padding: 10px 12px; max-height: 132px; overflow-y: auto;
  white-space: pre-wrap; overflow-wrap: anywhere; font-family: var(--font-mono); font-size: 14px;
  line-height: 1.75; border: 1px solid var(--border-color-primary); border-radius: 8px;
  background: var(--background-fill-secondary); }
.rt-before { color: var(--muted, #59636E); }
.rt-text:focus-visible { outline: 2px solid var(--color-accent); }
.rt-mark { color: inherit; background: transparent; border-radius: 2px; margin: 0 1px;
  text-underline-offset: 4px; text-decoration-skip-ink: none; }
.rt-correction { font-weight: 600; }
.rt-dropped { margin-top: 6px !important; font-size: 14px; color: var(--muted, #59636E); }
.rt-dropped .rt-glyph { display: inline-block; } /* what the line does not strike through */
.rt-dropped .rt-mark { margin: 0 5px; white-space: nowrap; font-family: var(--font-mono); }
.rt-dropped .rt-rejected { color: var(--fate-rejected);
  text-decoration: line-through solid var(--fate-rejected) 1.5px; }
.rt-dropped .rt-cut { color: var(--fate-cut);
  text-decoration: line-through dotted var(--fate-cut) 2px; }
.rt-glyph { font-size: 10px; margin-right: 2px; vertical-align: 2px; }
.rt-hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
""" + "\n".join(
    f".rt-{name} {{ background: var(--fate-{name}-wash, transparent); text-decoration: underline"
    f" {look.underline} var(--fate-{name}, {look.hue.light}); }}"
    for name, look in FATES.items()
    if look.underline
)
STYLE += "\n".join(
    f".rt-{name} .rt-glyph {{ color: var(--fate-{name}, {look.hue.light}); }}"
    for name, look in FATES.items()
)


def round_text(value: str | None = None, **options: Any) -> gr.HTML:
    """A component that writes what `round_value` returns."""
    script = SCRIPT.read_text(encoding="utf-8")
    return gr.HTML(value, html_template=TEMPLATE, css_template=STYLE, js_on_load=script, **options)


def round_value(trace: Trace, round_index: int, place: str, verdict: str) -> str:
    """The value for one round of a lane."""
    earlier = "".join(
        token.text for round_ in trace.rounds[:round_index] for token in round_.committed
    )
    round_ = trace.rounds[round_index]
    marks = [_mark(token) for token in round_.committed]
    if len(earlier) > BEFORE_CHARACTERS:
        earlier = ELLIPSIS + earlier[-BEFORE_CHARACTERS:]
    return _value(
        place=place,
        verdict=verdict,
        before=earlier,
        marks=marks,
        dropped=_dropped(round_),
        dropped_words=say(words.NOT_KEPT),
    )


def _dropped(round_: Round) -> list[tuple[str, ...]]:
    """What a chain drafted in vain; the forks of a tree are not one text, so it shows its own."""
    chain = all(node.parent == place - 1 for place, node in enumerate(round_.nodes))
    return [
        (
            visible(node.text.strip() or node.text) or f"#{node.token}",
            node.fate,
            _glyph(node),
            fate_name(node.fate),
        )
        for node in round_.nodes
        if chain and node.fate != "accepted"
    ]


def message_value(message: str) -> str:
    """The value when there is no round to write."""
    return _value(place="", verdict=message, before="", marks=[])


def _glyph(token: Node | Token) -> str:
    return FATES[token.fate].glyph


def _mark(token: Token) -> tuple[str, ...]:
    """Text, fate, its glyph and its name."""
    shown = visible(token.text) if token.text.isspace() else token.text
    if "\n" in token.text and token.text.isspace():
        shown += "\n"
    return shown or f"#{token.token}", token.fate, _glyph(token), fate_name(token.fate)


def _value(**fields: Any) -> str:
    fields["about"] = say("The text so far, this round's tokens marked")
    # No "<" leaves here, so that nothing on the way to the page can take text for a tag.
    return json.dumps(fields, ensure_ascii=False).replace("<", "\\u003c")
