"""Where lanes stand on their own stopwatches, against counting by hand."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from spork_demo.clock import counts, ends, rounds_by, standing, tokens_by
from spork_demo.trace import Trace
from spork_demo.trace_file import read_races
from tests.handmade_rounds import chain, greedy_lane, make_round, taken, tree_lane

RACES = read_races(Path(__file__).parent.parent / "assets" / "traces")


def lane(*spans: tuple[float, int]) -> Trace:
    """A lane whose rounds took so many seconds and kept so many drafts and a bonus."""
    rounds = [
        make_round(place, nodes, taken(nodes, " x"), seconds=seconds)
        for place, (seconds, kept) in enumerate(spans)
        for nodes in [chain([" a"] * kept, kept)]
    ]
    return replace(tree_lane(), rounds=tuple(rounds))


def test_a_lane_is_timed_from_the_end_of_its_prefill():
    timed = lane((0.5, 0), (0.25, 2), (1.0, 1))
    assert ends(timed) == (0.5, 0.75, 1.75)
    assert counts(timed) == (1, 4, 6)
    assert ends(replace(timed, prefill_seconds=9.0)) == ends(timed)


@pytest.mark.parametrize(
    ("seconds", "rounds", "tokens"),
    [(-1, 0, 0), (0, 0, 0), (0.49, 0, 0), (0.5, 1, 1), (0.74, 1, 1), (0.75, 2, 4), (99, 3, 6)],
)
def test_a_round_counts_from_the_moment_it_ends(seconds, rounds, tokens):
    timed = lane((0.5, 0), (0.25, 2), (1.0, 1))
    assert rounds_by(ends(timed), seconds) == rounds
    assert tokens_by(timed, seconds) == tokens


def test_an_empty_lane_stands_at_nothing():
    empty = lane()
    assert ends(empty) == counts(empty) == ()
    assert tokens_by(empty, 5.0) == 0
    assert standing(lane((0.5, 0)), empty) == (0,)


def test_where_greedy_stood_when_a_round_ended():
    greedy = lane((0.4, 0), (0.4, 0), (0.4, 0), (0.4, 0))
    assert standing(lane((0.3, 2), (0.3, 0), (0.7, 4)), greedy) == (0, 1, 3)
    assert standing(greedy, greedy) == counts(greedy), "a lane stands level with itself"


@pytest.mark.parametrize("race", RACES, ids=lambda race: race.title)
def test_recorded_lanes_stand_where_a_walk_along_the_clock_finds_them(race):
    for trace in race.lanes:
        now, found = 0.0, []
        for round_ in trace.rounds:
            now += round_.seconds
            clock = committed = 0
            for theirs in race.baseline.rounds:
                clock += theirs.seconds
                if clock > now:
                    break
                committed += len(theirs.committed)
            found.append(committed)
        assert standing(trace, race.baseline) == tuple(found)
        assert all(one <= other for one, other in pairwise(found))


def test_greedy_rounds_of_40_ms_are_counted_to_the_round():
    greedy = greedy_lane(40)
    assert [tokens_by(greedy, ends(greedy)[k]) for k in range(40)] == list(range(1, 41))
