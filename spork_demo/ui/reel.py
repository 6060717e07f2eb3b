"""A race as the round player shows it: every round's text, clock, verdict and cost, sent at once.

Scrubbing and playing then need no server. All sentences are made here, from recorded numbers.
"""

from typing import Any

from spork_demo.charts.figure import counted, lane_name, milliseconds, visible_line
from spork_demo.charts.palette import phase_name
from spork_demo.charts.rounds import PHASE_NAMES, comparable, greedy_seconds, phase_seconds
from spork_demo.clock import counts, ends, standing
from spork_demo.language import later, say
from spork_demo.trace import Race, Round, Trace
from spork_demo.ui.explain import verdict
from spork_demo.ui.round_text import committed_marks, dropped_marks, encoded, shared

VIEW = {
    "title": later("Rounds"),
    "keys": later("Arrow keys step, Home and End jump, the space bar plays and pauses."),
    "lane": later("Lane"),
    "scrub": later("Round"),
    "place": later("Round {round} of {count}, {lane}"),
    "running": later("Round {round} of {count} is running, {lane}"),
    "previous": later("Previous round"),
    "next": later("Next round"),
    "play": later("▶ Play"),
    "pause": later("❚❚ Pause"),
    "speed": later("Playback speed"),
    "all": later("All lanes side by side"),
    "seconds": later("{seconds} s"),
    "token": later("token {tokens} of {count}"),
    "so_far": later("{tokens} tokens · {seconds} s"),
    "at": later("Round {round} of {count}, {seconds} s, token {tokens}"),
    "ended": later("finished after {seconds} s"),
    "prefill": later("The prompt was read in {span} before; the clock starts after it."),
    "ours": later("this round"),
    "greedy": later("greedy, as many"),
    "show": later("Show this lane"),
    "empty": later("This lane has committed nothing yet."),
    "damaged": later("This round's data is damaged."),
}
"""Words of the player, for `say`."""


def reel_value(race: Race, lane: int, place: int) -> str:
    """The player's value, opened on one round of one lane."""
    baseline = race.baseline
    return encoded(
        lane=lane,
        round=place,
        words={name: say(text) for name, text in VIEW.items()},
        phases=[[phase, phase_name(phase)] for phase in PHASE_NAMES],
        lanes=[_lane(trace, baseline) for trace in race.lanes],
        **shared(),
    )


def message_value(message: str) -> str:
    """The value when there is no round to show."""
    return encoded(verdict=message, lanes=[], words={n: say(t) for n, t in VIEW.items()})


def choice_name(trace: Trace) -> str:
    """A lane's name on one line, as it is chosen by."""
    return visible_line(lane_name(trace))


def _lane(trace: Trace, baseline: Trace | None) -> dict[str, Any]:
    other = None if baseline is trace else baseline
    times, tokens = ends(trace), counts(trace)
    # Another server's arrivals and our rounds do not begin at the same moment.
    stood = standing(trace, other) if other and trace.served is None else ()
    price = greedy_seconds(comparable(trace, other))
    return {
        "name": choice_name(trace),
        "prefill": milliseconds(trace.prefill_seconds),
        "tail": trace.tail,
        "rounds": [
            {
                "end": round(times[place], 6),
                "tokens": tokens[place],
                "standing": standing_sentence(tokens[place], stood[place]) if stood else "",
                "verdict": verdict(trace, place),
                "phases": [round(s * 1000, 3) for s in phase_seconds(round_).values()],
                "price": round(price * len(round_.committed) * 1000, 3) if price else None,
                "cost": cost_sentence(round_, price),
                "committed": committed_marks(round_.committed),
                "dropped": dropped_marks(round_),
            }
            for place, round_ in enumerate(trace.rounds)
        ],
    }


def standing_sentence(ours: int, greedy: int) -> str:
    """Where the greedy lane stood when a round ended, by both lanes' own stopwatches."""
    if not greedy:
        return say("Greedy had no token yet by then.")
    if ours == greedy:
        return say("Greedy was at token {count} by then, too.", count=greedy)
    gap = counted(abs(ours - greedy), "token")
    if ours > greedy:
        return say("Greedy was at token {count} by then, {gap} behind.", count=greedy, gap=gap)
    return say("Greedy was at token {count} by then, {gap} ahead.", count=greedy, gap=gap)


def cost_sentence(round_: Round, price: float | None) -> str:
    """A round's time against what the greedy lane pays for as many tokens, at its mean price."""
    if not price or not round_.committed or not round_.seconds:
        return ""
    paid = price * len(round_.committed)
    told = {
        "tokens": counted(len(round_.committed), "token"),
        "span": milliseconds(round_.seconds),
        "price": milliseconds(paid),
    }
    gain = paid / round_.seconds
    told["gain"] = f"{gain:.2f}"
    if gain >= 1:
        return say("{tokens} in {span} where greedy takes {price}: {gain}× as fast.", **told)
    return say("{tokens} in {span} where greedy takes {price}: slower, {gain}× its speed.", **told)
