"""The token that ends a text has no text of its own: here it gets one to be shown by."""

from dataclasses import replace

from spork_demo.language import say
from spork_demo.trace import Race, Round, Trace
from spork_demo.ui import words
from spork_demo.ui.served_view import UNSEEN


def with_ends_named(race: Race) -> Race:
    """`race` with the stop token written out wherever a lane drafted or committed it.

    Known only from a lane that a stop token ended; all lanes here share one tokenizer. Tokens of a
    served lane have no numbers; those without letters of their own get a mark.
    """
    race = replace(race, lanes=tuple(_marked(lane) for lane in race.lanes))
    here = [lane for lane in race.lanes if lane.served is None]
    last = (lane.tokens[-1] for lane in here if lane.stop_reason == "eos" and lane.rounds)
    stops = {token.token for token in last if not token.text}
    if not stops:
        return race
    lanes = tuple(
        replace(lane, rounds=tuple(_named(round_, stops) for round_ in lane.rounds))
        for lane in race.lanes
    )
    return replace(race, lanes=lanes)


def _marked(lane: Trace) -> Trace:
    if lane.served is None:
        return lane
    rounds = []
    for round_ in lane.rounds:
        shown = tuple(replace(token, text=token.text or UNSEEN) for token in round_.committed)
        rounds.append(replace(round_, committed=shown))
    return replace(lane, rounds=tuple(rounds))


def _named(round_: Round, stops: set[int]) -> Round:
    if not any(item.token in stops for item in (*round_.nodes, *round_.committed)):
        return round_
    nodes, committed = (
        tuple(replace(i, text=say(words.END_OF_TEXT)) if i.token in stops else i for i in items)
        for items in (round_.nodes, round_.committed)
    )
    return replace(round_, nodes=nodes, committed=committed)
