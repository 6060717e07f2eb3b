"""The page as a server: endpoints, input that never met a widget, and a full queue."""

import functools
import json
import time

import gradio as gr
import httpx
import pytest

from spork_demo import language
from spork_demo.settings import Settings
from spork_demo.ui import events
from spork_demo.ui.entry import LANE_FIELDS, LANE_PARTS, SHARED_FIELDS
from spork_demo.ui.examples import EXAMPLES
from spork_demo.ui.page import build_page, launch_options, queue_options
from tests.launched import launched
from tests.page_client import PageClient, widgets
from tests.sample_race import LIMITS, PRESETS, FakeHost, sample_race
from tests.test_ui_entry import values

ENDPOINTS = ["compare", "decode", "sweep", "settings"]
TOO_LONG = "x" * 200_000


def built(host):
    return build_page(host, LIMITS, PRESETS, [sample_race()])


@pytest.fixture(scope="module")
def server():
    """The page on a fake host, slow enough to be caught running."""
    host = FakeHost(gap=0.01)
    with launched(host) as page:
        yield host, page.local_url


@pytest.fixture(scope="module")
def client(server):
    return PageClient(server[1], verbose=False)


def run_event(page):
    return next(fn for fn in page.fns.values() if fn.api_name == "race")


def test_widgets_and_settings_map_one_to_one_on_the_page():
    event = run_event(built(FakeHost()))
    names = event.input_parameter_names
    lanes = [f"lane{n}_{part}" for n in range(1, 5) for part in LANE_PARTS]
    assert names[: 3 + len(lanes)] == ["prompt", "pair", "lanes", *lanes]
    assert sorted(names[3 + len(lanes) :]) == sorted(SHARED_FIELDS)
    assert len({block._id for block in event.inputs}) == len(names)
    assert set(LANE_FIELDS) == set(LANE_PARTS) - {"own"}
    for name, block in zip(names, event.inputs, strict=True):
        if name in SHARED_FIELDS:
            assert block.elem_id == f"knob-{name}"
            assert block.value == getattr(Settings(), name)


def test_every_endpoint_is_named_and_only_the_race_takes_the_device():
    events = [event for event in built(FakeHost()).fns.values() if event.fn]
    names = [event.api_name for event in events]
    assert all(names)
    assert len(set(names)) == len(names)
    assert not [name for name in names if name.startswith("unnamed")]
    public = [e.api_name for e in events if e.api_visibility == "public"]
    assert public == ENDPOINTS
    waiting = sorted(e.api_name for e in events if e.queue and not e.page)
    own = ["calibrate", "explore_sweep", "lesson_rules", "race"]
    assert waiting == sorted([*own, "compare", "decode", "sweep"])
    assert {e.concurrency_limit for e in events if e.queue} == {None}, "they wait in the line"


def test_every_handler_of_a_page_speaks_its_language(monkeypatch):
    spoken = {}

    def noting(code, function):
        told = language.spoken(code, function)
        spoken[told] = code
        return told

    monkeypatch.setattr(events, "spoken", noting)
    handlers = [event for event in built(FakeHost()).fns.values() if event.fn]
    told = {page: [spoken.get(e.fn) for e in handlers if e.page == page] for page in ("", "zh")}
    assert set(told[""]) == {"en"}
    assert told["zh"] == ["zh"] * (len(told[""]) - len(ENDPOINTS))
    assert {e.api_visibility for e in handlers if e.page} == {"private"}


def test_only_a_run_that_begins_and_what_is_opened_change_the_menu_of_recordings():
    """Set after a refused run it could come late and be taken for a choice during the next one."""
    handlers = [event for event in built(FakeHost()).fns.values() if not event.page]
    (chosen,) = [event for event in handlers if event.api_name == "recording"]
    menu = chosen.inputs[0]
    changing = {event.api_name for event in handlers if menu in event.outputs}
    opening = {"results_after_upload", "restore", "lesson_see-forks"}
    assert changing == {"leave_recording", *opening}
    (settling,) = [event for event in handlers if event.api_name == "settle"]
    (leaving,) = [event for event in handlers if event.api_name == "leave_recording"]
    (uploading,) = [event for event in handlers if event.api_name == "upload"]
    assert leaving.outputs == [menu, uploading.inputs[0]] == settling.inputs[1:3]


def test_launch_keeps_the_page_private_and_light():
    options = launch_options(LIMITS)
    assert options["ssr_mode"] is False
    assert options["run_history"] is False
    assert options["enable_monitoring"] is False
    assert options["show_error"] is False
    assert options["max_file_size"] == "2mb"
    assert "sporkRace" in options["head"]
    assert options["head"].count("<script") == options["head"].count("</script>")
    assert queue_options(LIMITS)["max_size"] > sum(LIMITS.queues.values())
    assert queue_options(LIMITS)["api_open"] is False, "whatever needs the device goes by the queue"


def test_the_page_builds_without_recordings_and_without_a_model():
    host = FakeHost()
    assert isinstance(build_page(host, LIMITS, PRESETS, []), gr.Blocks)


def test_examples_fit_the_limits_of_a_small_deployment_and_say_whether_forks_pay():
    assert 6 <= len(EXAMPLES) <= 8
    assert all(len(example.prompt) <= LIMITS.prompt_characters for example in EXAMPLES)
    kinds = {example.label.split(":")[0] for example in EXAMPLES}
    assert {"pays", "pays less"} <= kinds


def test_a_race_streams_its_events_as_lines(client):
    view, said, _ = client.run(in_order()).result()
    kinds = [json.loads(line)["kind"] for line in view.splitlines()]
    assert kinds[0] == "race"
    assert kinds.count("finished") == 3
    assert "Finished" in said


@pytest.mark.parametrize(
    "changes",
    [
        {"prompt": None},
        {"prompt": ""},
        {"prompt": "   "},
        {"prompt": TOO_LONG},
        {"fork_width": None},
        {"fork_width": "0.5"},
        {"fork_width": True},
        {"fork_width": 1e9},
        {"accept_threshold": [1]},
        {"seed": -1},
        {"seed": 2**64},
        {"seed": 1.5},
        {"lanes": None},
        {"lanes": 9},
        {"lane1_method": "beam"},
        {"lane1_method": None},
        {"lane2_rules": "loose"},
        {"lane2_preset": "<b>none</b>"},
        {"lane2_own": "fork_width"},
        {"pair": "somebody/else"},
        {"fork_shape": "star"},
    ],
)
def test_bad_input_over_http_is_a_sentence_within_two_seconds(server, client, changes):
    host, _ = server
    asked = len(host.asked)
    data = in_order(**changes)
    begun = time.monotonic()
    _, said, _ = client.run(data).result()
    assert time.monotonic() - begun < 2
    assert "notice-refused" in said
    assert "Traceback" not in said
    assert "<b>" not in said
    assert len(host.asked) == asked


def join(url, data, session):
    """Ask for a race as the browser does, with whatever data."""
    fns = httpx.get(f"{url}config").json()["dependencies"]
    number = next(fn["id"] for fn in fns if fn["api_name"] == "race")
    body = json.dumps({"data": data, "fn_index": number, "session_hash": session})
    headers = {"content-type": "application/json"}
    return httpx.post(f"{url}gradio_api/queue/join", content=body, headers=headers)


def listen(url, session):
    params = {"session_hash": session}
    return httpx.stream("GET", f"{url}gradio_api/queue/data", params=params, timeout=10)


def raw_call(url, data):
    """Post what no client would send and return the last message of the event stream."""
    session = f"raw{time.monotonic_ns()}"
    joined = join(url, data, session)
    if joined.status_code != 200:
        return joined.json()
    with listen(url, session) as stream:
        for line in stream.iter_lines():
            if line.startswith("data:") and "process_completed" in line:
                return json.loads(line[5:])
    return None


def in_order(**changes):
    """Widget values in the order the endpoint takes them."""
    filled = values(**changes)
    return [filled[name] for name in order()]


@functools.cache
def order():
    return widgets(built(FakeHost()))


def closed_within(host, prompt, seconds):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if prompt in host.closed:
            return True
        time.sleep(0.02)
    return False


def test_cancelling_a_run_frees_the_device(server, client):
    host, _ = server
    job = client.run(in_order(prompt="cancelled", max_new_tokens=128))
    while not job.outputs():
        time.sleep(0.01)
    job.cancel()
    assert closed_within(host, "cancelled", 2)
    assert "Finished" in client.run(in_order(prompt="after the cancel")).result()[1]


def test_closing_the_tab_frees_the_device(server):
    host, url = server
    join(url, in_order(prompt="closed tab", max_new_tokens=128), "tab")
    with listen(url, "tab") as stream:
        next(line for line in stream.iter_lines() if "process_generating" in line)
    assert closed_within(host, "closed tab", 2)


def test_nan_and_too_few_fields_do_not_harm_the_server(server, client):
    _, url = server
    data = in_order()
    nan = [float("nan") if value == 0.7 else value for value in data]
    answer = raw_call(url, nan)
    assert "must be a finite number" in json.dumps(answer)
    answer = raw_call(url, data[:3])
    assert "Traceback" not in json.dumps(answer)
    assert "Finished" in client.run(in_order(prompt="Hello again")).result()[1]


def test_a_full_queue_says_so_and_light_events_still_answer(server):
    _, url = server
    clients = [PageClient(url, verbose=False) for _ in range(3)]
    full = in_order(prompt="busy", max_new_tokens=30)
    jobs = [c.run(full) for c in clients for _ in range(3)]
    try:
        time.sleep(0.5)
        assert httpx.get(url, timeout=5).status_code == 200
        said = [job.result(timeout=60)[1] for job in jobs]
    finally:
        for job in jobs:
            job.cancel()
    refused = [text for text in said if "notice-refused" in text]
    assert len(refused) == len(jobs) - 1 - LIMITS.queue_races
    assert all(f"no more than {LIMITS.queue_races} of this kind" in text for text in refused)
    assert all("Finished" in text for text in said if text not in refused)
