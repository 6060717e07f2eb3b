"""Runs counted, logged without prompts, ended at a round's end when the server stops."""

import logging
import threading
from contextlib import closing

import pytest
from prometheus_client import CollectorRegistry

from spork_demo.calibration import CalibrationPlan
from spork_demo.host import RunRefusedError
from spork_demo.observed import ObservedHost
from spork_demo.settings import Settings
from spork_demo.trace import Race
from tests.sample_race import FakeHost

LANES = (Settings(method="greedy"), Settings(method="spork"), Settings(method="dspark"))
SECRET = "my secret prompt"


class Observed:
    def __init__(self, host=None):
        self.registry = CollectorRegistry()
        self.host = ObservedHost(host or FakeHost(gap=0.0), self.registry)

    def runs(self, outcome, kind="race"):
        labels = {"kind": kind, "outcome": outcome}
        return self.registry.get_sample_value("spork_runs_total", labels)

    def race(self):
        return self.host.race(SECRET, LANES, ("1", "2", "3"))


@pytest.fixture
def observed():
    return Observed()


def committed(race, place):
    return sum(len(round_.committed) for round_ in race.lanes[place].rounds)


def test_a_finished_race_is_counted_with_its_tokens(observed, caplog):
    from spork_demo.trace import advance

    with caplog.at_level(logging.INFO):
        race = None
        for item in observed.race():
            race = item if isinstance(item, Race) else advance(race, item)
    assert observed.runs("finished") == 1
    for place, lane in enumerate(LANES):
        labels = {"method": lane.method, "rules": lane.rules}
        told = observed.registry.get_sample_value("spork_tokens_total", labels)
        assert told == committed(race, place) > 0
    (said,) = [record.fields for record in caplog.records if record.message == "run ended"]
    assert said["outcome"] == "finished"
    assert said["lanes"] == ["greedy exact", "spork exact", "dspark exact"]
    assert said["tokens"] == sum(committed(race, place) for place in range(3))
    assert SECRET not in str(said)


def test_a_closed_race_counts_as_stopped_and_its_host_is_closed(observed):
    with closing(observed.race()) as events:
        next(events), next(events)
        assert observed.host.running == 1
    assert observed.runs("stopped") == 1
    assert observed.host.running == 0


def test_refusals_and_failures_are_told_apart():
    class Refusing(FakeHost):
        def race(self, *_args):
            raise RunRefusedError("The device is busy.")
            yield

    class Failing(FakeHost):
        def race(self, *_args):
            raise RuntimeError("a bug")
            yield

    for host, outcome, error in (
        (Refusing(), "refused", RunRefusedError),
        (Failing(), "failed", RuntimeError),
    ):
        observed = Observed(host)
        with pytest.raises(error):
            list(observed.race())
        assert observed.runs(outcome) == 1
        assert observed.host.running == 0


def test_a_stop_ends_a_run_at_its_next_event_and_refuses_new_ones(observed):
    events = observed.race()
    next(events), next(events)
    done = []
    stopping = threading.Thread(target=lambda: done.append(observed.host.stop(5.0)))
    stopping.start()
    with pytest.raises(RunRefusedError, match="kept"):
        for _ in events:
            pass
    stopping.join()
    assert done == [True]
    assert observed.runs("stopped") == 1
    with pytest.raises(RunRefusedError, match="stopping"):
        next(observed.race())


def test_a_stop_does_not_wait_for_ever(observed):
    events = observed.race()
    next(events)
    assert not observed.host.stop(0.05)
    events.close()


def test_what_is_not_a_run_is_the_hosts_own(observed):
    assert observed.host.status().ready
    assert observed.registry.get_sample_value("spork_ready") == 1.0
    assert observed.host.offers is observed.host._host.offers


def test_a_sweep_is_counted_too():
    class Sweeping(FakeHost):
        def sweep(self, prompts, grid, repeats=1, pair=""):
            yield from grid

    observed = Observed(Sweeping())
    assert list(observed.host.sweep(["one"], ["a cell", "another"])) == ["a cell", "another"]
    assert observed.runs("finished", "sweep") == 1


def test_a_calibration_is_counted_too():
    observed = Observed(FakeHost())
    plan = CalibrationPlan(Settings("spork", "article", judge="early_layers"), 1)
    assert list(observed.host.calibrate(plan))[-1].share == 1.0
    assert observed.runs("finished", "calibrate") == 1
