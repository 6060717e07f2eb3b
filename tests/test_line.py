"""Whose turn it is: first come first served in a kind, kinds in turn, lines of limited length."""

import asyncio

import pytest

from spork_demo import line as line_module
from spork_demo.line import KINDS, Line, LineFullError


def called(line, *tickets):
    """The order in which waiting tickets are called as each run ends."""
    order, waiting = [], list(tickets)
    while waiting:
        (now,) = [ticket for ticket in waiting if ticket.called]
        order.append(now)
        waiting.remove(now)
        line.leave(now)
    return order


def test_the_first_is_called_at_once_and_the_others_in_their_order():
    line = Line()
    tickets = [line.join("races") for _ in range(4)]
    assert [ticket.called for ticket in tickets] == [True, False, False, False]
    assert [line.ahead(ticket) for ticket in tickets] == [0, 1, 2, 3]
    assert called(line, *tickets) == tickets


def test_kinds_take_turns_so_that_a_race_waits_for_one_sweep_at_most():
    line = Line()
    sweeps = [line.join("sweeps") for _ in range(3)]
    races = [line.join("races") for _ in range(2)]
    assert [line.ahead(ticket) for ticket in (*sweeps, *races)] == [0, 2, 4, 1, 3]
    assert called(line, *sweeps, *races) == [sweeps[0], races[0], sweeps[1], races[1], sweeps[2]]


def test_a_line_that_is_full_says_how_many_are_ahead_and_others_stay_open():
    line = Line({"races": 2, "sweeps": 1})
    first = line.join("races")
    for _ in range(2):
        line.join("races")
    with pytest.raises(LineFullError) as full:
        line.join("races")
    assert (full.value.kind, full.value.limit, full.value.ahead) == ("races", 2, 3)
    assert line.waiting("races") == 2
    sweep = line.join("sweeps")
    with pytest.raises(LineFullError):
        line.join("sweeps")
    for _ in range(20):
        line.join("calls")  # a kind without a limit
    line.leave(first)
    assert sweep.called
    assert not line.join("sweeps").called, "the one that waited is no longer in the line"


def test_a_place_that_is_free_is_never_refused():
    line = Line(dict.fromkeys(KINDS, 0), places=2)
    tickets = [line.join("races"), line.join("sweeps")]
    assert all(ticket.called for ticket in tickets)
    with pytest.raises(LineFullError):
        line.join("calls")


def test_who_leaves_the_line_moves_the_others_up_and_leaving_twice_does_nothing():
    line = Line()
    first, second, third = (line.join("races") for _ in range(3))
    line.leave(second)
    line.leave(second)
    assert line.ahead(third) == 1
    line.leave(first)
    line.leave(first)
    assert third.called
    fourth = line.join("races")
    assert not fourth.called
    line.leave(third)
    assert fourth.called


def test_news_comes_with_every_move_and_after_a_while_without(monkeypatch):
    async def watch():
        line = Line()
        first, second, third = (line.join("races") for _ in range(3))
        heard = []

        async def listen():
            for _ in range(2):
                third.news.clear()
                await line.news(third)
                heard.append(line.ahead(third))

        listening = asyncio.create_task(listen())
        await asyncio.sleep(0)
        line.leave(second)
        await asyncio.sleep(0.05)
        line.leave(first)
        await listening
        assert heard == [1, 0]
        monkeypatch.setattr(line_module, "LOOK_SECONDS", 0.01)
        fourth = line.join("races")
        fourth.news.clear()
        await line.news(fourth)

    asyncio.run(asyncio.wait_for(watch(), 10))


def test_who_leaves_just_when_the_line_moves_has_left():
    async def watch():
        line = Line()
        _, second = line.join("races"), line.join("races")
        second.news.clear()
        listening = asyncio.create_task(line.news(second))
        await asyncio.sleep(0.01)
        second.news.set()
        listening.cancel()
        await asyncio.wait([listening])
        assert listening.cancelled()

    asyncio.run(asyncio.wait_for(watch(), 10))
