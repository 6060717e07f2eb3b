"""One recorded round as draft, check and keep, in one component that steps through the three."""

import json
from pathlib import Path

import gradio as gr

from spork_demo.charts.figure import probability, visible
from spork_demo.charts.palette import FATES
from spork_demo.language import say
from spork_demo.trace import Node, Token, Trace

SCRIPT = Path(__file__).resolve().parents[2] / "assets" / "learn_round.js"
BEFORE_CHARACTERS = 160
ELLIPSIS = "… "


def staged_round(value: str | None, **options) -> gr.HTML:
    """A component that shows what `staged_value` returns."""
    script = SCRIPT.read_text(encoding="utf-8")
    return gr.HTML(
        value, html_template='<section class="lesson-round"></section>', js_on_load=script,
        apply_default_css=False, **options,
    )  # fmt: skip


def staged_value(trace: Trace, round_index: int) -> str:
    """The text before a chain's round, its drafts, what the target said to each, its own token."""
    round_ = trace.rounds[round_index]
    earlier = "".join(t.text for before in trace.rounds[:round_index] for t in before.committed)
    own = round_.committed[-1] if len(round_.committed) > round_.accepted else None
    if len(earlier) > BEFORE_CHARACTERS:
        earlier = ELLIPSIS + earlier[-BEFORE_CHARACTERS:]
    value = {
        "before": earlier,
        "drafts": [
            _draft(node, place, round_.accepted, own) for place, node in enumerate(round_.nodes)
        ],
        "own": own and {"text": _shown(own), "fate": own.fate, "glyph": FATES[own.fate].glyph},
        "stages": _stages(
            len(round_.nodes), round_.scheduled, round_.accepted, len(round_.committed)
        ),
    }
    # No "<" leaves here, so that nothing on the way to the page can take text for a tag.
    return json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")


def _stages(drafted: int, sent: int, kept: int, committed: int) -> list[dict[str, str]]:
    return [
        {
            "name": say("1 Propose"),
            "told": say(
                "The drafter wrote {count} tokens after this text. Below each stands q, the "
                "probability it gave it. The target has not looked yet.",
                count=drafted,
            ),
        },
        {
            "name": say("2 Check"),
            "told": say(
                "One target call looked at the last token of the text and at {count} drafts. "
                "Below each stands p, the target's probability of it.",
                count=sent,
            ),
        },
        {
            "name": say("3 Keep"),
            "told": say(
                "Kept {kept} of {count} drafts, and the target added its own token: {committed} "
                "tokens from one call.",
                kept=kept, count=drafted, committed=committed,
            ),
        },
    ]  # fmt: skip


def _draft(node: Node, place: int, kept: int, own: Token | None) -> dict[str, str]:
    return {
        "text": _shown(node),
        "fate": node.fate,
        "glyph": FATES[node.fate].glyph,
        "q": f"q {probability(node.draft_probability)}",
        "p": f"p {probability(node.target_probability)}" if node.fate != "cut" else "",
        "verdict": _verdict(node, place, kept, own),
    }


def _verdict(node: Node, place: int, kept: int, own: Token | None) -> str:
    if node.fate == "accepted":
        return say("the target says the same")
    if node.fate == "cut":
        return say("not sent")
    if place == kept and own:
        return say("the target says «{word}»", word=_shown(own))
    return say("stands on a refused token")


def _shown(token: Node | Token) -> str:
    return visible(token.text) or f"#{token.token}"
