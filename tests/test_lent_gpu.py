"""Races on a GPU lent for one call at a time: what crosses the fork, what it costs, how it ends."""

import dataclasses
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time

import pytest
import torch

from spork_demo import lent_gpu
from spork_demo.calibration import CalibrationPlan
from spork_demo.cells import cells
from spork_demo.gpu_seconds import LONGEST, SHORTEST
from spork_demo.host import RunRefusedError
from spork_demo.language import known, speaking
from spork_demo.lent_gpu import LentGpuHost, Request
from spork_demo.settings import Settings
from spork_demo.spacefile import PairSpec
from spork_demo.trace import Finished, LaneEvent, Race, Round, advance
from tests.lender import Lender, LenderError
from tests.test_architecture import ROOT
from tests.test_runtime import SPACEFILE
from tests.tiny_checkpoints import saved

LANES = (
    Settings(max_new_tokens=12),
    Settings(method="spork", max_new_tokens=12),
    Settings(method="speculative", drafter="draft_model", max_new_tokens=12),
)
LABELS = ("Greedy", "SPORK", "Speculative")
PROMPT = "w1 w2 w3 w1 w2"


@pytest.fixture(scope="module")
def spacefile(tmp_path_factory):
    torch.random.manual_seed(0)
    folder = tmp_path_factory.mktemp("tiny")
    pair = PairSpec("tiny", saved(folder / "target"), saved(folder / "draft"), needs="cpu")
    missing = dataclasses.replace(pair, name="gone", target=dataclasses.replace(
        pair.target, id=str(folder / "nowhere")))  # fmt: skip
    return dataclasses.replace(SPACEFILE, pairs=(missing, pair))


@pytest.fixture
def lender():
    return Lender()


@pytest.fixture
def host(spacefile, lender):
    host = LentGpuHost(spacefile, lender.GPU)
    host.start()
    return host


def finish(events) -> Race:
    race = next(events)
    for news in events:
        race = advance(race, news)
    return race


def test_every_pair_is_loaded_before_the_page_is_up_and_a_broken_one_is_left_out(host):
    assert host.status().ready
    assert "lent for one run at a time" in host.status().message
    assert [(pair.name, pair.layers) for pair in host.pairs()] == [("tiny", 2)]


def test_a_spacefile_without_a_pair_that_loads_says_why(spacefile, lender):
    host = LentGpuHost(dataclasses.replace(spacefile, pairs=spacefile.pairs[:1]), lender.GPU)
    host.start()
    assert host.status().failed
    with pytest.raises(RunRefusedError, match="no checkpoint"):
        next(host.race(PROMPT, LANES, LABELS))


def test_all_lanes_of_a_race_run_in_one_forked_call_and_give_what_a_plain_host_gives(host, lender):
    plain = finish(super(LentGpuHost, host).race(PROMPT, LANES, LABELS))
    before = dict(vars(host), _rates=None)
    race = finish(host.race(PROMPT, LANES, LABELS))
    assert len(lender.workers) == 1
    assert lender.workers[0].pid != os.getpid()
    assert not lender.workers[0].is_alive()
    assert [lane.ids for lane in race.lanes] == [lane.ids for lane in plain.lanes]
    assert [lane.stop_reason for lane in race.lanes] == ["length"] * 3
    assert all(lane.fidelity.equal_tokens == 1.0 for lane in race.lanes[1:])
    assert dict(vars(host), _rates=None) == before
    assert not host._device.locked()


def test_each_call_is_a_process_of_its_own_and_carries_plain_data(host, lender):
    for _ in range(2):
        finish(host.race(PROMPT, LANES, LABELS))
    assert len({worker.pid for worker in lender.workers}) == 2
    (request,) = pickle.loads(lender.requests[0])
    assert isinstance(request, Request)
    assert request.arguments == (PROMPT, LANES, LABELS, "tiny")
    assert b"torch" not in lender.requests[0]


@pytest.mark.parametrize(
    ("prompt", "lanes", "pair", "words"),
    [
        (" ", LANES, "", "empty"),
        ("w1 " * 70, LANES, "", "limit"),
        (PROMPT, (Settings(method="dspark"),), "", "Exact DSpark"),
        (PROMPT, LANES, "../../etc", "not one this machine runs"),
    ],
)
def test_what_cannot_run_is_refused_before_a_gpu_is_asked_for(
    host, lender, prompt, lanes, pair, words
):
    with pytest.raises(RunRefusedError, match=words):
        next(host.race(prompt, lanes, LABELS[: len(lanes)], pair))
    assert lender.seconds == []


def test_stopping_early_ends_the_worker(host, lender):
    lanes = [Settings(max_new_tokens=50), Settings(method="spork", max_new_tokens=50)]
    events = host.race(PROMPT, lanes, LABELS[:2])
    rounds = 0
    for event in events:
        rounds += isinstance(event, LaneEvent) and isinstance(event.event, Round)
        if rounds == 3:
            break
    events.close()
    assert lender.workers[0].exitcode == 0


def test_a_worker_that_is_killed_is_told_and_what_came_before_stays(host, lender, monkeypatch):
    plain = lent_gpu.LocalHost.race

    def slowly(*arguments):
        for item in plain(*arguments):
            time.sleep(0.05)
            yield item

    monkeypatch.setattr(lent_gpu.LocalHost, "race", slowly)
    events = host.race(PROMPT, LANES, LABELS)
    race = next(events)
    race = advance(race, next(events))
    os.kill(lender.workers[-1].pid, signal.SIGKILL)
    with pytest.raises(RunRefusedError, match="taken back"):
        for news in events:
            race = advance(race, news)
    assert race.lanes[0].prompt == PROMPT


def test_a_run_whose_time_is_over_ends_at_a_round_and_keeps_its_text(host, lender, monkeypatch):
    monkeypatch.setattr(lent_gpu, "SPARE", 0.0)
    monkeypatch.setattr(lent_gpu, "placing_seconds", lambda pairs: 1e9)
    events = list(host.race(PROMPT, LANES, LABELS))
    race = events[0]
    for news in events[1:]:
        race = advance(race, news)
    assert [lane.stop_reason for lane in race.lanes] == ["stopped"] * 3
    assert "over before the end" in race.lanes[0].message
    with speaking("zh"):
        assert "借" in known(race.lanes[0].message)


def test_an_error_in_the_worker_is_one_sentence(host, lender, monkeypatch):
    def broken(*_arguments):
        raise RuntimeError("CUDA error at /secret/path")
        yield

    monkeypatch.setattr(lent_gpu.LocalHost, "race", broken)
    with pytest.raises(RunRefusedError, match="unexpected error") as told:
        next(host.race(PROMPT, LANES, LABELS))
    assert "secret" not in str(told.value)


def test_a_gpu_that_is_not_lent_says_why(spacefile):
    lender = Lender(LenderError("ZeroGPU quota exceeded", "Try again in 3:20:00."))
    host = LentGpuHost(spacefile, lender.GPU)
    host.start()
    with pytest.raises(RunRefusedError, match=r"No GPU is lent for this run: Try again in 3:20"):
        next(host.race(PROMPT, LANES, LABELS))


def test_seconds_are_asked_for_by_the_size_of_the_request(host, lender):
    finish(host.race(PROMPT, LANES[:1], LABELS[:1]))
    huge = [Settings(max_new_tokens=4000, method="spork", drafter="draft_model")] * 3
    events = host.race(PROMPT, huge, LABELS)
    next(events)
    events.close()
    assert lender.seconds == [SHORTEST, LONGEST]


def test_the_app_imports_spaces_before_torch_and_loads_before_it_launches(tmp_path):
    """`spaces` takes CUDA's place when it is imported, and the GPU's weights when pages launch."""
    (tmp_path / "spaces.py").write_text(
        "import sys\nassert 'torch' not in sys.modules\n"
        "def GPU(task=None, *, duration=None):\n"
        "    raise SystemExit('lent before the page is up')\n"
    )
    code = """
        import gradio, app
        gradio.Blocks.launch = lambda *_, **__: print("launched too early")
        app.main()
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "SPACES_ZERO_GPU": "true"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "lent before the page is up" in done.stderr
    assert "too early" not in done.stdout


def test_a_lane_ends_once(host):
    events = list(host.race(PROMPT, LANES, LABELS))
    ends = [item.lane for item in events if isinstance(item, LaneEvent)
            and isinstance(item.event, Finished)]  # fmt: skip
    assert sorted(ends) == [0, 1, 2]


def test_a_sweep_is_one_call_and_brings_what_a_plain_host_brings(host, lender):
    grid = cells(Settings(method="spork", max_new_tokens=8), {"fork_depth": [0, 3]})
    states = list(host.sweep([PROMPT, "w5 w6"], grid, 1, "tiny"))
    plain = list(super(LentGpuHost, host).sweep([PROMPT, "w5 w6"], grid, 1, "tiny"))
    assert len(lender.workers) == 1
    assert states[-1].races_done == plain[-1].races_done == 2
    assert [cell.plain()["identical"] for cell in states[-1].cells] == [
        cell.plain()["identical"] for cell in plain[-1].cells
    ]
    assert len(states) < len(plain)


def test_a_sweep_that_cannot_run_is_refused_before_a_gpu_is_asked_for(host, lender):
    grid = cells(Settings(method="dspark"), {"draft_length": [2, 3]})
    with pytest.raises(RunRefusedError, match="Exact DSpark"):
        next(host.sweep([PROMPT], grid))
    assert lender.seconds == []


def test_of_states_that_hold_all_before_the_first_and_the_last_are_told():
    assert list(lent_gpu.latest(iter(range(1000)))) == [0, 999]
    assert list(lent_gpu.latest(iter(()))) == []


def test_a_calibration_is_one_call_and_brings_what_it_found(host, lender):
    settings = Settings(
        "spork", "article", drafter="target", judge="early_layers", fork_shape="forks",
        fork_width=2, fork_depth=1, verifier_layers=1, max_new_tokens=6,
    )  # fmt: skip
    steps = list(host.calibrate(CalibrationPlan(settings, 2)))
    assert steps[-1].share == 1.0
    assert steps[-1].found.prompts == 2
    assert len(steps[-1].found.forks) > 0
    with pytest.raises(RunRefusedError, match="between 1 and 2"):
        next(host.calibrate(CalibrationPlan(dataclasses.replace(settings, verifier_layers=3), 2)))
