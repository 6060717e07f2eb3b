"""The tab "Learn": a lesson of short steps, each beside something live or recorded."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path

import gradio as gr

from spork_demo.charts.figure import number, paragraph
from spork_demo.charts.scheduling import (
    chances_alt,
    chances_chart,
    throughput_alt,
    throughput_chart,
)
from spork_demo.language import later, say
from spork_demo.lesson import examples
from spork_demo.lesson.examples import Place
from spork_demo.line import Line
from spork_demo.trace import Race, Round
from spork_demo.ui import learn_live, words
from spork_demo.ui.events import LIGHT
from spork_demo.ui.inside import EACH, picked
from spork_demo.ui.learn_links import link_to_race, trouble_view
from spork_demo.ui.learn_round import staged_round, staged_value
from spork_demo.ui.learn_tables import glossary_table, sources_table
from spork_demo.ui.learn_values import Numbers, article_values, told
from spork_demo.ui.learn_words import LESSON_STEPS, SEE_RACE, SEE_ROUND, STEPS, Step
from spork_demo.ui.plotly_view import payload, plotly_view
from spork_demo.ui.scheduling_story import scheduling_story
from spork_demo.ui.site import Site
from spork_demo.ui.tree_view import tree_payload

ASSETS = Path(__file__).resolve().parents[2] / "assets"
STYLE = ASSETS / "learn.css"
NAV_SCRIPT = ASSETS / "learn_nav.js"

REFUSED, WHOLE = later("a draft is refused"), later("all drafts are kept")
TOY_NOTE = later(
    "Rounds per second with 0, 1 and 2 drafts sent are 1, 0.5 and 0.45 here: numbers of the "
    "example, chosen so that one draft alone never pays, and not measured."
)


def build_learn(site: Site) -> None:
    """Lay the lesson out, fill it, and keep its costs current."""
    numbers = Numbers.of(site.desk.host, site.desk.recorded)
    with gr.Column(elem_id="learn"):
        _navigation(contents=True)
        costs = _slow(numbers)
        _verify(site)
        _forks(site)
        _confidence(site)
        gain = _pays(numbers)
        _article(site)
        _bias(numbers, site.desk.line)
        _hindsight()
        _reference(site)
        _navigation(contents=False)
    learn_live.keep_current(site, numbers, costs, gain)


def _navigation(*, contents: bool) -> None:
    """The table of contents with the buttons on, or the buttons alone for the foot."""
    value = {
        "steps": [{"key": step.key, "title": say(step.title)} for step in STEPS],
        "numbered": LESSON_STEPS,
        "list": contents,
        "name": say("Steps of the lesson") if contents else say("Next step"),
        "previous": say("Previous"),
        "next": say("Next"),
    }
    gr.HTML(
        json.dumps(value, ensure_ascii=False),
        html_template='<nav class="learn-nav"></nav>',
        js_on_load=NAV_SCRIPT.read_text(encoding="utf-8"),
        apply_default_css=False,
        elem_id="learn-contents" if contents else "learn-foot",
    )


@contextmanager
def _step(key: str, see: Sequence[tuple[str, Place | None, str]] = (), site: Site | None = None,
          *, wide: bool = False) -> Iterator[gr.Column]:  # fmt: skip
    """A page of the lesson: its words, buttons that lead to recordings, and beside them what the
    block builds. see: label, place and tab of each button. Yields the column of the words.
    """
    number_, step = next((n, step) for n, step in enumerate(STEPS, 1) if step.key == key)
    kind = "learn-wide" if wide else "learn-beside"
    with gr.Column(elem_id=f"learn-step-{number_}", elem_classes=["learn-step", kind]):
        with gr.Column(min_width=280, elem_classes=["learn-words"]) as beside:
            gr.HTML(step_text(step), apply_default_css=False)
            for label, place, tab in see:
                if place is not None and site is not None:
                    button = gr.Button(say(label), elem_id=f"see-{key}", elem_classes=["learn-see"])
                    link_to_race(button, site, place, tab)
        with gr.Column(min_width=280, elem_classes=["learn-live"]):
            yield beside


def step_text(step: Step) -> str:
    """Heading and paragraphs of a step."""
    paragraphs = "".join(f"<p>{escape(say(text))}</p>" for text in step.paragraphs)
    return f'<div class="learn-text"><h2>{escape(say(step.title))}</h2>{paragraphs}</div>'


def _slow(numbers: Numbers) -> learn_live.CostParts:
    with _step("slow") as beside:
        return learn_live.build_costs(numbers, beside)


def _verify(site: Site) -> None:
    races = site.desk.recorded
    refused, whole = examples.refused_in_part(races), examples.kept_whole(races)
    shown = [(say(REFUSED), refused), (say(WHOLE), whole)]
    values = {name: staged_value(place.trace(races), place.round) for name, place in shown if place}
    with _step("verify", [(SEE_ROUND, refused or whole, "inside")], site):
        if not values:
            learn_live.missing()
            return
        first = next(iter(values))
        if len(values) > 1:
            which = gr.Radio(
                list(values), value=first, label=say("A round in which"), interactive=True,
                elem_id="learn-which",
            )  # fmt: skip
        view = staged_round(values[first], elem_id="learn-round")
        if len(values) > 1:
            which.input(values.get, which, view, api_name="lesson_which", **LIGHT)


def _forks(site: Site) -> None:
    races = site.desk.recorded
    place = examples.forked(races)
    with _step("forks", [(SEE_ROUND, place, "inside")], site) as beside:
        if place is None:
            learn_live.missing()
            return
        tree = plotly_view(tree_payload(place.trace(races), place.round), elem_id="learn-tree")
        with beside:
            learn_live.sentence(told(fork_sentence(races, place)))

        def opened(event: gr.EventData) -> str:
            return tree_payload(place.trace(races), place.round, picked(event))

        tree.node_click(opened, None, tree, api_name="lesson_node", **EACH, **LIGHT)


def fork_sentence(races: Sequence[Race], place: Place) -> str:
    """What siblings saved in a round and in its whole lane, and what sharing saved."""
    round_, trace = place.found(races), place.trace(races)
    helped = sum(bool(examples.siblings_kept(each)) for each in trace.rounds)
    return say(
        "{saved} of the {kept} drafts kept here were not the drafter's first choice for their "
        "place: one chain would have ended before. So it was in {helped} of the {rounds} rounds of "
        "this run. The forks hold {nodes} tokens; fed one by one they would be {apart}.",
        saved=examples.siblings_kept(round_), kept=round_.accepted, helped=helped,
        rounds=len(trace.rounds), nodes=len(round_.nodes), apart=examples.fed_separately(round_),
    )  # fmt: skip


def _confidence(site: Site) -> None:
    races = site.desk.recorded
    place = examples.scheduled(races)
    with _step("confidence", [(SEE_ROUND, place, "inside")], site) as beside:
        if place is None:
            learn_live.missing()
            return
        round_ = place.found(races)
        plotly_view(
            payload(chances_chart(round_), chances_alt(round_), title=say(words.CHANCES_TITLE)),
            elem_id="learn-chances",
        )
        with beside:
            learn_live.sentence(
                told(paragraph([product_sentence(round_), scheduling_story(round_)]))
            )
        figure = throughput_chart(round_)
        if figure is not None:
            plotly_view(
                payload(figure, throughput_alt(round_), title=say(words.COSTS_TITLE)),
                elem_id="learn-throughput",
            )


def product_sentence(round_: Round) -> str:
    """The survival of the last draft as the product it is."""
    confidences = [node.confidence for node in round_.nodes if node.confidence is not None]
    return say(
        "Draft {last} survives with probability {product} = {survival}.",
        last=len(confidences),
        product=" · ".join(number(confidence) for confidence in confidences),
        survival=number(round_.scheduling.survivals[len(confidences) - 1], 3),
    )


def _pays(numbers: Numbers) -> learn_live.GainParts:
    with _step("pays") as beside:
        return learn_live.build_gain(numbers, beside)


def _article(site: Site) -> None:
    found = examples.article_spork(site.desk.recorded)
    place = Place(*found, 0) if found else None
    with _step("article", [(SEE_RACE, place, "race")], site) as beside:
        chart, text = article_values(site.desk.recorded)
        plotly_view(chart, elem_id="learn-calls")
        with beside:
            learn_live.sentence(text)


def _bias(numbers: Numbers, line: Line) -> None:
    with _step("bias") as beside:
        learn_live.build_bias(numbers, beside, line)


def _hindsight() -> None:
    with _step("hindsight") as beside:
        learn_live.build_hindsight(beside)
        learn_live.sentence(told(say(TOY_NOTE)))


def _reference(site: Site) -> None:
    with _step("trouble", wide=True):
        trouble_view(site)
    for key, build in (("glossary", glossary_table), ("sources", sources_table)):
        with _step(key, wide=True):
            gr.HTML(build(), apply_default_css=False, elem_id=f"learn-{key}")
