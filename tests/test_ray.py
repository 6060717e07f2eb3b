"""Ray for real, two replicas on this machine: what a visitor gets is what one machine gives."""

import dataclasses
import importlib.util
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest
import torch

from spork_demo.calibration import CalibrationPlan
from spork_demo.cells import cells
from spork_demo.cluster.host import ClusterHost
from spork_demo.cluster.messages import Begun
from spork_demo.cluster_spec import LOCAL, Cluster
from spork_demo.host import RunRefusedError
from spork_demo.runtime import LocalHost
from spork_demo.settings import Settings
from spork_demo.spacefile import PairSpec
from spork_demo.trace import LaneEvent, Race, Round, advance
from tests.missing import missing
from tests.test_runtime import ARTICLE, SPACEFILE
from tests.tiny_checkpoints import saved, tiny_llama

CLUSTER = Cluster("ray", LOCAL, replicas=2, gpus=0, cpus=1, queue=1)
CONTEXT = 512
PROMPT = "w1 w2 w3 w1 w2"
LANES = (
    Settings(max_new_tokens=60),
    Settings(method="spork", max_new_tokens=60, fork_shape="forks"),
    Settings(method="speculative", drafter="draft_model", max_new_tokens=60),
)
LABELS = ("Greedy", "SPORK", "Speculative")
LONG, ENDLESS = (
    tuple(dataclasses.replace(lane, max_new_tokens=tokens) for lane in LANES)
    for tokens in (250, 450)
)
READY_SECONDS = 120


class Watched:
    """A pool that remembers which replica took each run."""

    def __init__(self, pool) -> None:
        self.begun: list[str] = []
        self.start, self.close, self._pool = pool.start, pool.close, pool

    def stream(self, request, stop=None):
        with closing(self._pool.stream(request, stop)) as items:
            for item in items:
                if isinstance(item, Begun):
                    self.begun.append(item.replica)
                yield item


@pytest.fixture(scope="module")
def spacefile(tmp_path_factory):
    torch.random.manual_seed(0)
    folder = tmp_path_factory.mktemp("tiny")
    target, draft = (tiny_llama(max_position_embeddings=CONTEXT) for _ in range(2))
    pair = PairSpec("tiny", saved(folder / "target", target), saved(folder / "draft", draft))
    return dataclasses.replace(SPACEFILE, pairs=(pair,))


@pytest.fixture(scope="module")
def pool(spacefile) -> Iterator[Watched]:
    if importlib.util.find_spec("ray") is None:
        missing("Ray is not installed")
    from spork_demo.cluster.ray_pool import RayPool

    folder = tempfile.mkdtemp(prefix="ray")  # short: sockets have short names
    before, os.environ["RAY_TMPDIR"] = os.environ.get("RAY_TMPDIR"), folder
    watched = Watched(RayPool(spacefile, CLUSTER))
    yield watched
    watched.close()
    del os.environ["RAY_TMPDIR"]
    if before is not None:
        os.environ["RAY_TMPDIR"] = before
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def host(pool) -> ClusterHost:
    host = ClusterHost(pool, CLUSTER)
    host.start()
    until(lambda: host.status().ready or host.status().failed)
    assert host.status().ready, host.status()
    return host


@pytest.fixture(scope="module")
def local(spacefile) -> LocalHost:
    host = LocalHost(spacefile)
    host._load_default()
    return host


def until(holds, seconds: float = READY_SECONDS) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)


def finish(events) -> Race:
    race = None
    for item in events:
        race = item if isinstance(item, Race) else advance(race, item)
    return race


def kill(replica: str) -> None:
    """As the kernel ends what has no memory left: no goodbye."""
    os.kill(int(replica.split(":")[1]), signal.SIGKILL)


def shape(race: Race) -> list[tuple]:
    """Everything of a race but what was timed."""
    return [
        (
            lane.settings, lane.label, lane.text, lane.stop_reason, lane.message, lane.fidelity,
            [(r.index, r.accepted, r.scheduled, [t.token for t in r.committed],
              [(n.token, n.parent, n.fate) for n in r.nodes], r.target_calls) for r in lane.rounds],
        )
        for lane in race.lanes
    ]  # fmt: skip


def test_a_race_is_what_one_machine_gives_in_text_and_rounds(host, local):
    assert "Replicas on the cluster: 2." in host.status().message
    assert [(pair.name, pair.layers) for pair in host.pairs()] == [("tiny", 2)]
    assert host.costs().place.device == "CPU"
    assert shape(finish(host.race(PROMPT, LANES, LABELS))) == shape(
        finish(local.race(PROMPT, LANES, LABELS))
    )


def test_events_arrive_while_the_run_goes_on(host):
    arrived = []
    for _ in host.race(PROMPT, LONG, LABELS):
        arrived.append(time.monotonic())
    steps = [later - sooner for sooner, later in zip(arrived, arrived[1:], strict=False)]
    assert sum(step > 0.01 for step in steps) > 3


def test_what_cannot_run_is_refused_in_the_words_of_one_machine(host):
    with pytest.raises(RunRefusedError, match="empty"):
        next(host.race(" ", LANES, LABELS))
    with pytest.raises(RunRefusedError, match="Exact DSpark"):
        next(host.sweep([PROMPT], cells(Settings(method="dspark"), {"draft_length": [2, 3]})))
    with pytest.raises(RunRefusedError, match="not one this machine runs"):
        next(host.race(PROMPT, LANES, LABELS, "../../etc"))


def test_two_runs_go_to_two_replicas_and_what_waits_beyond_the_queue_is_told(host, pool):
    with (
        closing(host.race(PROMPT, ENDLESS, LABELS)) as one,
        closing(host.race(PROMPT, ENDLESS, LABELS)) as other,
    ):
        next(one), next(other)
        assert len(set(pool.begun[-2:])) == 2
        told: list[str] = []

        def ask() -> None:
            try:
                told.append(finish(host.race(PROMPT, LANES, LABELS)).lanes[0].stop_reason)
            except RunRefusedError as error:
                told.append(str(error))

        askers = [threading.Thread(target=ask) for _ in range(4)]
        for asker in askers:
            asker.start()
        until(lambda: told)
    for asker in askers:
        asker.join(READY_SECONDS)
    busy = [answer for answer in told if "Every machine is busy and 1 runs wait" in answer]
    assert 1 <= len(busy) <= 3
    assert len(busy) + told.count("length") == 4


def test_stop_ends_the_run_in_the_replica(host):
    begun = time.monotonic()
    runs = [host.race(PROMPT, ENDLESS, LABELS) for _ in range(2)]
    for events in runs:
        rounds = 0
        while rounds < 60:
            item = next(events)
            rounds += isinstance(item, LaneEvent) and isinstance(item.event, Round)
    pace = (time.monotonic() - begun) / 60
    for events in runs:
        events.close()
    begun = time.monotonic()
    finish(host.race(PROMPT, LANES[:1], LABELS[:1]))
    assert time.monotonic() - begun < 450 * pace


def test_calibrations_and_counts_run_there_too(host):
    steps = list(host.calibrate(CalibrationPlan(ARTICLE, 2)))
    assert steps[-1].found.prompts == 2
    counts = host.rule_counts([0.6, 0.3, 0.1], [0.2, 0.5, 0.3], 200, 1)
    assert sum(counts.exact) == sum(counts.article) == 200


def test_a_sweep_loses_and_doubles_nothing_when_a_replica_dies(host, pool, local):
    grid = cells(
        Settings(method="speculative", drafter="draft_model", max_new_tokens=120),
        {"seed": [0, 1, 2], "draft_length": [2, 4]},
    )
    states, killed = [], False
    for state in host.sweep([PROMPT], grid):
        states.append(state)
        if not killed and len(state.under_way) == 2 and state.running.lanes[0].rounds:
            kill(pool.begun[-1])
            killed = True
    last = states[-1]
    assert (last.races_done, last.races, last.lanes_done, last.share) == (3, 3, 9, 1.0)
    assert [len(cell.outcomes) for cell in last.cells] == [1] * 6
    *_, alone = local.sweep([PROMPT], grid)
    assert [_counted(cell) for cell in last.cells] == [_counted(cell) for cell in alone.cells]
    shares = [state.races_done for state in states]
    assert shares == sorted(shares)


def _counted(cell) -> tuple:
    (outcome,) = cell.outcomes
    return outcome.tokens, outcome.rounds, outcome.target_calls, outcome.identical, outcome.fidelity


def test_a_run_whose_replica_dies_begins_again_once_and_the_second_time_is_told(host, pool, local):
    races, item = 0, None
    race = None
    for item in host.race(PROMPT, LONG, LABELS):
        if isinstance(item, Race):
            races += 1
            race = item
            continue
        race = advance(race, item)
        if races == 1 and len(race.lanes[0].rounds) == 5:
            kill(pool.begun[-1])
    assert races == 2
    assert shape(race) == shape(finish(local.race(PROMPT, LONG, LABELS)))

    races = 0
    with pytest.raises(RunRefusedError, match="so was the one it began again on"):
        for item in host.race(PROMPT, LONG, LABELS):
            if isinstance(item, Race):
                races += 1
                kill(pool.begun[-1])
    assert races == 2
