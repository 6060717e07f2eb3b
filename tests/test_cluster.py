"""Runs on a cluster, seen from the page: what is tried again, told, kept, and never counted twice.

The replicas here are a script, so that every loss comes where it is wanted.
"""

import dataclasses
import threading
import time

import pytest
from prometheus_client import CollectorRegistry

from spork_demo.cells import cells
from spork_demo.cluster.host import ClusterHost
from spork_demo.cluster.messages import Begun, BusyError, Facts, LostError, Refused
from spork_demo.cluster_spec import Cluster
from spork_demo.host import DeferredHost, PairInfo, RunRefusedError, Status
from spork_demo.language import speaking
from spork_demo.observed import ObservedHost
from spork_demo.settings import Settings
from spork_demo.spacefile import SpacefileError, parse_spacefile
from spork_demo.trace import Finished, LaneEvent, Race, Round, Started, Token, Trace, advance
from spork_demo.ui.api import Endpoints
from spork_demo.ui.handlers import Desk, Film
from tests.sample_race import LIMITS, PRESETS
from tests.test_spacefile import SMALL

CLUSTER = Cluster("ray", "auto", replicas=2, gpus=1, cpus=4, queue=3)
FACTS = Facts("0.1.0", "tiny is ready.", (PairInfo("tiny", 2, has_draft_model=True),))
LANES = (Settings(max_new_tokens=3), Settings(method="speculative", max_new_tokens=3))


def run_of(lanes, prompt: str = "Hi") -> list:
    """A whole run as a replica sends it."""
    items = [Begun("host:1"), Race(prompt, tuple(Trace(lane, prompt) for lane in lanes))]
    for place in range(len(lanes)):
        items.append(LaneEvent(place, Started(2, 0.1)))
        for index in range(3):
            token = Token(index, f"t{index}", "plain")
            items.append(
                LaneEvent(place, Round(index, (), (token,), 0, 0, 1, 0, 2, 0.1, 0, 0.1, 0))
            )
        items.append(LaneEvent(place, Finished("length")))
    return [*items, FACTS]


class Scripted:
    """Replicas that do what `script` says of each race in turn: an exception after so many items,
    or an item instead of the rest; once the script is over, every run goes well.
    """

    def __init__(self, *script) -> None:
        self.script = list(script)
        self.requests, self.closed, self.ended = [], [], False
        self.lock = threading.Lock()

    def start(self) -> Facts:
        return FACTS

    def close(self) -> None:
        self.ended = True

    def stream(self, request, stop=None):
        with self.lock:
            self.requests.append(request)
            after, what = self.script.pop(0) if self.script else (None, None)
        items = [Begun("host:1"), FACTS]
        if request.kind == "race":
            items = run_of(request.arguments[1], request.arguments[0])
        try:
            for item in items if after is None else items[:after]:
                if stop is not None and stop.is_set():
                    return
                yield item
            if isinstance(what, Exception):
                raise what
            if what is not None:
                yield what
        finally:
            self.closed.append(request)


def host_of(*script) -> tuple[ClusterHost, Scripted]:
    pool = Scripted(*script)
    host = ClusterHost(pool, CLUSTER)
    host.start()
    end = time.monotonic() + 10
    while not host.status().ready and time.monotonic() < end:
        time.sleep(0.01)
    return host, pool


def folded(events) -> tuple[Race, int]:
    race, begun = None, 0
    for item in events:
        begun += isinstance(item, Race)
        race = item if isinstance(item, Race) else advance(race, item)
    return race, begun


def test_a_run_is_what_its_replica_sends_and_what_the_replica_knows_is_kept():
    host, pool = host_of()
    race, begun = folded(host.race("Hi", LANES, ("a", "b"), "tiny"))
    assert begun == 1
    assert [lane.text for lane in race.lanes] == ["t0t1t2", "t0t1t2"]
    assert pool.requests[0].arguments == ("Hi", LANES, ("a", "b"), "tiny")
    assert host.pairs() == FACTS.pairs
    assert host.costs() is None
    assert host.rule_counts([1.0], [1.0], 10, 0) is None
    host.close()
    assert pool.ended


def test_a_run_is_told_in_the_language_of_its_visitor():
    host, pool = host_of((1, BusyError()))
    with speaking("zh"), pytest.raises(RunRefusedError, match="已有 3 次运行在排队"):
        next(host.race("Hi", LANES, ("a", "b")))
    assert pool.requests[0].language == "zh"


def test_a_loss_before_anything_was_shown_is_not_noticed():
    host, pool = host_of((1, LostError("gone")))
    race, begun = folded(host.race("Hi", LANES, ("a", "b")))
    assert begun == 1
    assert len(pool.requests) == 2
    assert race.lanes[1].stop_reason == "length"


@pytest.mark.parametrize("after", range(2, 12))
def test_a_loss_in_the_middle_begins_again_from_the_start(after, caplog):
    host, pool = host_of((after, LostError("gone")))
    race, begun = folded(host.race("Hi", LANES, ("a", "b")))
    assert begun == 2
    assert [len(lane.rounds) for lane in race.lanes] == [3, 3]
    assert len(pool.closed) == 2
    (record,) = [r for r in caplog.records if "begins again" in r.message]
    assert record.fields == {"kind": "race", "replica": "host:1: gone"}


def test_a_stream_that_breaks_off_without_an_error_is_a_loss_too():
    host, _ = host_of((5, None))
    race, begun = folded(host.race("Hi", LANES, ("a", "b")))
    assert (begun, race.lanes[1].stop_reason) == (2, "length")


def test_the_second_loss_is_told_and_what_was_shown_stays():
    host, pool = host_of((6, LostError("gone")), (4, LostError("gone")))
    events = host.race("Hi", LANES, ("a", "b"))
    seen = []
    with pytest.raises(RunRefusedError, match="so was the one it began again on"):
        for item in events:
            seen.append(item)
    assert len(seen) == 5 + 3
    assert len(pool.requests) == 2


def test_a_refusal_is_passed_on_and_not_tried_again():
    host, pool = host_of((1, Refused("The prompt is empty.")))
    with pytest.raises(RunRefusedError, match="The prompt is empty"):
        next(host.race("", LANES, ("a", "b")))
    assert len(pool.requests) == 1


def test_the_page_shows_the_lanes_again_and_says_so():
    film = Film(time.monotonic, 60, 0.0)
    host, _ = host_of((6, LostError("gone")))
    frames = []
    for item in host.race("Hi", LANES, ("a", "b")):
        film.take(item)
        frames.append(film.frame()[2])
    running, again = [said for said in frames if isinstance(said, str)]
    assert "Running live" in running
    assert "began again on another one" in again, "each is said once"
    assert frames.index(again) > 4
    lines, race, told = film.last()
    assert "began again on another one" in told and "Finished" in told
    assert lines.count('"kind":"race"') + lines.count('"kind": "race"') == 1
    assert [len(lane.rounds) for lane in race.lanes] == [3, 3]


def test_a_caller_is_told_that_its_lanes_began_again():
    host, _ = host_of((6, LostError("gone")))
    lanes = [{"method": "greedy", "max_new_tokens": 3}] * 2
    *_, last = Endpoints(Desk(host, LIMITS, PRESETS, [])).compare("Hi", lanes)
    assert "began again on another one" in last["message"]
    assert len(last["lanes"]) == 2


def grid_of(seeds: int):
    return cells(Settings(method="speculative", max_new_tokens=3), {"seed": list(range(seeds))})


def swept(host, seeds: int = 6):
    """All states of a sweep of races of one cell each."""
    return list(host.sweep(["one", "two"], grid_of(seeds)))


def test_a_sweep_checks_first_and_brings_every_race_once():
    host, pool = host_of()
    states = swept(host)
    assert [request.kind for request in pool.requests] == ["check"] + ["race"] * 12
    last = states[-1]
    assert (last.races_done, last.races, last.share) == (12, 12, 1.0)
    assert [len(cell.outcomes) for cell in last.cells] == [2] * 6
    assert last.under_way == ()
    shares = [state.share for state in states]
    assert shares[0] == 0.0 and max(shares) == 1.0
    done = [state.races_done for state in states]
    assert done == sorted(done)


def test_a_race_of_a_sweep_that_is_lost_late_counts_once():
    lost = (11, LostError("gone"))  # everything was there but the end
    pool = Scripted((None, None), lost, (None, None), lost)
    host = ClusterHost(pool, dataclasses.replace(CLUSTER, replicas=1))
    host._start()
    last = swept(host)[-1]
    assert len(pool.requests) == 1 + 12 + 2
    assert [len(cell.outcomes) for cell in last.cells] == [2] * 6
    assert all(outcome.tokens == 3 for cell in last.cells for outcome in cell.outcomes)


def test_a_race_that_is_lost_twice_is_missing_and_told_and_the_others_are_kept():
    pool = Scripted((None, None), (5, LostError("gone")), (7, LostError("gone")))
    host = ClusterHost(pool, dataclasses.replace(CLUSTER, replicas=1))
    host._start()
    states = []
    with pytest.raises(RunRefusedError, match="1 of 12 races are missing"):
        for state in host.sweep(["one", "two"], grid_of(6)):
            states.append(state)
    assert [len(cell.outcomes) for cell in states[-1].cells] == [1, 2, 2, 2, 2, 2]
    assert states[-1].races_done == 11


def test_a_sweep_that_has_begun_waits_where_others_queue(monkeypatch):
    monkeypatch.setattr("spork_demo.cluster.spread.BUSY_SECONDS", 0.01)
    host, _ = host_of((None, None), (0, BusyError()), (0, BusyError()), (0, BusyError()))
    assert swept(host)[-1].races_done == 12
    busy, _ = host_of((0, BusyError()))
    with pytest.raises(RunRefusedError, match="Every machine is busy"):
        swept(busy)


def test_stopping_a_sweep_keeps_what_is_done_and_starts_nothing_more():
    host, pool = host_of()
    states = host.sweep(["one", "two"], grid_of(36))
    for state in states:
        if state.races_done == 3:
            break
    states.close()
    begun = len(pool.requests)
    assert begun < 1 + 72
    assert len(pool.closed) == begun
    assert sum(len(cell.outcomes) for cell in state.cells) == 3


def test_an_error_in_one_race_ends_the_sweep_with_the_engines_own_sentence():
    host, _ = host_of((None, None), (3, Refused("The device ran out of memory.")))
    with pytest.raises(RunRefusedError, match="out of memory"):
        swept(host)


def test_what_cannot_start_is_told_and_nothing_runs():
    class Broken(Scripted):
        def start(self):
            raise ConnectionError("10.0.0.1 refused")

    host = ClusterHost(Broken(), CLUSTER)
    host._start()
    assert host.status().failed
    assert "10.0.0.1" not in host.status().message
    with pytest.raises(RunRefusedError, match="could not be started"):
        next(host.race("Hi", LANES, ("a", "b")))


def test_the_server_stops_a_run_on_the_cluster_after_its_round():
    host, pool = host_of()
    deferred = DeferredHost(lambda: host)
    deferred._run()
    observed = ObservedHost(deferred, CollectorRegistry())
    events = observed.race("Hi", LANES, ("a", "b"))
    next(events), next(events)
    assert observed.running == 1
    observed._stopping.set()
    with pytest.raises(RunRefusedError, match="stopping"):
        next(events)
    assert len(pool.closed) == 1
    assert observed.stop(1)


TABLE = """
[cluster]
engine = "ray"
address = "10.1.2.3:6379"
replicas = 4
gpus = 1
cpus = 8
queue = 12
"""


def test_a_cluster_is_chosen_in_the_spacefile():
    assert parse_spacefile(SMALL).cluster is None
    assert parse_spacefile(SMALL + TABLE).cluster == Cluster("ray", "10.1.2.3:6379", 4, 1, 8, 12)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"ray"', '"dask"', "cluster.engine in the Spacefile must be one of ray."),
        ("10.1.2.3:6379", "ray://10.1.2.3:1", "cluster.address in the Spacefile must be local"),
        ("10.1.2.3:6379", "a b", "cluster.address in the Spacefile must be local"),
        ("replicas = 4", "replicas = 0", "cluster.replicas in the Spacefile must be a whole"),
        ("gpus = 1", "gpus = 0.5", "cluster.gpus in the Spacefile must be a whole number"),
        ("queue = 12", "", "cluster.queue in the Spacefile is missing."),
        ("queue = 12", "queue = 12\nhead = 1", "cluster.head in the Spacefile is not a key"),
    ],
)
def test_a_wrong_cluster_is_refused_with_its_key(old, new, told):
    with pytest.raises(SpacefileError) as caught:
        parse_spacefile(SMALL + TABLE.replace(old, new))
    assert str(caught.value).startswith(told)


def test_a_status_of_the_cluster_can_be_said_in_chinese():
    host, _ = host_of()
    with speaking("zh"):
        from spork_demo.language import known

        assert "集群上的副本数：2" in known(host.status().message)
    assert host.status() == Status("tiny is ready. Replicas on the cluster: 2.", ready=True)
