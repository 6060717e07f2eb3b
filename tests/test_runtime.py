"""The host: one device, many visitors, runs that stop when they are told to."""

import dataclasses
import platform
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from spork_demo.calibration import CalibrationPlan
from spork_demo.cells import cells
from spork_demo.host import DeferredHost, RunRefusedError
from spork_demo.models.memory import trim_memory
from spork_demo.runtime import LocalHost, _ready
from spork_demo.settings import Settings
from spork_demo.spacefile import PairSpec, read_spacefile
from spork_demo.trace import LaneEvent, Race, Round, advance
from tests.missing import missing
from tests.tiny_checkpoints import saved

SPACEFILE = read_spacefile(Path(__file__).resolve().parent.parent / "Spacefile")
LANES = (Settings(max_new_tokens=8), Settings(method="spork", max_new_tokens=8))
LABELS = ("Greedy", "SPORK")
ARTICLE = Settings(
    "spork", "article", drafter="target", judge="early_layers", fork_shape="forks",
    fork_width=2, fork_depth=1, verifier_layers=1, max_new_tokens=6,
)  # fmt: skip


@pytest.fixture
def host(engine):
    """A host whose pair is already loaded."""
    ready = LocalHost(SPACEFILE)
    ready._engines = {SPACEFILE.pairs[0].name: engine}
    return ready


def finish(events) -> Race:
    race = next(events)
    for news in events:
        race = advance(race, news)
    return race


def test_a_race_comes_as_an_empty_race_and_then_events(host):
    events = host.race("Hello", LANES, LABELS)
    race = next(events)
    assert isinstance(race, Race)
    assert [lane.label for lane in race.lanes] == list(LABELS)
    assert race.lanes[1].settings.drafter == "ngram"
    assert isinstance(next(events), LaneEvent)
    events.close()


@pytest.mark.parametrize(
    ("prompt", "lanes", "words"),
    [
        ("", LANES, "empty"),
        (" \n ", LANES, "empty"),
        ("word " * 5000, LANES, "limit"),
        ("Hello", (Settings(method="dspark"),), "Exact DSpark"),
        ("Hello", (Settings(method="speculative", drafter="draft_model"),), "no draft model"),
    ],
)
def test_what_cannot_run_is_refused_with_a_sentence(host, prompt, lanes, words):
    with pytest.raises(RunRefusedError, match=words):
        next(host.race(prompt, lanes, LABELS[: len(lanes)]))
    assert host._device.acquire(blocking=False)


def test_an_unknown_pair_is_refused(host):
    with pytest.raises(RunRefusedError, match="not one this machine runs"):
        next(host.race("Hello", LANES, LABELS, pair="../../etc"))


def test_another_pair_is_loaded_when_a_race_first_asks_for_it(host, engine, monkeypatch):
    from spork_demo import runtime

    other = dataclasses.replace(SPACEFILE.pairs[0], name="other")
    host._specs["other"] = other
    assert [(pair.name, pair.layers) for pair in host.pairs()][-1] == ("other", 0)
    asked = []
    monkeypatch.setattr(runtime, "load_pair", lambda spec: asked.append(spec) or engine.pair)
    for _ in range(2):
        events = host.race("Hello", LANES, LABELS, pair="other")
        next(events)
        events.close()
    assert asked == [other]
    assert host.pairs()[-1].layers == 30


def test_a_pair_that_cannot_be_loaded_leaves_the_device_free(host, monkeypatch):
    from spork_demo import runtime
    from spork_demo.models.progress import ModelUnavailable

    def missing(spec):
        raise ModelUnavailable("It could not be found here or fetched from the hub.")

    host._specs["other"] = dataclasses.replace(SPACEFILE.pairs[0], name="other")
    monkeypatch.setattr(runtime, "load_pair", missing)
    with pytest.raises(RunRefusedError, match="fetched from the hub"):
        next(host.race("Hello", LANES, LABELS, pair="other"))
    assert not host._device.locked()
    finish(host.race("Hello", LANES, LABELS))


def test_before_the_model_is_loaded_a_run_is_told_why():
    with pytest.raises(RunRefusedError, match="not been asked"):
        next(LocalHost(SPACEFILE).race("Hello", LANES, LABELS))


def test_stopping_frees_the_device_at_once_and_the_next_run_is_as_ever(host):
    wanted = finish(host.race("Hello", LANES, LABELS))
    events = host.race("Count to ten.", LANES, LABELS)
    rounds = 0
    for event in events:
        rounds += isinstance(event, LaneEvent) and isinstance(event.event, Round)
        if rounds == 3:
            break
    begin = time.perf_counter()
    events.close()
    assert time.perf_counter() - begin < 2
    assert not host._device.locked()
    again = finish(host.race("Hello", LANES, LABELS))
    assert [lane.ids for lane in again.lanes] == [lane.ids for lane in wanted.lanes]


def test_two_visitors_take_turns_and_do_not_see_each_other(host):
    prompts = ("Say the word apple.", "Say the word river.")
    alone = [finish(host.race(prompt, LANES, LABELS)) for prompt in prompts]
    together: dict[int, Race] = {}

    def visit(place):
        together[place] = finish(host.race(prompts[place], LANES, LABELS))

    visitors = [threading.Thread(target=visit, args=(place,)) for place in range(2)]
    for visitor in visitors:
        visitor.start()
    for visitor in visitors:
        visitor.join(timeout=60)
    for place in range(2):
        assert together[place].lanes[0].prompt == prompts[place]
        assert [lane.ids for lane in together[place].lanes] == [
            lane.ids for lane in alone[place].lanes
        ]


def test_a_failed_load_is_told_and_recordings_go_on(monkeypatch):
    from spork_demo import runtime
    from spork_demo.models.progress import ModelUnavailable

    def unreachable(spec, report):
        raise ModelUnavailable("The model could not be fetched: there is no network.")

    monkeypatch.setattr(runtime, "load_pair", unreachable)
    host = LocalHost(SPACEFILE)
    host._load_default()
    assert host.status().failed
    assert "no network" in host.status().message
    with pytest.raises(RunRefusedError, match="no network"):
        next(host.race("Hello", LANES, LABELS))


def test_the_page_can_ask_before_the_engine_is_built(host):
    gate = threading.Event()

    def build():
        gate.wait(10)
        return host

    deferred = DeferredHost(build)
    deferred.start()
    assert not deferred.status().ready
    with pytest.raises(RunRefusedError, match="Starting"):
        next(deferred.race("Hello", LANES, LABELS))
    gate.set()
    for _ in range(100):
        if deferred.pairs():
            break
        time.sleep(0.05)
    assert deferred.pairs()[0].layers == 30


def test_an_engine_that_cannot_start_is_told_without_details():
    def build():
        raise ImportError("/secret/path")

    deferred = DeferredHost(build)
    deferred._run()
    assert deferred.status().failed
    assert "secret" not in deferred.status().message


def test_threads_of_torch_are_left_alone(host):
    before = torch.get_num_threads()
    finish(host.race("Hello", LANES, LABELS))
    assert torch.get_num_threads() == before


@pytest.mark.parametrize(
    ("used", "compiler", "ending"),
    [
        ("compiled", True, "lanes run live."),
        ("packed", False, "because there is no C++ compiler."),
        ("packed", True, "because they could not be built or stored."),
        ("stock", True, "because they do not serve this model."),
    ],
)
def test_the_status_says_when_the_kernels_are_not_ours(used, compiler, ending, monkeypatch):
    built = object() if used == "stock" else None
    monkeypatch.setattr("spork_demo.runtime.compiler", lambda: "c++" if compiler else None)
    monkeypatch.setattr("spork_demo.runtime.kernels", lambda: built)
    pair = SimpleNamespace(name="tiny", device="cpu", dtype="float32", kernels=used)
    text = _ready(SimpleNamespace(pair=pair))
    assert text.startswith("tiny is ready (CPU, float32): lanes run live.")
    assert text.endswith(ending)


GRID = cells(
    Settings(method="spork", max_new_tokens=6), {"fork_width": [1, 4], "drafter": ["ngram"]}
)


def test_a_sweep_runs_live_and_exact_cells_equal_greedy(host):
    states = list(host.sweep(["Hello", "Count to ten."], GRID))
    assert (states[0].races, states[-1].races_done) == (2, 2)
    assert states[-1].provenance.target
    for cell in states[-1].cells:
        row = cell.plain()
        assert (row["identical"], row["compared"], row["equal_tokens"]) == (2, 2, 1.0)
        assert row["perplexity_ratio"] == pytest.approx(1.0)
        assert row["tokens"] == 12
        assert cell.resolved.judge == "target"
    assert not host._device.locked()


def test_a_sweep_stops_at_the_next_round_and_frees_the_device(host):
    states = host.sweep(["Hello"], GRID)
    for state in states:
        if state.running and all(lane.rounds for lane in state.running.lanes[:2]):
            break
    assert host._device.locked()
    states.close()
    assert not host._device.locked()
    raced = state.places[0]
    assert state.so_far()[raced].tokens > 0
    assert state.cells[raced].tokens == 0


@pytest.mark.parametrize(
    ("prompts", "change", "words"),
    [
        (["Hello", " "], {}, "empty"),
        (["Hello"], {"drafter": "draft_model"}, "no draft model"),
        (["Hello"], {"drafter": "early_exit", "verifier_layers": 99}, "between 1 and"),
    ],
)
def test_a_sweep_that_cannot_run_is_refused_before_its_first_race(host, prompts, change, words):
    base = Settings(method="speculative", max_new_tokens=4, **change)
    with pytest.raises(RunRefusedError, match=words):
        next(host.sweep(prompts, cells(base, {"draft_length": [2]})))
    assert not host._device.locked()
    with pytest.raises(RunRefusedError, match="not one this machine runs"):
        next(host.sweep(["Hello"], GRID, 1, "../../etc"))


def test_before_the_engine_is_built_a_sweep_is_told_why(host):
    deferred = DeferredHost(lambda: host)
    with pytest.raises(RunRefusedError, match="Starting"):
        next(deferred.sweep(["Hello"], GRID))
    deferred._run()
    assert list(deferred.sweep(["Hello"], GRID))[-1].share == 1.0


def test_costs_are_told_once_they_are_measured_and_never_measured_for_it(host, engine):
    deferred = DeferredHost(lambda: host)
    assert deferred.costs() is None and deferred.rule_counts((1.0,), (1.0,), 1, 0) is None
    assert host.costs("no such pair") is None
    engine.costs._tables.clear()
    assert host.costs() is None
    table = engine.costs.near(100)
    costs = host.costs()
    assert costs.call_seconds == table.call_seconds and costs.rows[:3] == (1, 2, 3)
    assert costs.place.target == engine.pair.target_name
    assert costs.block_seconds is None and costs.chain_seconds is None, "this pair has no drafter"


def test_rules_run_on_the_free_device_and_give_it_back(host):
    counts = host.rule_counts((0.5, 0.5), (0.9, 0.1), 50, seed=1)
    assert sum(counts.exact) == sum(counts.article) == 50
    assert not host._device.locked()


def tiny_host(folder) -> LocalHost:
    torch.random.manual_seed(0)
    pair = PairSpec("tiny", saved(folder / "target"), saved(folder / "draft"), needs="cpu")
    host = LocalHost(dataclasses.replace(SPACEFILE, pairs=(pair,)))
    host._load_default()
    assert host.status().ready
    return host


def test_a_calibration_takes_the_device_and_gives_it_back(tmp_path):
    host = tiny_host(tmp_path)
    plan = CalibrationPlan(ARTICLE, 3)
    steps = list(host.calibrate(plan))
    found = steps[-1].found
    assert steps[-1].share == 1.0
    assert found.pair == "tiny"
    assert found.judges == ("early_layers", "draft_model", "first_token")
    assert found.places == found.prompts * 5
    assert sum(fork.agrees for fork in found.forks) == found.places
    assert found.provenance.target
    stopped = host.calibrate(plan)
    next(stopped)
    assert host._device.locked()
    stopped.close()
    assert not host._device.locked()


def test_a_calibration_the_pair_cannot_serve_is_refused(tmp_path):
    host = tiny_host(tmp_path)
    for settings, words in (
        (dataclasses.replace(ARTICLE, verifier_layers=3), "between 1 and 2"),
        (dataclasses.replace(ARTICLE, drafter="dspark"), "no DSpark drafter"),
    ):
        with pytest.raises(RunRefusedError, match=words):
            next(host.calibrate(CalibrationPlan(settings, 2)))
        assert not host._device.locked()
    with pytest.raises(RunRefusedError, match="not one this machine runs"):
        next(host.calibrate(CalibrationPlan(ARTICLE), pair="other"))
    with pytest.raises(RunRefusedError, match="not been asked"):
        next(LocalHost(SPACEFILE).calibrate(CalibrationPlan(ARTICLE)))


def test_what_a_run_leaves_free_goes_back_before_the_next(host, monkeypatch):
    held = []
    monkeypatch.setattr(
        "spork_demo.runtime.trim_memory", lambda: held.append(host._device.locked())
    )
    finish(host.race("Hello", LANES, LABELS))
    events = host.race("Hello", LANES, LABELS)
    next(events)
    events.close()
    assert held == [True, True]
    assert not host._device.locked()


def test_trimming_gives_free_memory_back():
    if platform.libc_ver()[0] != "glibc":
        missing("only glibc keeps what is free")

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    pieces = [bytes(60_000) for _ in range(3000)]
    kept = pieces[::100]  # between them nothing goes back by itself
    del pieces
    before = resident()
    trim_memory()
    assert before - resident() > 100_000_000
    assert len(kept) == 30
