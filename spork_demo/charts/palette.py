"""Every colour of the page and the second cue that goes with it, in one place.

Okabe and Ito's hues, darkened for light pages and lightened for dark ones until each reads as text
(4.5:1) on its background. Charts are drawn in the light colours; `DARK` says what each becomes on
a dark page. Colour never stands alone: a fate also has a marker and a line, a phase a pattern.
"""

from dataclasses import dataclass

from spork_demo.language import later, say

LIGHT_PAGE = "#FFFFFF"
DARK_PAGE = "#1F2937"


@dataclass(frozen=True, slots=True)
class Hue:
    """One colour in both themes."""

    light: str
    dark: str


@dataclass(frozen=True, slots=True)
class FateLook:
    """How a fate is drawn. `glyph` is the same cue in text; `dash` the edge that leads to it;
    `underline` the line under committed text, a part of the style sheet's text-decoration.
    """

    hue: Hue
    symbol: str
    glyph: str
    dash: str
    width: float
    pattern: str
    underline: str = ""


@dataclass(frozen=True, slots=True)
class PhaseLook:
    """How the seconds of one phase are drawn."""

    hue: Hue
    pattern: str


@dataclass(frozen=True, slots=True)
class SourceLook:
    """How the origin of a drafted token is named, and the frame that stands around its marker.

    name: for `say`.
    """

    name: str
    symbol: str


PAGE = Hue(LIGHT_PAGE, DARK_PAGE)
INK = Hue("#20262D", "#E8EDF4")
MUTED = Hue("#59636E", "#A9B4C0")
GRID = Hue("#D5DBE1", "#3E4A58")
HIGHLIGHT = Hue("#E7EDF5", "#33415A")
GREY = Hue("#66717D", "#929CA8")
BLUE = Hue("#0B5CAD", "#3FA5F5")
GREEN = Hue("#007F5C", "#45DDB0")

FATES = {
    "plain": FateLook(INK, "square", "■", "solid", 2, ""),
    "accepted": FateLook(GREEN, "circle", "●", "solid", 4, "", "solid 2.5px"),
    "bonus": FateLook(Hue("#0A4488", "#62B4FF"), "diamond", "◆", "solid", 3, "+", "double 2px"),
    "correction": FateLook(
        Hue("#996300", "#EDB73A"), "triangle-up", "▲", "solid", 3, "/", "wavy 1.5px"
    ),
    "fallback": FateLook(
        Hue("#C2369F", "#FF7ADB"), "pentagon", "⬟", "solid", 3, "\\", "dashed 2px"
    ),
    "served": FateLook(Hue("#0F6B78", "#5CC9DA"), "hexagon", "⬢", "solid", 3, "", "dotted 2px"),
    "rejected": FateLook(Hue("#8A1F00", "#E0784E"), "x", "✕", "dash", 1.8, "x"),
    "cut": FateLook(GREY, "circle-open", "○", "dot", 1.4, "."),
}

FATE_NAMES = {
    "anchor": later("anchor"),
    "plain": later("plain"),
    "accepted": later("accepted"),
    "bonus": later("bonus"),
    "correction": later("correction"),
    "fallback": later("fallback"),
    "served": later("served"),
    "rejected": later("rejected"),
    "cut": later("cut"),
}

SOURCES = {
    "target": SourceLook(later("the target"), "star-open"),
    "early_exit": SourceLook(later("early exit"), "pentagon-open"),
    "draft_model": SourceLook(later("the draft model"), "triangle-down-open"),
    "dspark": SourceLook(later("the DSpark drafter"), "hexagon2-open"),
    "table": SourceLook(later("the table"), "square-open"),
    "context": SourceLook(later("this text"), "circle-open"),
    "recycled": SourceLook(later("recycled tokens"), "diamond-open"),
    "ngram": SourceLook(later("n-gram counts"), "cross-open"),
}

PHASES = {
    "prefill": PhaseLook(Hue("#3F4954", "#AEB8C4"), "x"),
    "draft": PhaseLook(Hue("#C97700", "#F0A93A"), "/"),
    "judge": PhaseLook(BLUE, ""),
    "commit": PhaseLook(GREEN, "\\"),
    "other": PhaseLook(Hue("#808B97", "#76828F"), "."),
}

PHASE_NAMES = {
    "prefill": later("prefill"),
    "draft": later("draft"),
    "judge": later("judge"),
    "commit": later("commit"),
    "other": later("other"),
}

LANES = (
    PhaseLook(GREY, ""),
    PhaseLook(BLUE, "/"),
    PhaseLook(Hue("#C24A00", "#FF8A4F"), "\\"),
    PhaseLook(GREEN, "x"),
    PhaseLook(Hue("#8E2C78", "#F59BD8"), "."),
    PhaseLook(Hue("#6B5200", "#E6CB3F"), "-"),
)


def lane_look(index: int) -> PhaseLook:
    """The look of a lane by its place in the race; lane 0 is grey, as greedy usually is."""
    return LANES[index % len(LANES)]


def source_name(source: str) -> str:
    """Where a drafted token came from, in two or three words; a name not known here as it is."""
    return say(SOURCES[source].name) if source in SOURCES else source


def fate_name(fate: str) -> str:
    """A fate, or the anchor, in one word."""
    return say(FATE_NAMES[fate]) if fate in FATE_NAMES else fate


def phase_name(phase: str) -> str:
    """A phase of a round in one word."""
    return say(PHASE_NAMES[phase])


def hues() -> dict[str, Hue]:
    """Every named colour, in a fixed order."""
    named = {"page": PAGE, "ink": INK, "muted": MUTED, "grid": GRID, "highlight": HIGHLIGHT}
    named |= {f"fate-{name}": look.hue for name, look in FATES.items()}
    named |= {f"phase-{name}": look.hue for name, look in PHASES.items()}
    return named | {f"lane-{index}": look.hue for index, look in enumerate(LANES)}


DARK = {hue.light: hue.dark for hue in hues().values()}
"""Light colour to dark colour: what a drawing on a dark page replaces."""


def css_variables() -> str:
    """Custom properties for a style sheet: `--fate-accepted`, `--phase-draft`, `--lane-0`, ...

    Each fate also has `--fate-accepted-wash`, a faint background that body text reads on, and
    those of committed drafts `--fate-accepted-line`, their underline.
    """
    light = [f"  --{name}: {hue.light};" for name, hue in hues().items()]
    dark = [f"  --{name}: {hue.dark};" for name, hue in hues().items()]
    light += [f"  --fate-{n}-line: {x.underline};" for n, x in FATES.items() if x.underline]
    for name, look in FATES.items():
        light.append(f"  --fate-{name}-wash: {mix(look.hue.light, LIGHT_PAGE, 0.13)};")
        dark.append(f"  --fate-{name}-wash: {mix(look.hue.dark, DARK_PAGE, 0.22)};")
    return "\n".join([":root {", *light, "}", ".dark {", *dark, "}", ""])


def mix(colour: str, page: str, share: float) -> str:
    """`share` of `colour` over `page`, as hex."""
    pairs = zip(_channels(colour), _channels(page), strict=True)
    return "#" + "".join(f"{round(a * share + b * (1 - share)):02X}" for a, b in pairs)


def contrast(one: str, other: str) -> float:
    """WCAG contrast ratio of two hex colours, 1 to 21."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _luminance(colour: str) -> float:
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
        for c in (channel / 255 for channel in _channels(colour))
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
