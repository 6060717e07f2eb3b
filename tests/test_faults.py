"""What breaks is said in the words of the README, and what it promises to keep is kept."""

import errno
import json
import re
import socket
import time
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from spork_demo import runtime
from spork_demo.engine import Engine
from spork_demo.host import RunRefusedError
from spork_demo.models import loading, native
from spork_demo.models.cached_model import CachedModel
from spork_demo.models.pair import load_pair
from spork_demo.models.progress import ModelUnavailable
from spork_demo.race import interleave
from spork_demo.runtime import LocalHost
from spork_demo.spacefile import ModelRef, PairSpec
from spork_demo.trace_file import loads
from spork_demo.ui.api import Endpoints
from spork_demo.ui.explore_handlers import Explorer
from spork_demo.ui.handlers import Desk
from spork_demo.ui.notices import why_not
from spork_demo.ui.results import race_bytes, race_file
from spork_demo.ui.shelf import Shelf
from tests.launched import launched
from tests.page_client import PageClient, widgets
from tests.sample_race import LIMITS, PRESETS, FakeHost, sample_race
from tests.test_architecture import ROOT
from tests.test_embedded import lab as lab  # a fixture
from tests.test_explore import asked
from tests.test_runtime import SPACEFILE
from tests.test_ui_entry import values
from tests.tiny_checkpoints import saved
from tests.toys import tiny_pair

README = (ROOT / "README.md").read_text(encoding="utf-8")
FULL = OSError(errno.ENOSPC, "No space left on device", "/secret/path")


def told(breaks: str) -> str:
    """What the README says is said when that breaks, as a pattern; … stands for a name."""
    (row,) = [line for line in README.splitlines() if line.startswith(f"| {breaks} |")]
    (sentence,) = re.findall("“(.+?)”", row)
    return re.escape(sentence).replace("…", "[^/]+")


def raising(error):
    def work(*_args, **_options):
        raise error

    return work


def desk(host=None):
    return Desk(host or FakeHost(), LIMITS, PRESETS, [sample_race()])


def flip_a_bit(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def test_a_model_with_a_flipped_bit_is_built_again(lab):
    folder = lab.prepare()
    whole = (folder / "model.safetensors").read_bytes()
    flip_a_bit(folder / "model.safetensors")
    assert lab.prepare() == folder
    assert (folder / "model.safetensors").read_bytes() == whole
    said = [report.message for report in lab.reports]
    assert sum(bool(re.fullmatch(told("the stored model is damaged"), each)) for each in said) == 1


def test_a_model_stored_without_sums_is_used_as_before(lab):
    manifest = lab.prepare() / "spork_demo.json"
    plain = json.loads(manifest.read_text(encoding="utf-8"))
    del plain["sums"]
    manifest.write_text(json.dumps(plain), encoding="utf-8")
    lab.prepare()
    assert len(lab.calls) == 1


def test_a_damaged_model_without_a_network_says_so(lab):
    flip_a_bit(lab.prepare() / "model.safetensors")
    sentence = lab.plan("offline").refusal()
    assert re.fullmatch(told("no network, default model not there yet"), sentence)


def test_a_damaged_drafter_leaves_the_recordings(tmp_path, monkeypatch):
    student = tmp_path / "student"
    student.mkdir()
    for file in (ROOT / "assets" / "student" / "smollm2-135m-student").iterdir():
        (student / file.name).write_bytes(file.read_bytes()[:2000])
    target = saved(tmp_path / "target")
    spec = PairSpec("tiny", target, ModelRef("folder", str(student)))
    host = LocalHost(replace(SPACEFILE, pairs=(spec,)))
    host._load_default()
    assert re.fullmatch(told("a drafter's file is damaged"), why_not(host.status()))
    lines, race, said = desk().recording(0)
    assert (lines, race) != ("", None)
    assert "recorded" in said


def test_a_hub_pair_without_a_network_leaves_page_and_other_pairs(monkeypatch, engine):
    monkeypatch.setattr(loading.AutoConfig, "from_pretrained", raising(OSError("no route")))
    spec = PairSpec("far away", ModelRef("hub", "someone/far-away"))
    host = LocalHost(replace(SPACEFILE, pairs=(SPACEFILE.pairs[0], spec)))
    host._engines = {SPACEFILE.pairs[0].name: engine}
    host._status = runtime.Status("ready", ready=True)
    *_, (view, race, said) = desk(host).race(
        **values(pair="far away", max_new_tokens=4, verifier_layers=20)
    )
    assert view == race == {"__type__": "update"}
    assert re.search(told("no network, a pair of the hub"), said)
    with pytest.raises(RunRefusedError):
        next(host.race("Hello", (), (), "far away"))
    assert not host._device.locked()
    *_, (_, race, said) = desk(host).race(**values(lanes=2, max_new_tokens=4))
    assert "Finished" in said
    assert [len(lane.tokens) for lane in race.lanes] == [4, 4]


def test_a_full_disk_while_a_model_is_fetched_is_named(monkeypatch):
    wrapped = RuntimeError("a library's own error")
    wrapped.__cause__ = FULL
    monkeypatch.setattr(loading.AutoConfig, "from_pretrained", raising(wrapped))
    with pytest.raises(ModelUnavailable) as refused:
        load_pair(PairSpec("hub", ModelRef("hub", "someone/large")))
    assert re.fullmatch(told("disk full, model"), str(refused.value))


def test_without_room_for_kernels_lanes_run_on_those_of_torch(monkeypatch):
    monkeypatch.setattr(native, "_built", raising(FULL))
    monkeypatch.setattr(native, "compiler", lambda: "c++")
    assert native.kernels.__wrapped__() is None
    monkeypatch.setattr(runtime, "kernels", lambda: None)
    monkeypatch.setattr(runtime, "compiler", lambda: "c++")
    pair = SimpleNamespace(name="tiny", device="cpu", dtype="float32", kernels="packed")
    said = runtime._ready(SimpleNamespace(pair=pair))
    assert "lanes run live" in said
    assert re.search(told("disk full, kernels"), said)


def test_a_full_disk_takes_the_file_and_nothing_else(monkeypatch, tmp_path):
    shelf, data = Shelf(8), race_bytes(sample_race())
    before = race_file(data, shelf, tmp_path)
    monkeypatch.setattr(Path, "write_bytes", raising(FULL))
    after = race_file(data, shelf, tmp_path)
    assert re.fullmatch(told("disk full, a file to download"), after["label"])
    assert (after["value"], after["interactive"]) == (None, False)
    assert loads(Path(before["value"]).read_bytes()).title == sample_race().title
    *_, last = Explorer(FakeHost(), LIMITS, PRESETS).sweep(**asked())
    *frame, csv, json_, vllm, _ = Explorer(FakeHost(), LIMITS, PRESETS).settle(
        last.explored, "equal_tokens", tmp_path
    )
    assert csv["label"] == json_["label"] == after["label"]
    assert vllm["value"]
    assert last.table
    monkeypatch.undo()
    again = race_file(data, shelf, tmp_path)
    assert (again["value"], again["interactive"]) == (before["value"], True)
    assert again["label"] == before["label"] != after["label"]
    assert [file.name for file in Path(again["value"]).parent.iterdir()] == [
        Path(again["value"]).name
    ]


class OneLaneBreaks(FakeHost):
    """Its second lane meets an error inside its fifth event."""

    error: Exception = KeyError("/secret/path")

    def _events(self, lanes):
        streams = [lane.events() for lane in lanes]
        yield from interleave([streams[0], self._broken(streams[1]), *streams[2:]])

    def _broken(self, events):
        for _ in range(4):
            yield next(events)
        raise self.error


@pytest.mark.parametrize(
    ("error", "breaks"),
    [
        (KeyError("/secret/path"), "a fault inside a round"),
        (
            RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate"
                         " memory: you tried to allocate 9 bytes"),
            "no memory for one token",
        ),
        (MemoryError(), "no memory for one token"),
    ],
)  # fmt: skip
def test_a_lane_that_breaks_keeps_its_text_and_all_others(monkeypatch, error, breaks):
    monkeypatch.setattr(OneLaneBreaks, "error", error)
    host = OneLaneBreaks()
    *_, (lines, race, said) = desk(host).race(**values(max_new_tokens=12))
    assert [lane.stop_reason for lane in race.lanes] == ["length", "failed", "length"]
    assert race.lanes[1].text
    assert len(race.lanes[0].tokens) == len(race.lanes[2].tokens) == 12
    assert re.fullmatch(told(breaks), race.lanes[1].message)
    assert re.search(told(breaks), lines)
    assert "Finished" in said
    assert "secret" not in lines + said
    assert host.closed == ["Hello"]


def test_a_run_that_breaks_keeps_its_text_and_names_want_of_memory():
    for fault, breaks in (
        ("a bug at /secret/path", "a fault of the run"),
        ("CUDA out of memory at /secret/path", "no memory for one token"),
    ):
        host = FakeHost(break_after=30, fault=fault)
        *_, (lines, race, said) = desk(host).race(**values())
        assert re.search(told(breaks), said)
        assert all(lane.stop_reason == "failed" for lane in race.lanes)
        assert race.lanes[0].text
        assert "secret" not in lines + said
        host.break_after = None
        *_, (_, _, said) = desk(host).race(**values(max_new_tokens=4))
        assert "Finished" in said


def test_a_call_that_breaks_ends_with_what_it_has():
    host = FakeHost(break_after=30)
    lanes = [{"method": "greedy"}, {"method": "spork"}]
    *_, last = Endpoints(desk(host)).compare("Hello", lanes)
    assert re.fullmatch(told("a fault of the run"), last["message"])
    assert (last["done"], [lane["stop_reason"] for lane in last["lanes"]]) == (True, ["failed"] * 2)
    assert last["lanes"][0]["text"]
    assert "secret" not in json.dumps(last)
    spork, axes = {"method": "spork"}, {"fork_width": [2, 4]}
    *_, last = Endpoints(desk(FakeHost(break_after=30))).sweep(["Hello"], spork, axes)
    assert re.fullmatch(told("a fault of the run"), last["message"])
    assert len(last["cells"]) == 2


def test_a_perplexity_that_does_not_fit_is_left_out(monkeypatch):
    known = SimpleNamespace(pair=tiny_pair())
    assert Engine.perplexity(known, [1, 2, 3], [4, 5]) > 0
    monkeypatch.setattr(CachedModel, "forward", raising(MemoryError()))
    assert Engine.perplexity(known, [1, 2, 3], [4, 5]) is None
    monkeypatch.setattr(CachedModel, "forward", raising(RuntimeError("a bug")))
    with pytest.raises(RuntimeError, match="a bug"):
        Engine.perplexity(known, [1, 2, 3], [4, 5])


@pytest.fixture
def served():
    """Host, address, and the numbers of a race's event and widgets; texts too large to buffer."""
    host = FakeHost(gap=0.001, texts=("x" * 20_000,))
    with launched(host) as page:
        event = next(each._id for each in page.fns.values() if each.api_name == "race")
        yield host, page.local_url, event, widgets(page)


def test_a_browser_that_reads_slowly_holds_up_nobody_and_gets_all(served):
    host, url, event, names = served
    held = values(prompt="slow", max_new_tokens=60)
    body = {"data": [held[name] for name in names], "fn_index": event, "session_hash": "slow"}
    httpx.post(f"{url}gradio_api/queue/join", json=body).raise_for_status()
    address = httpx.URL(url)
    reader = socket.socket()
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    with reader:
        reader.connect((address.host, address.port))
        path = "/gradio_api/queue/data?session_hash=slow"
        wanted = f"GET {path} HTTP/1.0\r\nHost: {address.host}\r\n\r\n"
        reader.sendall(wanted.encode())
        other = values(prompt="other", max_new_tokens=8)
        data = [other[name] for name in names]
        _, said, _ = PageClient(url, verbose=False).run(data).result(timeout=60)
        assert host.closed == ["slow", "other"]
        assert "Finished" in said
        reader.settimeout(30)
        read = b""
        while block := reader.recv(1 << 20):
            read += block
    (last,) = [line for line in read.splitlines() if b"process_completed" in line]
    lines = json.loads(last.removeprefix(b"data: "))["output"]["data"][0].splitlines()
    kinds = [json.loads(line)["kind"] for line in lines]
    assert kinds.count("finished") == 3


def test_a_tab_that_is_closed_ends_its_run_and_no_other(served):
    host, url, event, names = served
    held = values(prompt="closed", max_new_tokens=128)
    body = {"data": [held[name] for name in names], "fn_index": event, "session_hash": "closed"}
    httpx.post(f"{url}gradio_api/queue/join", json=body).raise_for_status()
    listen = f"{url}gradio_api/queue/data?session_hash=closed"
    with httpx.stream("GET", listen, timeout=30) as stream:
        next(line for line in stream.iter_lines() if "process_generating" in line)
    other = values(prompt="other", max_new_tokens=8)
    PageClient(url, verbose=False).run([other[name] for name in names]).result(timeout=60)
    deadline = time.monotonic() + 10
    while "closed" not in host.closed and time.monotonic() < deadline:
        time.sleep(0.02)
    assert sorted(host.closed) == ["closed", "other"]


def test_a_run_that_began_again_says_so_and_is_whole():
    class Losing(FakeHost):
        def race(self, *asked):
            yield from islice(super().race(*asked), 4)
            yield from super().race(*asked)

    *_, (lines, race, said) = desk(Losing()).race(**values(max_new_tokens=12))
    assert re.search(told("a lost replica of a cluster"), said)
    *_, (once, whole, _) = desk(FakeHost()).race(**values(max_new_tokens=12))
    assert [lane.text for lane in race.lanes] == [lane.text for lane in whole.lanes]
    assert lines == once, "what the lost machine had sent is gone"


def test_every_sentence_of_the_table_is_tried_here():
    table = README.split("## When something breaks")[1].split("\n## ")[0]
    rows = [line for line in table.splitlines() if "“" in line]
    tried = Path(__file__).read_text(encoding="utf-8")
    assert len(rows) > 8
    assert [row for row in rows if f'"{row.split("|")[1].strip()}"' not in tried] == []
