"""The race handlers as plain generators: streaming, stopping, refusing, files."""

import dataclasses
import json

import pytest

from spork_demo import trace_file
from spork_demo.host import Status
from spork_demo.trace import Race
from spork_demo.trace_file import dumps
from spork_demo.ui.handlers import FRAME_SECONDS, NO_RECORDING, Desk
from tests.sample_race import LIMITS, PRESETS, FakeHost, sample_race
from tests.test_ui_entry import values

SKIP = {"__type__": "update"}


def desk(host=None, **options):
    return Desk(host or FakeHost(), LIMITS, PRESETS, [sample_race()], **options)


def finished(lines):
    return {x["lane"]: x for x in map(json.loads, lines.splitlines()) if x["kind"] == "finished"}


class Clock:
    """Time that moves `step` seconds each time it is read."""

    def __init__(self, step):
        self.now, self.step = 0.0, step

    def __call__(self):
        self.now += self.step
        return self.now


def test_a_run_streams_growing_lines_and_ends_complete():
    frames = list(desk(clock=Clock(0.1)).race(**values(max_new_tokens=12)))
    lines = [frame[0] for frame in frames]
    assert len(frames) > 10
    assert all(later.startswith(earlier) for earlier, later in zip(lines, lines[1:], strict=False))
    race = frames[-1][1]
    assert isinstance(race, Race)
    assert not race.recorded
    assert set(finished(lines[-1])) == {0, 1, 2}
    assert "Finished" in frames[-1][2]


def test_updates_are_coalesced_but_the_end_is_always_shown():
    host = FakeHost()
    frames = list(desk(host, clock=Clock(FRAME_SECONDS / 50)).race(**values(max_new_tokens=60)))
    events = sum(len(lane.rounds) + 3 for lane in frames[-1][1].lanes)
    assert len(frames) < events / 5
    assert len(frames[-1][1].lanes[0].tokens) == 60


class HoldingHost(FakeHost):
    """Keeps a reference to its iterator, so that only close() can end it."""

    def race(self, *arguments):
        self.held = FakeHost.race(self, *arguments)
        return self.held


def test_closing_the_generator_closes_the_host_within_one_event():
    host = HoldingHost()
    run = desk(host, clock=Clock(0.1)).race(**values())
    next(run)
    next(run)
    run.close()
    assert host.closed == ["Hello"]


def test_after_stop_the_text_stays_and_open_lanes_are_marked():
    d = desk(clock=Clock(0.1))
    run = d.race(**values())
    for _ in range(9):
        _, race, _ = next(run)
    run.close()
    lines, settled, said = d.settle(race)
    assert [lane.stop_reason for lane in settled.lanes] == ["stopped"] * 3
    assert [lane.text for lane in settled.lanes] == [lane.text for lane in race.lanes]
    assert set(finished(lines)) == {0, 1, 2}
    assert "Stopped" in said


def test_a_recording_that_ended_a_run_is_shown_in_its_place():
    d = desk(clock=Clock(0.1))
    run = d.race(**values())
    for _ in range(9):
        _, race, _ = next(run)
    run.close()
    lines, settled, _ = d.settle(race, 0)
    assert settled == sample_race()
    assert json.loads(lines.splitlines()[0])["recorded"] is True
    assert d.settle(sample_race(), 0)[1] == sample_race(), "a late frame may have hidden it"


def test_a_file_that_ended_a_run_is_shown_in_its_place_and_a_bad_one_says_why(tmp_path):
    file, bad = tmp_path / "race.json", tmp_path / "bad.json"
    file.write_text(dumps(sample_race("From a file.")), encoding="utf-8")
    bad.write_text("{}", encoding="utf-8")
    d = desk(clock=Clock(0.1))
    run = d.race(**values())
    for _ in range(9):
        _, race, _ = next(run)
    run.close()
    lines, settled, said = d.settle(race, NO_RECORDING, str(file))
    assert (settled.lanes[0].prompt, settled.recorded) == ("From a file.", True)
    assert json.loads(lines.splitlines()[0])["prompt"] == "From a file."
    assert "Loaded" in said
    _, settled, said = d.settle(race, NO_RECORDING, str(bad))
    assert [lane.stop_reason for lane in settled.lanes] == ["stopped"] * 3
    assert "notice-refused" in said


def test_settling_leaves_finished_recorded_and_absent_races_alone():
    d = desk()
    *_, (_, race, _) = d.race(**values())
    assert d.settle(race) == d.settle(sample_race()) == d.settle(None) == (SKIP, SKIP, SKIP)


def test_two_interleaved_runs_do_not_mix():
    d = desk(clock=Clock(0.1))
    runs = [d.race(**values(prompt=name, max_new_tokens=n)) for name, n in (("one", 5), ("two", 9))]
    last = [None, None]
    for _ in range(80):
        for index, run in enumerate(runs):
            last[index] = next(run, last[index])
    for (lines, race, _), name, tokens in zip(last, ("one", "two"), (5, 9), strict=True):
        assert {lane.prompt for lane in race.lanes} == {name}
        assert len(race.lanes[0].tokens) == tokens
        assert json.loads(lines.splitlines()[0])["prompt"] == name


def test_a_slow_reader_changes_no_lane_second():
    quick = list(desk().race(**values()))[-1][1]
    slow = list(desk(clock=Clock(0.3)).race(**values(max_new_tokens=20)))[-1][1]
    assert slow.lanes[0].rounds == quick.lanes[0].rounds[:20]


@pytest.mark.parametrize(
    "changes",
    [{"prompt": ""}, {"fork_width": None}, {"temperature": float("nan")}, {"lanes": "x"},
     {"pair": "no such pair"}, {"pair": 3}, {"max_new_tokens": 10**9}, {"lane2_preset": "<b>"}],
)  # fmt: skip
def test_a_refusal_is_one_frame_that_keeps_the_page(changes):
    host = FakeHost()
    frames = list(desk(host).race(**values(**changes)))
    assert len(frames) == 1
    assert frames[0][:2] == (SKIP, SKIP)
    assert "notice-refused" in frames[0][2]
    assert "<b>" not in frames[0][2]
    assert host.asked == []


def test_before_the_model_is_ready_run_says_so():
    host = FakeHost(state=Status("Fetching <the> model."))
    frames = list(desk(host).race(**values()))
    assert len(frames) == 1
    assert "not ready yet" in frames[0][2]
    assert "&lt;the&gt;" in frames[0][2]


def test_a_refusal_of_the_host_is_shown_in_its_words():
    frames = list(desk(FakeHost(refuse="The prompt is longer than 8192 tokens.")).race(**values()))
    assert frames[-1][:2] == (SKIP, SKIP)
    assert "longer than 8192 tokens" in frames[-1][2]


def test_an_unexpected_error_is_a_general_sentence_and_keeps_the_text(caplog):
    host = FakeHost(break_after=30)
    lines, race, said = list(desk(host).race(**values()))[-1]
    assert "secret" not in said + lines
    assert "try again" in said
    assert {lane.stop_reason for lane in race.lanes} == {"failed"}
    assert race.lanes[0].text
    assert host.closed == ["Hello"]
    assert "secret" in caplog.text


def test_the_seconds_of_a_run_are_limited():
    limits = dataclasses.replace(LIMITS, seconds_per_run=5)
    host = FakeHost()
    d = Desk(host, limits, PRESETS, [], clock=Clock(0.4))
    _, race, said = list(d.race(**values(max_new_tokens=120)))[-1]
    assert "limit of 5 seconds" in said
    assert {lane.stop_reason for lane in race.lanes} == {"stopped"}
    assert host.closed


def test_a_downloaded_race_uploads_to_the_same_race(tmp_path):
    d = desk()
    *_, (_, race, _) = d.race(**values())
    file = tmp_path / "race.json"
    file.write_text(trace_file.dumps(race), encoding="utf-8")
    lines, again, said = d.upload(str(file))
    assert again == dataclasses.replace(race, recorded=True)
    assert json.loads(lines.splitlines()[0])["recorded"] is True
    assert "notice-done" in said


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[1]", b"\xff\xfe", b'{"lanes": [NaN]}', b"1e999"]
)
def test_a_bad_file_is_a_sentence_and_the_race_stays(tmp_path, content):
    file = tmp_path / "race.json"
    file.write_bytes(content)
    view, race, said = desk().upload(str(file))
    assert (view, race) == (SKIP, SKIP)
    assert "The current race is kept." in said


def test_no_file_and_a_large_file_are_sentences(tmp_path):
    assert "could not be read" in desk().upload(None)[2]
    assert "could not be read" in desk().upload(str(tmp_path / "gone.json"))[2]
    file = tmp_path / "big.json"
    file.write_bytes(b" " * 2_000_001)
    assert "limit of 2 MB" in desk().upload(str(file))[2]


def test_recordings_are_chosen_by_place():
    lines, race, _ = desk().recording(0)
    assert race == sample_race()
    assert lines
    assert (desk().place(race), desk().place(None)) == (0, -1)
    assert desk().recording(-1) == (SKIP, SKIP, SKIP)
    for place in (None, 1, -2, True, "0", 0.0):
        assert "no such recorded race" in desk().recording(place)[2]
