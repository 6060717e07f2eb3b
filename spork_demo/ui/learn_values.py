"""What the lesson shows of costs: values for its components, measured here or recorded."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from spork_demo.charts.figure import listed, milliseconds, number, paragraph
from spork_demo.charts.lesson import (
    calls_alt,
    calls_chart,
    cost_alt,
    cost_chart,
    gain_alt,
    gain_chart,
)
from spork_demo.host import Host
from spork_demo.language import say
from spork_demo.lesson import break_even
from spork_demo.lesson.costs import DRAFTERS, Curve, curve_of, recorded_curve
from spork_demo.lesson.examples import article_spork
from spork_demo.metrics import measure, speedup
from spork_demo.trace import Race
from spork_demo.ui.plotly_view import payload

EXAMPLE_ROWS = 8


@dataclass(frozen=True, slots=True)
class Numbers:
    """Where the lesson's numbers come from. `recorded_costs`: used while nothing is measured."""

    host: Host
    recorded: Sequence[Race]
    recorded_costs: Curve | None

    @classmethod
    def of(cls, host: Host, recorded: Sequence[Race]) -> "Numbers":
        return cls(host, recorded, recorded_curve(recorded))

    def curve(self) -> Curve | None:
        """This machine's measured costs, else the recorded ones, else nothing."""
        costs = self.host.costs()
        return curve_of(costs) if costs else self.recorded_costs


def told(text: str) -> str:
    """A sentence that changes with the live part it stands under."""
    return f'<p class="learn-told" role="status">{escape(text)}</p>' if text else ""


def bounded(value: Any, low: float, high: float) -> float:
    """What a slider sent, within its bounds; the lower one where it sent no number."""
    number_sent = isinstance(value, int | float) and not math.isnan(value)
    return min(high, max(low, value)) if number_sent else low


def origin(curve: Curve | None) -> str:
    """Where costs come from, as a badge and a sentence."""
    if curve is None:
        text = say(
            "Not measured yet: the costs appear here as soon as the model has been loaded and "
            "timed on this machine."
        )
        return f'<p class="learn-origin">{escape(text)}</p>'
    place = curve.place
    where = listed(filter(None, (place.target, place.device, place.dtype, place.date[:10])))
    if curve.recorded:
        badge = say("recorded")
        text = say(
            "{where}. Medians over {rounds} rounds of the recorded races; the model on this "
            "machine has not been timed.",
            where=where, rounds=curve.rounds,
        )  # fmt: skip
    else:
        badge = say("measured here")
        text = say("{where}, after {context} tokens of text.", where=where, context=curve.context)
    kind = "recorded" if curve.recorded else "live"
    return (
        f'<p class="learn-origin"><span class="badge badge-{kind}">{escape(badge)}</span> '
        f"{escape(text)}</p>"
    )


def cost_values(curve: Curve | None) -> tuple[str | None, str]:
    """Step 1: the chart, and what it says about one size."""
    if curve is None:
        return None, ""
    rows = min(EXAMPLE_ROWS, curve.most_rows)
    one, many = curve.call(1), curve.call(rows)
    sentence = say(
        "A call on one row takes {one}, a call on {rows} rows {many}: {ratio} times as long for "
        "{rows} times the tokens.",
        one=milliseconds(one), many=milliseconds(many), rows=rows, ratio=number(many / one),
    )  # fmt: skip
    chart = payload(cost_chart(curve), cost_alt(curve), title=say("What a target call costs"))
    return chart, told(sentence)


def drafter_choices(curve: Curve | None) -> list[str]:
    """The drafters whose cost is known; free drafts always are."""
    return [name for name in DRAFTERS if curve and curve.draft(name, 1) is not None] or ["free"]


def gain_values(
    curve: Curve | None, acceptance: Any, drafts: Any, drafter: str | None
) -> tuple[str | None, str]:
    """Step 5: the speedup over draft length, and the sum behind the chosen one."""
    if curve is None:
        return None, ""
    a = bounded(acceptance, 0.0, 1.0)
    who = drafter if drafter in drafter_choices(curve) else drafter_choices(curve)[0]
    ratios = break_even.speedups(curve, who, a)
    best = break_even.best_length(ratios)
    gamma = int(bounded(drafts, 0, len(ratios) - 1))
    chart = payload(
        gain_chart(ratios, gamma, best),
        gain_alt(ratios, gamma, best),
        title=say("Speedup by draft length"),
    )
    return chart, told(_gain_sentence(curve, who, a, gamma, best, ratios))


def _gain_sentence(
    curve: Curve, drafter: str, a: float, gamma: int, best: int, ratios: Sequence[float]
) -> str:
    sentences = [
        say(
            "γ = {gamma}: {tokens} tokens expected in {draft} of drafting and {call} of target "
            "call, against {one} a token: {ratio}×.",
            gamma=gamma,
            tokens=number(break_even.expected_tokens(a, gamma)),
            draft=milliseconds(curve.draft(drafter, gamma) or 0.0),
            call=milliseconds(curve.call(gamma + 1)),
            one=milliseconds(curve.call(1)),
            ratio=number(ratios[gamma]),
        )
    ]
    needed = break_even.needed_acceptance(curve, drafter, gamma)
    if needed is not None:
        sentences.append(say("It breaks even at a = {needed}.", needed=number(needed)))
    elif gamma:
        sentences.append(say("It cannot pay even if every draft is accepted."))
    if best == 0:
        sentences.append(say("No draft length pays here: plain decoding is fastest."))
    else:
        sentences.append(say("The best is γ = {best}: {ratio}×.", best=best,
                             ratio=number(ratios[best])))  # fmt: skip
    return paragraph(sentences)


def article_values(recorded: Sequence[Race]) -> tuple[str | None, str]:
    """Step 6: calls a token by the share of kept forks, with the recorded lane on it."""
    found = article_spork(recorded)
    if found is None:
        return None, told(say("No recorded race has such a lane; the arithmetic holds without."))
    race = recorded[found[0]]
    lane = race.lanes[found[1]]
    figures, depth = measure(lane), lane.settings.fork_depth
    kept = figures.accepted_rounds or 0.0
    calls = figures.target_calls_per_token or 0.0
    ratio = speedup(lane, race.baseline)
    sentence = say(
        "The recorded lane, M = {depth}: {rounds} rounds with {calls} target calls a token, at "
        "{ratio}× the speed of plain decoding. Even if every round kept its fork, it would be one "
        "call a token, and plain decoding pays no more.",
        depth=depth, rounds=figures.rounds, calls=number(calls), ratio=number(ratio),
    )  # fmt: skip
    chart = payload(
        calls_chart(depth, kept, calls),
        calls_alt(depth, kept, calls),
        title=say("Target calls a token"),
    )
    return chart, told(sentence)
