"""The link to the same page in the other language. The path is what remembers the choice."""

import json
from html import escape
from pathlib import Path

import gradio as gr

from spork_demo import language
from spork_demo.language import LANGUAGES, say, speaking
from spork_demo.ui import words

SCRIPT = Path(__file__).resolve().parents[2] / "assets" / "language.js"


def language_switch() -> gr.HTML:
    """A link for each language but the current one; assets/language.js adds the query to it."""
    links = [
        f'<a class="other-language" href="{"." if code == language.ENGLISH else code}" '
        f'lang="{code}" hreflang="{code}">{escape(name)}</a>'
        for code, name in LANGUAGES.items()
        if code != language.current()
    ]
    return gr.HTML("".join(links), elem_id="language")


def language_script() -> str:
    """Sets the page's language and title by its path; the links are kept up to date by it."""
    titles = {}
    for code in LANGUAGES:
        with speaking(code):
            titles[code] = say(words.TITLE)
    script = SCRIPT.read_text(encoding="utf-8")
    return f"<script>window.sporkTitles = {json.dumps(titles)};\n{script}</script>"
