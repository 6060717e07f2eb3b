"""Handlers that wait their turn: what they are told, that light events pass them, that Stop and a
closed tab give everything back.
"""

import asyncio
import threading
from contextlib import aclosing, closing

import gradio as gr
import httpx
import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError

from spork_demo.language import speaking, spoken
from spork_demo.line import Line
from spork_demo.spacefile import Limits
from spork_demo.ui.api import Endpoints
from spork_demo.ui.calibrate_handlers import CalibrationDesk, Shown
from spork_demo.ui.explore_handlers import Explorer
from spork_demo.ui.handlers import Desk
from spork_demo.ui.turns import in_answers, in_notice, taking_turns
from tests.launched import launched
from tests.sample_race import LIMITS, PRESETS, FakeHost, sample_race
from tests.test_ui_entry import values

SKIP = {"__type__": "update"}
TOLD = in_notice(1, 0)


class Gate:
    """A handler that stays inside a step until it is let go."""

    def __init__(self):
        self.inside, self.go = threading.Event(), threading.Event()
        self.closed = []

    def run(self, name):
        try:
            yield f"{name} begins"
            self.inside.set()
            assert self.go.wait(20)
            yield f"{name} goes on"
        finally:
            self.closed.append(name)


def in_time(work):
    return asyncio.run(asyncio.wait_for(work, 20))


async def inside(gate):
    while not gate.inside.is_set():
        await asyncio.sleep(0.001)


def test_who_waits_is_told_its_place_in_its_own_language():
    async def visit():
        line, gate = Line(), Gate()
        gate.go.set()
        first = line.join("races")
        run = spoken("zh", taking_turns(line, "races", gate.run, TOLD))
        async with aclosing(run("a")) as frames:
            (told,) = await anext(frames)
            assert "notice-waiting" in told
            assert "前面还有 1 个" in told
            line.leave(first)
            assert [frame async for frame in frames] == ["a begins", "a goes on"]
        assert line.join("races").called

    in_time(visit())


def test_a_full_line_is_a_sentence_on_the_page_and_an_error_of_the_api():
    async def visit():
        line, gate = Line({"races": 1, "calls": 1}), Gate()
        for _ in range(2):
            line.join("races")
        (said,) = [frame async for frame in taking_turns(line, "races", gate.run, TOLD)("a")]
        assert "2 runs are ahead, and no more than 1 of this kind" in said[0]
        assert "notice-refused" in said[0]
        line.join("calls")
        with pytest.raises(gr.Error, match="no more than 1 of this kind"):
            await anext(taking_turns(line, "calls", gate.run, in_answers("lanes"))("a"))
        assert not gate.closed

    in_time(visit())


def test_what_will_be_refused_does_not_wait_for_that():
    async def visit():
        line, gate = Line(), Gate()
        gate.go.set()
        line.join("races")
        run = taking_turns(line, "races", gate.run, TOLD, runs=lambda name: name != "wrong")
        assert [frame async for frame in run("wrong")][0] == "wrong begins"
        assert "notice-waiting" in (await anext(run("right")))[0]

    in_time(visit())


@pytest.mark.parametrize("times", [1, 3])
def test_a_run_stopped_inside_a_round_keeps_the_device_until_the_round_ends(times):
    async def visit():
        line, gate = Line(), Gate()

        async def watch():
            async for _ in taking_turns(line, "races", gate.run, TOLD)("a"):
                pass

        watching = asyncio.create_task(watch())
        await inside(gate)
        for _ in range(times):  # Stop, pressed again and again
            watching.cancel()
            await asyncio.sleep(0.01)
        after = line.join("races")
        assert not after.called
        assert not gate.closed
        gate.go.set()
        while not after.called:
            await asyncio.sleep(0.001)
        assert gate.closed == ["a"]
        await asyncio.wait([watching])

    in_time(visit())


def test_who_stops_while_waiting_leaves_the_line_and_never_runs():
    async def visit():
        line, gate = Line(), Gate()
        first = line.join("races")
        waiting = asyncio.create_task(anext_twice(taking_turns(line, "races", gate.run, TOLD)("a")))
        while not line.waiting("races"):
            await asyncio.sleep(0.001)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert line.waiting("races") == 0
        line.leave(first)
        assert line.join("races").called
        assert gate.closed == []

    async def anext_twice(frames):
        async with aclosing(frames):
            async for _ in frames:
                pass

    in_time(visit())


def test_a_handler_that_breaks_gives_its_place_back():
    def broken(_name):
        yield "begins"
        raise RuntimeError("a bug")

    async def visit():
        line = Line()
        with pytest.raises(RuntimeError, match="a bug"):
            async for _ in taking_turns(line, "races", broken, TOLD)("a"):
                pass
        with pytest.raises(TypeError):
            await anext(taking_turns(line, "races", broken, TOLD, lambda *_: True)("a", "b"))
        while not line.join("races").called:
            await asyncio.sleep(0.001)

    in_time(visit())


class BlockedHost(FakeHost):
    """Its runs begin and then stay in their first round until let go."""

    def __init__(self):
        super().__init__(gap=0.0)
        self.go = threading.Event()

    def race(self, *arguments):
        with closing(super().race(*arguments)) as events:
            yield next(events)
            assert self.go.wait(60)
            yield from events


WIDE = Limits(
    **{name: getattr(LIMITS, name) for name in Limits.__dataclass_fields__}
    | {"queue_races": 60, "queue_calls": 3, "visitors": 100}
)


@pytest.fixture(scope="module")
def blocked():
    host = BlockedHost()
    with launched(host, limits=WIDE) as page:
        yield host, page.local_url, page
        host.go.set()


def ask(url, page, name, data, session):
    """Put an event into the queue as the browser does."""
    (event,) = [e for e in page.fns.values() if e.api_name == name and not e.page]
    body = {"data": data, "fn_index": event._id, "session_hash": session}
    return httpx.post(f"{url}gradio_api/queue/join", json=body).raise_for_status()


def test_the_api_says_how_many_are_ahead_and_when_it_is_busy(blocked):
    host, url, _ = blocked
    client = Client(url, verbose=False)
    lanes = [{"method": "greedy"}]
    jobs = []
    for number in range(4):
        jobs.append(client.submit(f"prompt {number}", lanes, api_name="/compare"))
        while not (jobs[-1].outputs() or len(host.asked) == 1 and number == 0):
            assert not jobs[-1].done()
    assert client.predict(api_name="/settings")["ready"]
    assert [job.outputs()[0]["ahead"] for job in jobs[1:]] == [1, 2, 3]
    with pytest.raises(AppError, match="4 runs are ahead, and no more than 3 of this kind"):
        client.predict("prompt 4", lanes, api_name="/compare")
    with pytest.raises(AppError, match="Write a prompt first"):
        client.predict(" ", lanes, api_name="/compare")
    host.go.set()
    texts = [job.result(timeout=30)["lanes"][0]["text"] for job in jobs]
    assert all(texts)
    assert [prompt for prompt, *_ in host.asked] == [f"prompt {n}" for n in range(4)]
    host.go.clear()


def test_what_needs_no_device_is_known_before_the_line():
    desk = Desk(FakeHost(), LIMITS, PRESETS, [])
    assert desk.runs(**values())
    assert not desk.runs(**values(prompt=""))
    explorer = Explorer(FakeHost(), LIMITS, PRESETS)
    assert not explorer.runs(prompts="")
    assert not CalibrationDesk(desk).runs(judge="nobody")
    with pytest.raises(Exception, match="prompt"):
        Endpoints(desk).plan_decode("", {})
    assert Endpoints(desk).plan_decode("Hello", {"method": "greedy"})[0] == "Hello"


def test_who_leaves_the_line_is_told_that_nothing_ran():
    waiting = TOLD.waiting(3)[0]
    desk = Desk(FakeHost(), LIMITS, PRESETS, [sample_race()])
    with speaking("zh"):
        assert "没有运行" in desk.settle(sample_race(), -1, None, waiting)[2]
    assert (
        "nothing was run"
        in Explorer(FakeHost(), LIMITS, PRESETS).settle(None, "bleu", "/nowhere", waiting)[6]
    )
    said, kept = CalibrationDesk(desk).settle(Shown(ended=True), waiting)
    assert ("nothing was run" in said, kept) == (True, SKIP)
    assert desk.settle(sample_race(), -1, None, "<p>Running live…</p>") == (SKIP, SKIP, SKIP)


def test_forty_blocked_runs_do_not_hold_up_a_light_event(blocked):
    host, url, page = blocked
    host.asked.clear()
    host.closed.clear()
    (run,) = [e for e in page.fns.values() if e.api_name == "race" and not e.page]
    filled = values(prompt="blocked")
    names = run.input_parameter_names
    for number in range(40):
        ask(url, page, "race", [filled[name] for name in names], f"visitor{number % 4}")
    (news,) = [e for e in page.fns.values() if e.api_name == "recording" and not e.page]
    light = {"fn_index": news._id, "session_hash": "light", "data": [0], "event_data": None}
    answer = httpx.post(f"{url}gradio_api/run/predict", json=light, timeout=30)
    assert "recorded" in answer.raise_for_status().text
    assert httpx.get(url, timeout=30).status_code == 200
    assert (len(host.asked), host.closed) == (1, []), "one runs, none has ended"
    refused = httpx.post(f"{url}gradio_api/run/race", json={"data": []}, timeout=30)
    assert refused.status_code == 404, "no way past the queue"
