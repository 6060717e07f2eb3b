"""The static site's page and what it shows of a race, all computed beforehand, in one language."""

import base64
import json
import zlib
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from spork_demo.charts import rounds
from spork_demo.charts.figure import paragraph
from spork_demo.charts.palette import css_variables
from spork_demo.charts.scheduling import (
    chances_alt,
    chances_chart,
    throughput_alt,
    throughput_chart,
)
from spork_demo.language import LANGUAGES, current, known, later, say
from spork_demo.trace import Provenance, Race, Trace
from spork_demo.ui import parts, plotly_view, round_player, round_text, words
from spork_demo.ui.ending import with_ends_named
from spork_demo.ui.inside import telling_lane, telling_round
from spork_demo.ui.judge_view import judge_payload
from spork_demo.ui.node_story import node_story
from spork_demo.ui.plotly_view import payload
from spork_demo.ui.race_view import SCRIPT as RACE_SCRIPT
from spork_demo.ui.race_view import STYLE as RACE_STYLE
from spork_demo.ui.reel import reel_value
from spork_demo.ui.results import chart_values
from spork_demo.ui.scheduling_story import scheduling_story
from spork_demo.ui.slower import reasons
from spork_demo.ui.stage import STYLE as STAGE_STYLE
from spork_demo.ui.stage import stage_value
from spork_demo.ui.token_view import race_lines
from spork_demo.ui.tree_view import tree_payload

ASSETS = Path(__file__).resolve().parents[2] / "assets"
SCRIPTS = (
    parts.SCRIPT,
    plotly_view.SCRIPT,
    RACE_SCRIPT,
    round_text.SCRIPT,
    ASSETS / "stage.js",
    ASSETS / "player.js",
)
FILES = {"en": "index.html", "zh": "zh.html"}
"""The site's page in each language."""

PAGE = (ASSETS / "player.html").read_text(encoding="utf-8")
"""The page with places to fill, `$name`; every text that comes in is escaped."""

NONE = -1
"""The place of no round."""

ORIGIN = {
    "target": later("target"),
    "draft": later("draft model"),
    "dspark": later("DSpark drafter"),
    "device": later("machine"),
    "threads": later("threads"),
    "dtype": later("number format"),
    "kernels": later("kernels"),
    "torch": "torch",
    "transformers": "transformers",
    "date": later("date"),
    "app": "spork_demo",
}


def origin_rows(place: Provenance) -> list[tuple[str, str]]:
    """Everything that is known of where a race was measured, name and value."""
    return [
        (known(name), str(getattr(place, field)))
        for field, name in ORIGIN.items()
        if getattr(place, field)
    ]


def race_data(race: Race) -> dict[str, Any]:
    """What the page shows of a race; where a list stands for a lane it holds its rounds."""
    shown = with_ends_named(race)
    lane = telling_lane(race)

    def each(tell: Callable[[Trace, int], Any]) -> list[list[Any]]:
        return [[tell(lane, place) for place in range(len(lane.rounds))] for lane in shown.lanes]

    return {
        "lines": race_lines(race),
        "charts": chart_values(race),
        "origin": origin_rows(race.lanes[0].provenance),
        "reel": reel_value(shown, lane, telling_round(race, lane)),
        "stage": json.loads(stage_value(race)) | {"lines": ""},
        "costs": [_costs(lane, shown.baseline) for lane in shown.lanes],
        "stretch": rounds.WINDOW,
        "trees": each(tree_payload),
        "nodes": each(_stories),
        "judge": each(lambda lane, place: judge_payload(lane, lane.rounds[place])),
        "stories": each(_story),
        "chances": each(_chances),
        "worth": each(_worth),
    }


def packed(race_id: str, data: dict[str, Any]) -> str:
    """A script that hands the data of a race to the page, a tenth of its size and less."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    small = base64.b64encode(zlib.compress(text.encode("utf-8"), 9)).decode("ascii")
    return f'sporkSite.receive({json.dumps(race_id)},"{small}");\n'


def page(races: Sequence[tuple[str, str]]) -> str:
    """The page in the current language. races: id and title of each."""
    told = {
        "races": [{"id": race_id, "title": known(title)} for race_id, title in races],
        "words": {
            "missing": say("The data of this race could not be read."),
        },
    }
    texts = {
        "title": say(words.TITLE),
        "heading": say(words.HEADING),
        "intro": say(
            "Recorded races: several methods decode the same prompt side by side, replayed as they "
            "ran, with every round to be opened. No model runs here and nothing is fetched."
        ),
        "stage": say("Stage"),
        "theme": say("Light or dark"),
        "choose": say("Recorded races"),
        "inside": say(words.TAB_INSIDE),
        "why": say(words.WHY_SENT_TITLE),
        "origin": say("Where this was measured"),
        "download": say("Download this race"),
        "scripts": say("This page needs JavaScript."),
    }
    filled = {name: escape(text) for name, text in texts.items()}
    filled["languages"] = "".join(
        f'<a class="other-language" href="{FILES[code]}" lang="{code}" hreflang="{code}">'
        f"{escape(name)}</a>"
        for code, name in LANGUAGES.items()
        if code != current()
    )
    filled |= {"code": current(), "chart": plotly_view.TEMPLATE, "rounds": round_player.TEMPLATE}
    filled["data"] = json.dumps(told, ensure_ascii=False).replace("<", "\\u003c")
    pieces = PAGE.split("$")
    return pieces[0] + "".join(_filled(piece, filled) for piece in pieces[1:])


def _filled(part: str, texts: dict[str, str]) -> str:
    name = next(name for name in sorted(texts, key=len, reverse=True) if part.startswith(name))
    return texts[name] + part.removeprefix(name)


def style() -> str:
    """Every style of the site in one file."""
    own = (ASSETS / "player.css", ASSETS / "calm.css")
    files = (*own, RACE_STYLE, STAGE_STYLE, plotly_view.STYLE)
    texts = [file.read_text(encoding="utf-8") for file in files]
    return "\n".join([css_variables(), *texts, round_text.STYLE])


def script() -> str:
    """Every script of the site in one file but the chart library, which is read when needed."""
    texts = [
        'window.sporkPlotlyAddress = "assets/plotly.min.js";',
        *(file.read_text(encoding="utf-8") for file in SCRIPTS),
    ]
    return "\n".join(texts)


def _stories(lane: Trace, place: int) -> dict[str, str]:
    round_ = lane.rounds[place]
    own = sum(token.fate != "accepted" for token in round_.committed)
    return {
        str(index): node_story(lane, place, index) for index in range(-1, len(round_.nodes) + own)
    }


def _costs(lane: Trace, baseline: Trace | None) -> list[str]:
    """What the rounds of a lane cost, a stretch of them a chart; the script moves the frame that
    marks one to the round that is shown.
    """
    last = max(0, len(lane.rounds) - 1)
    middles = range(rounds.WINDOW // 2, last + rounds.WINDOW // 2 + 1, rounds.WINDOW)
    return [
        payload(
            rounds.rounds_chart(lane, min(middle, last), baseline),
            rounds.rounds_alt(lane, NONE, baseline),
            title=say("What each round cost"),
            caption=paragraph(reasons(lane, baseline)),
        )
        for middle in middles
    ]


def _story(lane: Trace, place: int) -> str | None:
    round_ = lane.rounds[place]
    return scheduling_story(round_) if round_.scheduling and round_.nodes else None


def _chances(lane: Trace, place: int) -> str | None:
    round_ = lane.rounds[place]
    if not (round_.scheduling and round_.nodes):
        return None
    texts = {"title": say(words.CHANCES_TITLE), "caption": say(words.CHANCES)}
    return payload(chances_chart(round_), chances_alt(round_), **texts)


def _worth(lane: Trace, place: int) -> str | None:
    round_ = lane.rounds[place]
    figure = throughput_chart(round_) if round_.scheduling and round_.nodes else None
    texts = {"title": say(words.COSTS_TITLE), "caption": say(words.COSTS)}
    return figure and payload(figure, throughput_alt(round_), **texts)
