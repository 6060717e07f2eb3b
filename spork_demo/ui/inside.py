"""The tab "Inside a round": any round of any lane, as text, clock, tree, numbers and cost.

The player moves among the rounds in the browser. The round it comes to rest on is told to the
server, which answers with what has to be drawn for it: tree, judge, schedule, cost, what-if.
"""

import re
from dataclasses import dataclass
from typing import Any

import gradio as gr

from spork_demo.charts import rounds
from spork_demo.charts.figure import paragraph
from spork_demo.charts.scheduling import (
    chances_alt,
    chances_chart,
    throughput_alt,
    throughput_chart,
)
from spork_demo.language import later, say
from spork_demo.metrics import kept_path
from spork_demo.trace import Race, Round, Trace
from spork_demo.ui import words
from spork_demo.ui.ending import with_ends_named
from spork_demo.ui.guard import sent
from spork_demo.ui.judge_view import judge_payload
from spork_demo.ui.notices import headed
from spork_demo.ui.plotly_view import payload, plotly_view
from spork_demo.ui.reel import message_value, reel_value
from spork_demo.ui.reliability_view import lane_reliability
from spork_demo.ui.round_player import round_player
from spork_demo.ui.scheduling_story import scheduling_story
from spork_demo.ui.slower import reasons
from spork_demo.ui.tree_view import tree_payload
from spork_demo.ui.what_if_view import WhatIf, answered, asked, build_what_if, hidden

NO_RACE = later("There is no race yet: run or open one, then step through its rounds here.")
LAST = {"trigger_mode": "always_last"}
EACH = {"trigger_mode": "multiple"}
"""A click is answered also while the answer to the one before is on its way."""
PRIVATE = {"queue": False, "api_visibility": "private", "show_progress": "hidden"}
START = (0, 0)
"""Lane and round where nothing else is asked."""
REST = "(race) => [race, window.sporkRounds.rest]"
"""Where the player rests as the request is made. Gradio sends one that had to wait for the answer
before it with the data of that earlier event, so the event's own data would be stale.
"""


@dataclass(frozen=True, slots=True)
class InsideParts:
    """The tab's widgets. Every handler that shows a round returns values for `outputs`.

    at: the lane and the round that are shown, which later events refer to.
    """

    player: gr.HTML
    at: gr.State
    tree: gr.HTML
    why: gr.Column
    story: gr.HTML
    chances: gr.HTML
    costs: gr.HTML
    reliability: gr.HTML
    judge_column: gr.Column
    judge: gr.HTML
    what_if: WhatIf
    cost: gr.HTML

    @property
    def outputs(self) -> list[gr.blocks.Block]:
        return [self.player, *self.followers]

    @property
    def followers(self) -> list[gr.blocks.Block]:
        """What follows when the player comes to rest on a round."""
        scheduled_by = [self.why, self.story, self.chances, self.costs, self.reliability]
        judged_by = [self.judge_column, self.judge, *self.what_if.outputs]
        return [self.at, self.tree, *scheduled_by, *judged_by, self.cost]

    def show(self, race: Race | None, lane_index: int, round_index: int) -> tuple[Any, ...]:
        """Values of `outputs` for one round; numbers out of range are brought into it."""
        return shown(race, lane_index, round_index)

    def refresh(self, race: Race | None) -> tuple[Any, ...]:
        """Values of `outputs` for a race that has just come: its most telling round."""
        lane_index = telling_lane(race)
        return shown(race, lane_index, telling_round(race, lane_index))


def build_inside(race_state: gr.State) -> InsideParts:
    """Lay the tab out and connect it; `race_state` holds the Race on the page."""
    with gr.Column(elem_id="inside-view"):
        player = round_player(message_value(say(NO_RACE)), elem_id="inside-told", padding=False)
        at = gr.State(START)
        rest = gr.Textbox(visible=False, elem_id="inside-rest")
        tree = plotly_view(elem_id="inside-tree", padding=False)
        with gr.Column(visible=False, elem_id="inside-why") as why:
            story = gr.HTML(elem_id="inside-story", label=say(words.WHY_SENT_TITLE))
            with gr.Row():
                names = ("inside-chances", "inside-costs", "inside-reliability")
                scheduled_by = [_chart(name) for name in names]
        with gr.Row():
            with gr.Column(min_width=320, visible=False) as judge_column:
                judge = plotly_view(elem_id="inside-judge")
            what_if = build_what_if()
        cost = plotly_view(elem_id="inside-cost")
    parts = InsideParts(
        player, at, tree, why, story, *scheduled_by, judge_column, judge, what_if, cost
    )
    # From the start, not by an event on load: its answer would come after the first click.
    for part, value in zip(parts.outputs, parts.refresh(race_state.value), strict=True):
        _begin_with(part, value)
    _connect(parts, race_state, rest)
    return parts


def resting(told: Any) -> tuple[int, int]:
    """Lane and round the browser told, as in "1 12"; the start where it told something else."""
    found = re.fullmatch(r"([0-9]{1,6}) ([0-9]{1,6})", told) if isinstance(told, str) else None
    return (int(found[1]), int(found[2])) if found else START


def _begin_with(part: gr.blocks.Block, value: Any) -> None:
    """Give a component what an event would have given it."""
    changes = value if isinstance(value, dict) else {"value": value}
    for name, given in changes.items():
        if name != "__type__":
            setattr(part, name, given)


def _chart(elem_id: str) -> gr.HTML:
    with gr.Column(min_width=320, elem_classes=["chart-column"]):
        return plotly_view(elem_id=elem_id)


def _connect(parts: InsideParts, race_state: gr.State, rest: gr.Textbox) -> None:
    def settled(race: Race | None, told: Any) -> tuple[Any, ...]:
        return following(race, *resting(told))

    def picked_node(race: Race | None, at: tuple[int, int], event: gr.EventData) -> str | None:
        return tree_of(race, *at, picked(event))

    # Only the last move is answered, and never with the player itself: a late answer would take
    # the handle from under the finger that has moved on.
    parts.player.settled(
        settled,
        [race_state, rest],
        parts.followers,
        js=REST,
        api_name="inside_settled",
        **LAST,
        **PRIVATE,
    )
    parts.tree.node_click(
        picked_node,
        [race_state, parts.at],
        parts.tree,
        api_name="inside_pick_node",
        **EACH,
        **PRIVATE,
    )
    for slider, name in zip(parts.what_if.sliders, ("limit", "low", "high", "length"), strict=True):
        slider.input(
            answered, [race_state, parts.at, *parts.what_if.sliders],
            [parts.what_if.answer, parts.judge], api_name=f"inside_{name}", **LAST, **PRIVATE,
        )  # fmt: skip


def picked(event: gr.EventData) -> int:
    """The index of a clicked point; -1, which is the anchor, where the page sent no number."""
    return sent(event, "index", -1)


def shown(race: Race | None, lane_index: int | None, round_index: int) -> tuple[Any, ...]:
    """Values of `InsideParts.outputs`; never raises for a number out of range or no race."""
    if race is None or not race.lanes:
        return message_value(say(NO_RACE)), *_nothing()
    named = with_ends_named(race)
    lane, place = _within(named, lane_index, round_index)
    return reel_value(named, lane, place), *_following(named, lane, place)


def following(race: Race | None, lane_index: int, round_index: int) -> tuple[Any, ...]:
    """Values of `InsideParts.followers` for the round the player came to rest on."""
    if race is None or not race.lanes:
        return _nothing()
    named = with_ends_named(race)
    return _following(named, *_within(named, lane_index, round_index))


def _following(race: Race, lane: int, place: int) -> tuple[Any, ...]:
    trace = race.lanes[lane]
    if not trace.rounds:
        return ((lane, 0), *_nothing()[1:])
    round_ = trace.rounds[place]
    return (
        (lane, place),
        tree_payload(trace, place),
        *_why_values(trace, round_),
        *_judge_values(trace, round_),
        *asked(trace, place),
        _cost_payload(trace, place, race.baseline),
    )


def _nothing() -> tuple[Any, ...]:
    away = gr.update(visible=False)
    return (START, None, away, None, None, None, None, away, None, *hidden(), None)


def tree_of(
    race: Race | None, lane_index: int | None, round_index: int, node_index: int
) -> str | None:
    """The fork tree of one round with a node selected; None where there is no such round."""
    if race is None or not race.lanes:
        return None
    named = with_ends_named(race)
    lane, place = _within(named, lane_index, round_index)
    trace = named.lanes[lane]
    return tree_payload(trace, place, node_index) if trace.rounds else None


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
    found = race.lanes[_within(race, lane_index, 0)[0]].rounds
    return max(range(len(found)), key=lambda place: (_telling(found[place]), -place), default=0)


def _telling(round_: Round) -> int:
    refused = any(node.fate == "rejected" for node in round_.nodes)
    weighed = bool(round_.scheduling) and 0 < round_.scheduled < len(round_.nodes)
    forks = len(round_.nodes) - len({node.parent for node in round_.nodes} - {-1})
    return 3 * min(len(kept_path(round_.nodes)), 3) + 4 * refused + 3 * weighed + min(forks, 4)


def _within(race: Race, lane: int | None, place: int) -> tuple[int, int]:
    """The nearest lane and round there are."""
    lane = max(0, min(int(lane or 0), len(race.lanes) - 1))
    return lane, max(0, min(int(place), len(race.lanes[lane].rounds) - 1))


def _why_values(trace: Trace, round_: Round) -> tuple[Any, ...]:
    """Whether the scheduler's row is there, and its story and its three charts."""
    if round_.scheduling is None or not round_.nodes:
        return gr.update(visible=False), None, None, None, None
    chances = payload(
        chances_chart(round_),
        chances_alt(round_),
        title=say(words.CHANCES_TITLE),
        caption=say(words.CHANCES),
    )
    figure = throughput_chart(round_)
    costs = figure and payload(
        figure,
        throughput_alt(round_),
        title=say(words.COSTS_TITLE),
        caption=say(words.COSTS),
    )
    story = headed(say(words.WHY_SENT_TITLE), scheduling_story(round_))
    return gr.update(visible=True), story, chances, costs, lane_reliability(trace)


def _judge_values(trace: Trace, round_: Round) -> tuple[Any, str | None]:
    """Whether the judge's column is there, and its chart."""
    value = judge_payload(trace, round_)
    return gr.update(visible=value is not None), value


def _cost_payload(trace: Trace, place: int, baseline: Trace | None) -> str:
    return payload(
        rounds.rounds_chart(trace, place, baseline),
        rounds.rounds_alt(trace, place, baseline),
        title=say("What each round cost"),
        caption=paragraph(reasons(trace, baseline)),
    )
