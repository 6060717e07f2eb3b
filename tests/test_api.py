"""The endpoints as a program meets them: types, streams, refusals, and what a run brought."""

import copy

import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError

from spork_demo.cells import Cell
from spork_demo.host import RunRefusedError, Status
from spork_demo.metrics import measure, speedup
from spork_demo.settings import KNOBS, Settings
from spork_demo.trace import advance
from spork_demo.ui.api import Endpoints
from spork_demo.ui.handlers import Desk
from tests.launched import launched
from tests.sample_race import LIMITS, PRESETS, FakeHost

LANES = [{"method": "greedy"}, {"method": "spork", "fork_width": 3}, {"method": "dspark"}]


@pytest.fixture(scope="module")
def client():
    with launched(FakeHost(gap=0.01)) as page:
        yield Client(page.local_url, verbose=False)


def whole_race():
    """What the fake host says to LANES."""
    lanes = [Settings.from_plain(lane) for lane in LANES]
    race, *events = FakeHost(gap=0.0).race("Hello", lanes, ["1", "2", "3"])
    for event in events:
        race = advance(race, event)
    return race


def endpoints(host=None, clock=lambda: 0.0):
    return Endpoints(Desk(host or FakeHost(gap=0.0), LIMITS, PRESETS, [], clock))


def test_the_endpoints_are_typed_and_told(client):
    told = client.view_api(return_format="dict", print_info=False)["named_endpoints"]
    assert set(told) == {"/compare", "/decode", "/sweep", "/settings"}
    parameters = {
        name: {p["parameter_name"]: p["type"]["type"] for p in each["parameters"]}
        for name, each in told.items()
    }
    assert parameters["/compare"] == {"prompt": "string", "lanes": "array", "pair": "string"}
    assert parameters["/decode"] == {"prompt": "string", "settings": "object", "pair": "string"}
    assert parameters["/sweep"]["axes"] == "object"
    assert parameters["/sweep"]["repeats"] == "integer"
    assert "Race lanes on one prompt" in told["/compare"]["description"]


def test_compare_streams_and_ends_with_the_measured_figures(client):
    job = client.submit("Hello", LANES, api_name="/compare")
    final = job.result()
    outputs = job.outputs()
    assert len(outputs) > 2
    assert [each["done"] for each in outputs] == [False] * (len(outputs) - 1) + [True]
    texts = [each["lanes"][1]["text"] for each in outputs]
    assert all(later.startswith(earlier) for earlier, later in zip(texts, texts[1:], strict=False))
    race = whole_race()
    for place, lane in enumerate(race.lanes):
        told = final["lanes"][place]
        assert told["text"] == lane.text
        assert told["ids"] == list(lane.ids)
        assert told["metrics"]["accepted_length"] == measure(lane).accepted_length
        expected = None if place == 0 else speedup(lane, race.lanes[0])
        assert told["speedup"] == expected
    assert [told["settings"]["method"] for told in final["lanes"]] == ["greedy", "spork", "dspark"]


def test_decode_runs_one_lane(client):
    final = client.predict("Hello", {"method": "greedy"}, api_name="/decode")
    (lane,) = final["lanes"]
    assert final["done"]
    assert lane["speedup"] is None
    assert lane["stop_reason"]


def test_settings_tell_ranges_pairs_and_limits(client):
    told = client.predict(api_name="/settings")
    assert {knob["name"] for knob in told["knobs"]} == set(KNOBS)
    assert told["defaults"] == Settings().to_plain()
    assert told["limits"]["new_tokens"] == LIMITS.new_tokens
    assert told["ready"]
    assert told["pairs"]


@pytest.mark.parametrize(
    ("prompt", "lanes", "pair", "said"),
    [
        ("", LANES, "", "prompt"),
        (None, LANES, "", "prompt"),
        ("x" * 1_000_000, LANES, "", "limit"),
        ("Hello", [], "", "1 to"),
        ("Hello", "greedy", "", "1 to"),
        ("Hello", LANES * 9, "", "1 to"),
        ("Hello", [5], "", "object"),
        ("Hello", [{"method": "magic"}], "", "method"),
        ("Hello", [{"colour": "red"}], "", "colour"),
        ("Hello", [{"fork_width": float("nan")}], "", "fork_width"),
        ("Hello", [{"fork_width": 10**400}], "", "fork_width"),
        ("Hello", [{"max_new_tokens": 100_000}], "", "max_new_tokens"),
        ("Hello", LANES, "../etc/passwd", "no such model pair"),
        ("Hello", [{"method": "served", "server": "http://example.org"}], "", "server"),
    ],
)
def test_a_wrong_request_is_one_sentence(prompt, lanes, pair, said):
    with pytest.raises(Exception) as refused:  # noqa: PT011 - gr.Error is not an exception of ours
        list(endpoints().compare(prompt, copy.deepcopy(lanes), pair))
    assert type(refused.value).__name__ == "Error"
    assert said in str(refused.value)


def test_a_refusal_reaches_the_caller_and_a_fault_tells_nothing(client):
    with pytest.raises(AppError, match="Write a prompt first"):
        client.predict(" ", LANES, api_name="/compare")

    class Failing(FakeHost):
        def race(self, *_args):
            raise RuntimeError("/secret/path")
            yield

    with pytest.raises(Exception, match="failed on the server") as fault:
        list(endpoints(Failing()).compare("Hello", LANES))
    assert "secret" not in str(fault.value)


def test_a_run_that_overstays_keeps_what_it_has():
    ticks = iter(range(0, 100_000, 7))
    answers = list(endpoints(clock=lambda: float(next(ticks))).compare("Hello", LANES))
    assert answers[-1]["done"]
    assert "limit" in answers[-1]["message"]
    assert {lane["stop_reason"] for lane in answers[-1]["lanes"]} == {"stopped"}
    assert answers[-1]["lanes"][0]["text"]


def test_nothing_runs_before_the_model_is_ready():
    host = FakeHost()
    host.state = Status("Fetching the model.")
    with pytest.raises(Exception, match="not ready"):
        list(endpoints(host).compare("Hello", LANES))


def test_a_closed_stream_closes_the_run():
    closed = []

    class Watched(FakeHost):
        def race(self, *args):
            try:
                yield from super().race(*args)
            finally:
                closed.append(True)

    ticks = iter(range(1000))
    stream = endpoints(Watched(gap=0.0), clock=lambda: next(ticks) / 5).compare("Hello", LANES)
    next(stream)
    stream.close()
    assert closed == [True]


def test_a_sweep_is_a_table_with_its_best_exact_cell(client):
    answer = client.predict(
        ["Hello"], {"method": "speculative"}, {"draft_length": [2, 4]}, api_name="/sweep"
    )
    assert answer["done"]
    assert [cell["draft_length"] for cell in answer["cells"]] == [2, 4]
    best = max((cell for cell in answer["cells"]), key=lambda cell: cell["speedup"])
    assert answer["best_exact"]["draft_length"] == best["draft_length"]
    assert answer["best_exact"]["speedup"] == best["speedup"]


@pytest.mark.parametrize(
    ("prompts", "settings", "axes", "repeats", "said"),
    [
        ([], {"method": "spork"}, {"fork_width": [2]}, 1, "prompts"),
        ("Hello", {"method": "spork"}, {"fork_width": [2]}, 1, "prompts"),
        (["Hello"], {"method": "greedy"}, {"fork_width": [2]}, 1, "Greedy"),
        (["Hello"], {"method": "spork"}, {"colour": [2]}, 1, "fork_width"),
        (["Hello"], {"method": "spork"}, {"fork_width": 2}, 1, "lists"),
        (["Hello"], {"method": "spork"}, {}, 1, "one setting or two"),
        (["Hello"], {"method": "spork"}, {"fork_width": [2] * 500}, 1, "at most"),
        (["Hello"], {"method": "spork"}, {"fork_width": [2]}, 0, "repeated"),
        (["Hello"], {"method": "spork"}, {"fork_width": ["<b>"]}, 1, "number"),
    ],
)
def test_a_wrong_sweep_is_one_sentence(prompts, settings, axes, repeats, said):
    with pytest.raises(Exception) as refused:  # noqa: PT011 - as above
        list(endpoints().sweep(prompts, settings, axes, repeats))
    assert said in str(refused.value)


def test_a_sweep_that_is_refused_halfway_keeps_its_cells():
    class Breaking(FakeHost):
        def sweep(self, prompts, grid, repeats=1, pair=""):
            yield next(super().sweep(prompts, grid, repeats, pair))
            raise RunRefusedError("The server is stopping.")

    answers = list(
        endpoints(Breaking()).sweep(["Hello"], {"method": "spork"}, {"fork_width": [2, 4]})
    )
    assert answers[-1]["message"] == "The server is stopping."
    assert len(answers[-1]["cells"]) == 2
    assert isinstance(Cell({}, Settings()).plain(), dict)
