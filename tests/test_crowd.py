"""Visitors let into a small server: nobody gets another's run, and nothing is left behind."""

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from spork_demo.cli import main
from spork_demo.crowd import load, soak
from spork_demo.crowd.command import lines
from spork_demo.crowd.page import Page
from spork_demo.crowd.races import Outcome, Told, wrong
from spork_demo.crowd.server import AT_REST
from spork_demo.gauges import files_below
from spork_demo.ui.shelf import Shelf
from spork_demo.ui.token_view import head_line, race_lines
from tests.browser.conftest import free_port, wait_for
from tests.sample_race import sample_race

APP = Path(__file__).parent / "browser" / "fake_app.py"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The page on a fake host whose tokens depend on nothing but their place."""
    address = f"http://127.0.0.1:{free_port()}"
    command = [sys.executable, str(APP), "--port", address[-5:].strip(":"), "--gap", "0.001"]
    folder = {"GRADIO_TEMP_DIR": str(tmp_path_factory.mktemp("files"))}
    process = subprocess.Popen([*command, "--observed"], env=os.environ | folder,
                               stderr=subprocess.DEVNULL)  # fmt: skip
    wait_for(process, f"{address}/health")
    yield address
    process.terminate()
    process.wait(30)


def test_a_small_crowd_gets_its_own_runs_and_leaves_nothing_behind(server, tmp_path, monkeypatch):
    monkeypatch.setattr(load, "THINK_SECONDS", 0.2)
    monkeypatch.setattr(load, "RACE_WEIGHT", 12)
    monkeypatch.setattr(load, "STOPS", 0.1)
    monkeypatch.setattr(load, "LEAVES", 0.1)
    monkeypatch.setattr(load, "LIGHT_LIMIT", 60)  # how quick is not for a test to say
    monkeypatch.setattr(load, "MEMORY_LIMIT", 10)
    file = tmp_path / "report.json"
    assert main(["crowd", server, "--visitors", "5", "--minutes", "0.06", "--json", str(file)]) == 0
    report = json.loads(file.read_text())
    assert report["wrong"] == report["faults"] == []
    assert report["races"]["finished"]
    assert set(report["races"]) <= {"finished", "stopped", "left", "busy"}
    assert report["first_word_seconds"]["count"] >= report["races"]["finished"]
    assert not any(report["at_rest"][name] for name in AT_REST)


def test_a_short_soak_leaves_no_thread_file_or_handler(server, tmp_path, monkeypatch):
    monkeypatch.setattr(soak, "WARM", 2)
    monkeypatch.setattr(soak, "SPEED_LIMIT", 10)
    monkeypatch.setattr(soak, "DISTURBED", 0.5)
    monkeypatch.setattr(soak, "CUT_SECONDS", (0.0, 0.05))
    file = tmp_path / "report.json"
    assert main(["soak", server, "--races", "8", "--json", str(file)]) == 0
    report = json.loads(file.read_text())
    assert sum(report["races"].values()) == 8
    assert len(report["races"]) > 1, "some were cut off"
    assert all(report["passed"].values())


def test_a_mixed_up_race_is_found():
    mine, alone = "Visitor 3 asks", (100, 101, 102)
    told = Told(mine, {0: [100, 101, 102], 1: [100, 101, 102]}, {0, 1})
    assert wrong(told, "finished", mine, alone) == ""
    assert "another prompt" in wrong(told, "finished", "Visitor 4 asks", alone)
    assert "other tokens" in wrong(told, "finished", mine, (100, 101, 103))
    stopped = Told(mine, {0: [100, 101], 1: [100]}, {0, 1})
    assert wrong(stopped, "stopped", mine, alone) == ""
    assert "ended early" in wrong(stopped, "finished", mine, alone)
    assert "other tokens" in wrong(Told(mine, {0: [100], 1: [7, 8]}), "left", mine, None)
    assert "of 2 ended" in wrong(Told(mine, {}, {0}), "finished", mine, alone)
    assert "never came" in wrong(Told(), "finished", mine, alone)
    assert wrong(Told(), "busy", mine, alone) == ""


def test_the_lines_of_the_view_are_read_as_they_were_meant():
    race = sample_race()
    told = Told.read(race_lines(race))
    assert told.prompt == race.lanes[0].prompt
    assert told.ids == {place: list(lane.ids) for place, lane in enumerate(race.lanes)}
    assert told.over == set(range(len(race.lanes)))
    assert Told.read(head_line(race)).ids == {}


def outcome(kind="finished", seconds=1.0, rate=40.0, **more):
    return Outcome(kind, seconds, 0.1, rate=rate, **more)


def idle(threads=20.0, files=3.0, memory=500e6, **more):
    return dict.fromkeys(AT_REST, 0.0) | {
        "spork_threads": threads, "process_open_fds": 30.0, "spork_sessions": 5.0,
        "spork_temporary_files": files, "process_resident_memory_bytes": memory,
    } | more  # fmt: skip


def test_a_soak_is_judged_by_what_is_left_and_by_the_speed_of_its_ends():
    fast, slow = [outcome()] * 20, [outcome(rate=35.0)] * 20
    good = soak.report(fast + fast, [], idle(), idle(), 64)
    assert all(good["passed"].values())
    judged = {
        "the last is as fast as the first": soak.report(fast + slow, [], idle(), idle(), 64),
        "no thread is left": soak.report(fast, [], idle(), idle(threads=30.0), 64),
        "no more files than visitors": soak.report(fast, [], idle(), idle(files=90.0), 64),
        "nothing goes on": soak.report(fast, [], idle(), idle(spork_generators=1.0), 64),
        "no more sessions than visitors": soak.report(fast, [], idle(), idle(), 4),
        "nobody met a fault": soak.report(fast, ["a fault"], idle(), idle(), 64),
        "every race belongs to its visitor": soak.report(
            [*fast, outcome(wrong="mixed")], [], idle(), idle(), 64
        ),
    }
    for name, found in judged.items():
        assert [each for each, held in found["passed"].items() if not held] == [name]


def test_a_crowd_is_judged_by_minutes_and_its_memory_after_the_first():
    book = load.Book()
    book.races = [outcome(), outcome("busy"), outcome("stopped", ahead=2)]
    book.light = [(60.0 * minute, "status", 0.1 + 0.05 * minute) for minute in range(4)]
    book.samples = [(30.0 + 60 * n, idle(memory=mb * 1e6)) for n, mb in enumerate((300, 400, 410))]
    report = load.report(book, 3, 240.0, idle())
    assert all(report["passed"].values())
    assert report["races"] == {"finished": 1, "stopped": 1, "busy": 1}
    assert report["told_a_place"] == 1
    assert report["light_median_by_minute"] == pytest.approx([0.1, 0.15, 0.2, 0.25])
    assert report["memory_growth"] == pytest.approx(0.025)
    book.light.append((301.0, "status", 0.4))
    book.samples.append((200.0, idle(memory=440e6)))
    failed = load.report(book, 3, 300.0, idle())["passed"]
    assert [name for name, held in failed.items() if not held] == [
        "light events are quick", "memory is flat after the first minute"
    ]  # fmt: skip
    assert any(line.startswith("NOT SO") for line in lines({"passed": failed}))


def test_events_of_the_first_page_are_found_with_what_follows_them(server):
    page = Page.read(httpx.get(f"{server}/config").json())
    assert [event.name for event in page.after(page.events["race"])] == ["settle"]
    assert "restore" in {event.name for event in page.at_opening()}
    assert page.events["race"].queued and not page.events["recording"].queued
    assert page.values[page.places["prompt"]]


def test_where_nobody_serves_it_is_one_sentence(capsys):
    assert main(["crowd", f"http://127.0.0.1:{free_port()}"]) == 2
    assert capsys.readouterr().err == "There is no server of this program at that address.\n"
    assert main(["soak", "http://127.0.0.1:1", "--races", "nan"]) == 2


def test_the_newest_files_are_kept(tmp_path):
    shelf = Shelf(2)
    first, second = (Path(shelf.put("a.json", data, tmp_path)) for data in (b"1", b"2"))
    assert Path(shelf.put("a.json", b"1", tmp_path)) == first
    third = Path(shelf.put("a.json", b"3", tmp_path))
    assert [file.exists() for file in (first, second, third)] == [True, False, True]
    assert first.read_bytes() == b"1"
    assert len(list(tmp_path.iterdir())) == 2


def test_a_look_that_fails_is_a_fault_and_the_looks_go_on(monkeypatch):
    monkeypatch.setattr(load, "SAMPLE_SECONDS", 0.01)
    answers = iter([500, 200, 200])

    def answer(_request):
        return httpx.Response(next(answers, 200), text="process_resident_memory_bytes 5e9\n")

    async def look():
        book = load.Book(time.perf_counter())
        transport = httpx.MockTransport(answer)
        async with httpx.AsyncClient(transport=transport, base_url="http://made") as made:
            sampling = asyncio.create_task(load._sample(made, book, lambda _line: None))
            while len(book.samples) < 2:
                await asyncio.sleep(0.01)
            sampling.cancel()
            await asyncio.wait([sampling])
        return book

    book = asyncio.run(asyncio.wait_for(look(), 10))
    assert [fault.split(" ")[1] for fault in book.faults] == ["HTTPStatusError"]


def test_a_folder_that_goes_while_files_are_counted_holds_none(tmp_path, monkeypatch):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("x")
    assert files_below(str(tmp_path)) == 2
    look = os.scandir

    def gone(path):
        if str(path).endswith("two"):
            raise FileNotFoundError(path)
        return look(path)

    monkeypatch.setattr(os, "scandir", gone)
    assert files_below(str(tmp_path)) == 1
