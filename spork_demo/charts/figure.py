"""What all charts share: the bare figure, text that is drawn literally, numbers in words."""

import re
import unicodedata
from collections.abc import Iterable

import plotly.graph_objects as go

from spork_demo.charts.palette import GRID, INK, MUTED
from spork_demo.language import known, later, say
from spork_demo.trace import Trace

ELLIPSIS = "…"
WHITESPACE = {" ": "␣", "\n": "⏎", "\r": "␍", "\t": "⇥", "\u00a0": "⍽", "\u3000": "□"}
FONT = "system-ui, 'Segoe UI', 'Noto Sans', 'Noto Sans CJK SC', sans-serif"

UNITS = {
    "token": (later("{count} token"), later("{count} tokens")),
    "drafted token": (later("{count} drafted token"), later("{count} drafted tokens")),
    "draft": (later("{count} draft"), later("{count} drafts")),
    "sent draft": (later("{count} sent draft"), later("{count} sent drafts")),
    "fork": (later("{count} fork"), later("{count} forks")),
    "round": (later("{count} round"), later("{count} rounds")),
    "target call": (later("{count} target call"), later("{count} target calls")),
}
"""What is counted in sentences: one of it, and several."""

OWN_LABEL = re.compile(r"(\d+) (Greedy|Speculative|SPORK|DSpark|Served)(?: (exact|article))?(.*)")
"""The labels lanes are given when they run, which are kept in English in their traces."""


def new_figure(
    height: int, left: int = 8, bottom: int = 50, top: int = 30, right: int = 12
) -> go.Figure:
    """A figure with no data: transparent, no title, fixed height, colours of `palette`.

    All of it at once: plotly takes sixteen times as long to update a layout as to make one.
    """
    return go.Figure(
        layout={
            "template": "none",
            "height": height,
            "margin": {"l": left, "r": right, "t": top, "b": bottom},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"family": FONT, "size": 13, "color": INK.light},
            "hoverlabel": {"font": {"family": FONT, "size": 13}, "align": "left"},
            "hovermode": "closest",
            "dragmode": False,
            "legend": _legend(),
            "xaxis": _axis(),
            "yaxis": _axis(),
        }
    )


def _legend() -> dict:
    return {
        "orientation": "h",
        "x": 0,
        "xanchor": "left",
        "y": 1,
        "yanchor": "bottom",
        "itemclick": False,
        "itemdoubleclick": False,
    }


def _axis() -> dict:
    return {
        "gridcolor": GRID.light,
        "linecolor": GRID.light,
        "zerolinecolor": GRID.light,
        "tickfont": {"color": MUTED.light, "size": 12},
        "title": {"font": {"color": MUTED.light, "size": 12}, "standoff": 8},
        "fixedrange": True,
        "automargin": True,
        "showline": False,
        "ticks": "",
    }


def empty_figure(message: str, height: int = 160) -> go.Figure:
    """A figure that says in words why there is nothing to draw."""
    figure = new_figure(height, bottom=8, top=8)
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False)
    figure.add_annotation(
        text=literal(message),
        showarrow=False,
        x=0.5,
        y=0.5,
        xref="paper",
        yref="paper",
        font={"color": MUTED.light, "size": 14},
    )
    return figure


def patterned(colour: str | list[str], shape: str | list[str]) -> dict:
    """A bar's fill: its colour, and over it the pattern that tells it from its neighbours."""
    pattern = {"shape": shape, "fillmode": "overlay", "size": 7, "fgopacity": 0.45}
    return {"color": colour, "pattern": pattern}


def literal(text: str) -> str:
    """`text` so that Plotly draws it as it is: its labels would read tags and entities."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def visible(text: str) -> str:
    """`text` with whitespace and invisible characters replaced by marks one can see."""
    return "".join(WHITESPACE.get(character) or _shown(character) for character in text)


def phrase(text: str) -> str:
    """Several tokens in a row: like `visible`, but a single space between words stays a space."""
    return re.sub(r"(?<=[^\s␣])␣(?=[^\s␣])", " ", visible(text))


def _shown(character: str) -> str:
    if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp", "Zs"):
        return f"‹{ord(character):04X}›"
    return character


def columns(text: str) -> int:
    """How many character cells `text` takes: wide East Asian characters take two."""
    return sum(
        0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF")
        for c in text
    )


def shortened(text: str, limit: int) -> str:
    """`text` cut to `limit` character cells, an ellipsis in the last if more was there."""
    if columns(text) <= limit:
        return text
    kept = ""
    for character in text:
        if columns(kept + character) > limit - 1:
            break
        kept += character
    return kept + ELLIPSIS


def token_label(token: int, text: str, limit: int = 14) -> str:
    """A token as a short visible label; its number where its bytes make no text yet."""
    return shortened(visible(text), limit) if text else f"#{token}"


def lane_name(trace: Trace, limit: int = 28) -> str:
    """A lane's label as given, our own words in the reader's language; else its method."""
    told = known(trace.label)
    if own := OWN_LABEL.fullmatch(trace.label):
        place, method, rules, rest = own.groups()
        told = " ".join(part for part in (place, known(method), known(rules or "")) if part) + rest
    return shortened(visible_line(told), limit) or trace.settings.method


def visible_line(text: str) -> str:
    """One line of ordinary text: breaks become spaces, invisible characters become marks."""
    return " ".join("".join(_shown(c) for c in word) for word in text.split())


def number(value: float | None, digits: int = 2, unit: str = "") -> str:
    """`value` with `digits` decimals, or a dash where there is none."""
    return "–" if value is None else f"{value:.{digits}f}{unit}"


def probability(value: float | None) -> str:
    """A probability with two decimals; what would round to 0.00 but is not says so."""
    return "<0.01" if value is not None and 0 < value < 0.005 else number(value)


def milliseconds(seconds: float | None) -> str:
    """A time span in ms, from a second on in s; a decimal only where it matters."""
    if seconds is None:
        return "–"
    value = seconds * 1000
    if value >= 999.5:
        return f"{seconds:.2f} s"
    return f"{value:.0f} ms" if value >= 9.95 else f"{value:.1f} ms"


def counted(count: int, noun: str) -> str:
    """`1 token`, `2 tokens`. noun: a key of UNITS."""
    one, many = UNITS[noun]
    return say(one if count == 1 else many, count=count)


def listed(parts: Iterable[str]) -> str:
    """Short things one after another: `a, b, c`."""
    return say(", ").join(parts)


def clauses(parts: Iterable[str]) -> str:
    """What may hold commas itself, one after another: `a; b; c`."""
    return say("; ").join(parts)


def paragraph(sentences: Iterable[str]) -> str:
    """Whole sentences in a row, empty ones left out."""
    return say(" ").join(sentence for sentence in sentences if sentence)
