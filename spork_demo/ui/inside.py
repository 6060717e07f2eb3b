"""The tab "Inside a round": any round of any lane, as text, tree, table, numbers and cost."""

from dataclasses import dataclass
from typing import Any

import gradio as gr

from spork_demo.charts import judged, rounds
from spork_demo.charts.figure import lane_name, visible_line
from spork_demo.charts.scheduling import (
    chances_alt,
    chances_chart,
    throughput_alt,
    throughput_chart,
)
from spork_demo.metrics import kept_path
from spork_demo.trace import Race, Round, Trace
from spork_demo.ui import words
from spork_demo.ui.ending import with_ends_named
from spork_demo.ui.explain import verdict
from spork_demo.ui.notices import headed
from spork_demo.ui.plotly_view import payload, plotly_view
from spork_demo.ui.reliability_view import lane_reliability
from spork_demo.ui.round_text import message_value, round_text, round_value
from spork_demo.ui.scheduling_story import scheduling_story
from spork_demo.ui.slower import reasons
from spork_demo.ui.tree_view import tree_payload

NO_RACE = "There is no race yet: run or open one, then step through its rounds here."
NO_ROUNDS = "This lane has committed nothing yet."
AT_TEMPERATURE_0 = (
    "At temperature 0 the judged probability is 1 for the target's most probable token and 0 for "
    "any other, so the thresholds decide nothing; the bars show the probability before that."
)
PREVIOUS = "(number) => Math.max(1, number - 1)"
NEXT = """(number) => Math.min(
  Number(document.querySelector('#inside-round input[type=range]').max), number + 1)"""
LAST = {"trigger_mode": "always_last"}
PRIVATE = {"queue": False, "api_visibility": "private", "show_progress": "hidden"}


@dataclass(frozen=True, slots=True)
class InsideParts:
    """The tab's widgets. Every handler that shows a round returns values for `outputs`."""

    lane: gr.Radio
    scrubber: gr.Slider
    told: gr.HTML
    tree: gr.HTML
    why: gr.Column
    story: gr.HTML
    chances: gr.HTML
    costs: gr.HTML
    reliability: gr.HTML
    judge_column: gr.Column
    judge: gr.HTML
    cost: gr.HTML

    @property
    def outputs(self) -> list[gr.blocks.Block]:
        scheduled_by = [self.why, self.story, self.chances, self.costs, self.reliability]
        judged_by = [self.judge_column, self.judge]
        told = [self.lane, self.scrubber, self.told, self.tree]
        return [*told, *scheduled_by, *judged_by, self.cost]

    def show(self, race: Race | None, lane_index: int, round_index: int) -> tuple[Any, ...]:
        """Values of `outputs` for one round; numbers out of range are brought into it."""
        return shown(race, lane_index, round_index)

    def refresh(self, race: Race | None) -> tuple[Any, ...]:
        """Values of `outputs` for a race that has just come: its most telling round."""
        lane_index = telling_lane(race)
        return shown(race, lane_index, telling_round(race, lane_index))


def build_inside(race_state: gr.State) -> InsideParts:
    """Lay the tab out and connect it; `race_state` holds the Race on the page."""
    lane = gr.Radio([], label="Lane", interactive=True, elem_id="inside-lane")
    with gr.Row(elem_id="inside-scrub"):
        scrubber = gr.Slider(
            1, 2, 1, step=1, label="Round", interactive=True, scale=6, min_width=300,
            elem_id="inside-round",
        )  # fmt: skip
        with gr.Column(scale=2, min_width=270), gr.Row():
            previous = gr.Button("← Previous", min_width=120, elem_id="inside-previous")
            following = gr.Button("Next →", min_width=120, elem_id="inside-next")
    told = round_text(message_value(NO_RACE), elem_id="inside-told")
    tree = plotly_view(elem_id="inside-tree", padding=False)
    with gr.Column(visible=False, elem_id="inside-why") as why:
        story = gr.HTML(elem_id="inside-story", label=words.WHY_SENT_TITLE)
        with gr.Row():
            scheduled_by = [
                _chart(name) for name in ("inside-chances", "inside-costs", "inside-reliability")
            ]
    with gr.Row():
        with gr.Column(min_width=320, visible=False) as judge_column:
            judge = plotly_view(elem_id="inside-judge")
        with gr.Column(min_width=320):
            cost = plotly_view(elem_id="inside-cost")
    parts = InsideParts(
        lane, scrubber, told, tree, why, story, *scheduled_by, judge_column, judge, cost
    )
    _connect(parts, race_state, previous, following)
    return parts


def _chart(elem_id: str) -> gr.HTML:
    with gr.Column(min_width=320, elem_classes=["chart-column"]):
        return plotly_view(elem_id=elem_id)


def _connect(
    parts: InsideParts, race_state: gr.State, previous: gr.Button, following: gr.Button
) -> None:
    place = [race_state, parts.lane, parts.scrubber]

    def scrubbed(race: Race | None, lane: int | None, number: float | None) -> tuple[Any, ...]:
        return shown(race, lane, _place(number))[2:]

    def other_lane(race: Race | None, lane: int | None) -> tuple[Any, ...]:
        return shown(race, lane, telling_round(race, lane))

    def picked_round(race: Race | None, lane: int | None, event: gr.EventData) -> tuple[Any, ...]:
        return shown(race, lane, picked(event))

    def picked_node(
        race: Race | None, lane: int | None, number: float | None, event: gr.EventData
    ) -> str | None:
        return tree_of(race, lane, _place(number), picked(event))

    # The page moves its own scrubber and only the last move is answered, without the scrubber in
    # the answer: a late one would take the handle from under the finger that has moved on.
    told = {"fn": scrubbed, "inputs": place, "outputs": parts.outputs[2:], **LAST, **PRIVATE}
    parts.scrubber.input(api_name="inside_round", **told)
    for button, move, name in (
        (previous, PREVIOUS, "inside_previous"),
        (following, NEXT, "inside_next"),
    ):
        moved = button.click(None, parts.scrubber, parts.scrubber, js=move, **PRIVATE)
        moved.then(api_name=name, **told)
    parts.lane.input(other_lane, place[:2], parts.outputs, api_name="inside_lane", **PRIVATE)
    parts.cost.node_click(
        picked_round, place[:2], parts.outputs, api_name="inside_pick_round", **PRIVATE
    )
    parts.tree.node_click(picked_node, place, parts.tree, api_name="inside_pick_node", **PRIVATE)


def _place(number: float | None) -> int:
    """Where a round stands in its trace; an emptied number box is the first round."""
    return int(number or 1) - 1


def picked(event: gr.EventData) -> int:
    """The index of a clicked point; -1, which is the anchor, where the page sent no number."""
    index = getattr(event, "index", None)
    return index if isinstance(index, int) else -1


def shown(race: Race | None, lane_index: int | None, round_index: int) -> tuple[Any, ...]:
    """Values of `InsideParts.outputs`; never raises for a number out of range or no race."""
    if race is None or not race.lanes:
        return _nothing(gr.update(choices=[], value=None), NO_RACE)
    race = with_ends_named(race)
    index = _within(lane_index or 0, len(race.lanes))
    names = [(visible_line(lane_name(lane)), place) for place, lane in enumerate(race.lanes)]
    choice = gr.update(choices=names, value=index)
    trace = race.lanes[index]
    if not trace.rounds:
        return _nothing(choice, NO_ROUNDS)
    place = _within(round_index, len(trace.rounds))
    count = len(trace.rounds)
    return (
        choice,
        gr.update(
            maximum=max(2, count), value=place + 1, interactive=count > 1,
            label=f"Round, 1 to {count}",
        ),
        round_value(
            trace, place, f"Round {place + 1} of {count}, {lane_name(trace)}",
            verdict(trace, place, race.baseline),
        ),
        tree_payload(trace, place),
        *_why_values(trace, trace.rounds[place]),
        *_judge_values(trace, trace.rounds[place]),
        _cost_payload(trace, place, race.baseline),
    )  # fmt: skip


def _nothing(choice: Any, message: str) -> tuple[Any, ...]:
    scrubber = gr.update(maximum=2, interactive=False, value=1, label="Round")
    hidden = gr.update(visible=False)
    told = (choice, scrubber, message_value(message), None)
    return (*told, hidden, None, None, None, None, hidden, None, None)


def tree_of(
    race: Race | None, lane_index: int | None, round_index: int, node_index: int
) -> str | None:
    """The fork tree of one round with a node selected; None where there is no such round."""
    if race is None or not race.lanes:
        return None
    trace = with_ends_named(race).lanes[_within(lane_index or 0, len(race.lanes))]
    if not trace.rounds:
        return None
    return tree_payload(trace, _within(round_index, len(trace.rounds)), node_index)


def telling_lane(race: Race | None) -> int:
    """The first lane that drafts, else the first."""
    if race is None:
        return 0
    drafting = (place for place, lane in enumerate(race.lanes) if any(r.nodes for r in lane.rounds))
    return next(drafting, 0)


def telling_round(race: Race | None, lane_index: int | None) -> int:
    """The first round with the most to show: much kept, something refused, several forks."""
    if race is None or not race.lanes:
        return 0
    found = race.lanes[_within(lane_index or 0, len(race.lanes))].rounds
    return max(range(len(found)), key=lambda place: (_telling(found[place]), -place), default=0)


def _telling(round_: Round) -> int:
    refused = any(node.fate == "rejected" for node in round_.nodes)
    weighed = bool(round_.scheduling) and 0 < round_.scheduled < len(round_.nodes)
    forks = len(round_.nodes) - len({node.parent for node in round_.nodes} - {-1})
    return 3 * min(len(kept_path(round_.nodes)), 3) + 4 * refused + 3 * weighed + min(forks, 4)


def _within(index: int, count: int) -> int:
    return max(0, min(int(index), count - 1))


def _why_values(trace: Trace, round_: Round) -> tuple[Any, ...]:
    """Whether the scheduler's row is there, and its story and its three charts."""
    if round_.scheduling is None or not round_.nodes:
        return gr.update(visible=False), None, None, None, None
    chances = payload(
        chances_chart(round_),
        chances_alt(round_),
        title=words.CHANCES_TITLE,
        caption=words.CHANCES,
    )
    figure = throughput_chart(round_)
    costs = figure and payload(
        figure, throughput_alt(round_), title=words.COSTS_TITLE, caption=words.COSTS
    )
    story = headed(words.WHY_SENT_TITLE, scheduling_story(round_))
    return gr.update(visible=True), story, chances, costs, lane_reliability(trace)


def _judge_values(trace: Trace, round_: Round) -> tuple[Any, str | None]:
    """Whether the judge's column is there, and its chart."""
    figure = judged.judge_chart(round_)
    if figure is None:
        return gr.update(visible=False), None
    title = "Fork scores against τ" if round_.scores else "Each token against its threshold"
    caption = AT_TEMPERATURE_0 if trace.settings.greedy and not round_.scores else ""
    value = payload(figure, judged.judge_alt(round_), title=title, caption=caption)
    return gr.update(visible=True), value


def _cost_payload(trace: Trace, place: int, baseline: Trace | None) -> str:
    return payload(
        rounds.rounds_chart(trace, place, baseline),
        rounds.rounds_alt(trace, place, baseline),
        title="What each round cost",
        caption=" ".join(reasons(trace, baseline)),
    )
