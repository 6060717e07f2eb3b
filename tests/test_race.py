"""Lanes take turns by their own clocks, fail alone, and are closed with the race."""

import dataclasses
import time

import pytest
import torch

from spork_demo.decoding.greedy import greedy
from spork_demo.decoding.stopwatch import Stopwatch
from spork_demo.fidelity import bleu, compare, first_difference, rouge_l
from spork_demo.metrics import measure
from spork_demo.race import interleave
from spork_demo.settings import Settings
from spork_demo.trace import Finished, LaneEvent, Race, Started, Token, Trace, advance, fold
from tests.test_metrics import round_
from tests.toys import TableModel, table, table_run


def lane(seconds, rounds, closed=None, name=""):
    try:
        yield Started(4, seconds)
        for index in range(rounds):
            yield round_(index, "", 1, seconds=seconds)
        yield Finished("length")
    finally:
        if closed is not None:
            closed.append(name)


def test_the_lane_furthest_behind_on_its_own_clock_goes_next():
    order = [
        news.lane
        for news in interleave([lane(0.3, 2), lane(0.1, 6)])
        if not isinstance(news.event, Finished)
    ]
    # clocks 0/0, .3/0, .3/.1, .3/.2, .3/.3 (the first lane on a tie), ...
    assert order[:5] == [0, 1, 1, 1, 0]
    assert order.count(0) == 3
    assert order.count(1) == 7


def test_every_lane_ends_and_keeps_its_own_events():
    events = list(interleave([lane(0.3, 2), lane(0.1, 6)]))
    for index, rounds in ((0, 2), (1, 6)):
        trace = fold(Trace(Settings(), "p"), [n.event for n in events if n.lane == index])
        assert len(trace.rounds) == rounds
        assert trace.stop_reason == "length"


def test_closing_the_race_closes_every_lane():
    closed = []
    race = interleave([lane(1, 9, closed, "a"), lane(1, 9, closed, "b")])
    for _ in range(3):
        next(race)
    race.close()
    assert closed == ["a", "b"]


def failing(error):
    yield Started(4, 0.1)
    yield round_(0, "", 1)
    raise error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (RuntimeError("CUDA out of memory. secret/path"), "out of memory"),
        (MemoryError(), "out of memory"),
        (KeyError("/secret/path"), "unexpected error"),
    ],
)
def test_an_error_inside_a_round_ends_that_lane_alone_and_keeps_its_text(error, words):
    race = Race("r", (Trace(Settings(), "p"), Trace(Settings(), "p")))
    for news in interleave([failing(error), lane(0.1, 3)]):
        race = advance(race, news)
    assert race.lanes[0].stop_reason == "failed"
    assert words in race.lanes[0].message
    assert "secret" not in race.lanes[0].message
    assert race.lanes[0].text == "x"
    assert race.lanes[1].stop_reason == "length"


def test_a_slow_reader_does_not_stretch_the_lane_clock():
    model, settings = TableModel(table(4, 0)), Settings(max_new_tokens=5)
    events = []
    begin = time.perf_counter()
    for event in greedy(table_run(model, settings, (1, 2), torch.Generator())):
        time.sleep(0.05)
        events.append(event)
    watched = time.perf_counter() - begin
    figures = measure(fold(Trace(settings, "p"), events))
    assert watched > 0.3
    assert figures.decode_seconds < 0.05


def test_the_stopwatch_counts_its_blocks_and_waits_for_the_device_at_both_ends():
    ticks = iter(range(100))
    order = []

    def now():
        order.append("now")
        return next(ticks)

    watch = Stopwatch(lambda: order.append("sync"), now)
    with watch.running("round"), watch.running("judge"):
        pass
    lap = watch.lap()
    assert (lap["round"], lap["judge"], lap["draft"]) == (3, 1, 0)
    assert order == ["sync", "now"] * 4
    assert watch.lap()["round"] == 0


def spoken(ids, **more) -> Trace:
    tokens = tuple(Token(i, f"w{i} ", "plain", margin=0.5) for i in ids)
    rounds = tuple(
        dataclasses.replace(round_(n, "", 1), committed=(token,)) for n, token in enumerate(tokens)
    )
    return Trace(more.pop("settings", Settings()), "p", rounds=rounds, **more)


def compared(*lanes):
    race = Race("r", lanes)
    for news in compare(race, lambda ids: 2.0 + len(ids) if ids else None):
        race = advance(race, news)
    return race.lanes


SPORK = Settings(method="spork")


def test_an_identical_lane_has_no_first_difference():
    _, ours = compared(spoken([1, 2, 3]), spoken([1, 2, 3], settings=SPORK))
    assert ours.fidelity.first_difference is None
    assert ours.fidelity.equal_tokens == 1
    assert ours.fidelity.rouge_l == 1
    assert ours.fidelity.bleu == pytest.approx(1)
    assert ours.fidelity.perplexity == ours.fidelity.greedy_perplexity == 5.0


def test_the_first_difference_names_both_tokens_and_the_margin():
    _, ours = compared(spoken([1, 2, 3, 4]), spoken([1, 2, 9, 4], settings=SPORK))
    found = ours.fidelity
    assert (found.first_difference, found.ours, found.theirs) == (2, "w9 ", "w3 ")
    assert found.margin == 0.5
    assert found.equal_tokens == 0.75
    assert found.rouge_l == 0.75


def test_a_shorter_text_differs_where_it_ends():
    _, ours = compared(spoken([1, 2, 3]), spoken([1, 2], settings=SPORK, stop_reason="eos"))
    assert (ours.fidelity.first_difference, ours.fidelity.ours) == (2, "(end)")


def test_a_lane_the_visitor_stopped_does_not_differ_by_being_shorter():
    _, ours = compared(spoken([1, 2, 3]), spoken([1, 2], settings=SPORK, stop_reason="stopped"))
    assert ours.fidelity.first_difference is None


def test_without_a_greedy_lane_nothing_is_compared():
    (only,) = compared(spoken([1, 2], settings=SPORK))
    assert only.fidelity.equal_tokens is None
    assert only.fidelity.perplexity == 4.0


def test_text_measures_by_hand():
    assert first_difference([1, 2], [1, 2]) is None
    assert first_difference([], [5]) == 0
    assert rouge_l([1, 3], [1, 2, 3, 4]) == pytest.approx(2 * 1 * 0.5 / 1.5)
    assert bleu("", "a b") is None
    assert bleu("水的化学式是水", "水的化学式是水") == pytest.approx(1)


def test_lane_events_name_their_lane():
    assert next(interleave([lane(1, 1)])) == LaneEvent(0, Started(4, 1))
