"""Served lanes beside the lanes of any host, in the Spacefile, in the pickers and on the page."""

import dataclasses
import json

import pytest

from spork_demo.host import RunRefusedError
from spork_demo.language import speaking
from spork_demo.served.host import ServingHost
from spork_demo.served.server import Server
from spork_demo.settings import Settings
from spork_demo.spacefile import Preset, SpacefileError, parse_spacefile
from spork_demo.trace import Finished, LaneEvent, Race, advance
from spork_demo.ui.entry import EntryError, read_entry
from spork_demo.ui.explain import verdict
from spork_demo.ui.inside import shown
from spork_demo.ui.lane_picker import lane_choices
from spork_demo.ui.summary import exactness, lane_head, origin, strips
from spork_demo.ui.token_view import race_lines
from tests.sample_race import LIMITS, PAIR, PRESETS, FakeHost
from tests.served_server import CHUNKS, Script, serving
from tests.test_spacefile import SMALL

GREEDY = Settings(max_new_tokens=6)
SPORK = Settings(method="spork", max_new_tokens=6)
SERVED = Settings(method="served", server="tiny", max_new_tokens=20)
MENU = (*PRESETS, Preset("tiny", "served"), Preset("other", "served"))


def watch(events) -> tuple[Race, list[LaneEvent]]:
    race, news = None, []
    for item in events:
        if isinstance(item, Race):
            race = item
        else:
            news.append(item)
            race = advance(race, item)
    return race, news


def serve(script: Script, lanes, inner: FakeHost | None = None, **more):
    labels = [f"{place} lane" for place in range(1, len(lanes) + 1)]
    with serving(script) as address:
        server = Server("tiny", f"{address}/v1", "tiny", f"{address}/metrics", **more)
        host = ServingHost(inner or FakeHost(), [server], 10)
        return watch(host.race("Say it.", lanes, labels))


@pytest.fixture(scope="module")
def mixed() -> Race:
    return serve(Script(), (GREEDY, SERVED, SPORK), about="one GPU")[0]


def test_served_lanes_stand_at_their_place_and_run_after_the_others():
    inner = FakeHost()
    race, news = serve(Script(), (GREEDY, SERVED, SPORK), inner)
    assert [lane.settings.method for lane in race.lanes] == ["greedy", "served", "spork"]
    assert [lane.label for lane in race.lanes] == ["1 lane", "2 lane", "3 lane"]
    assert race.lanes[1].text == "".join(text for _, text in CHUNKS)
    first = next(place for place, item in enumerate(news) if item.lane == 1)
    ends = [place for place, item in enumerate(news) if isinstance(item.event, Finished)]
    assert ends[0] < first and ends[1] < first < ends[2]
    assert inner.closed == ["Say it."]
    assert inner.asked[0][1:3] == ((GREEDY, SPORK), ("1 lane", "3 lane"))


def test_its_text_is_compared_with_the_greedy_lane(mixed):
    found = mixed.lanes[1].fidelity
    assert found.equal_tokens is None and found.perplexity is None
    assert 0 < found.equal_characters < 1


def test_races_without_a_served_lane_are_the_inner_hosts():
    inner = FakeHost(refuse="No.")
    host = ServingHost(inner, [], 10)
    assert host.status() is inner.state and host.pairs() == inner.pairs()
    with pytest.raises(RunRefusedError, match="No"):
        next(host.race("p", (GREEDY,), ("1",)))


def test_a_race_may_be_served_alone():
    race, _ = serve(Script(), (SERVED,))
    assert race.lanes[0].stop_reason == "eos"
    assert race.lanes[0].fidelity is None


def test_a_server_that_fails_leaves_the_other_lanes_alone():
    race, _ = serve(Script(status=500), (GREEDY, SERVED))
    assert [lane.stop_reason for lane in race.lanes] == ["length", "failed"]
    assert exactness(race, race.lanes[1])[0] == "unknown"


def test_a_server_nobody_configured_is_refused_before_anything_runs():
    inner = FakeHost()
    lane = dataclasses.replace(SERVED, server="http://10.0.0.1")
    with pytest.raises(RunRefusedError, match="no such server"):
        next(ServingHost(inner, [], 10).race("p", (GREEDY, lane), ("1", "2")))
    assert inner.asked == []


def test_closing_the_race_closes_the_stream():
    script = Script(chunks=[(1, "x")] * 15, gap=0.05, page="")
    with serving(script) as address:
        server = Server("tiny", f"{address}/v1", "tiny")
        events = ServingHost(FakeHost(), [server], 10).race("p", (GREEDY, SERVED), ("1", "2"))
        for item in events:
            if isinstance(item, LaneEvent) and item.lane == 1:
                break
        events.close()
        assert script.dropped.wait(5)


@pytest.mark.parametrize(("same_as", "comparable"), [(PAIR.name, True), ("other", False)])
def test_the_spacefile_says_whether_speeds_may_be_set_in_relation(same_as, comparable):
    race, _ = serve(Script(gap=0.01), (GREEDY, SERVED), same_as=same_as)
    assert race.lanes[1].served.comparable is comparable
    name, value, unit = strips(race)[1]["cells"][0]
    assert (name, value != "–") == ("speedup", comparable)
    assert unit.startswith("of the greedy lane; same" if comparable else "not the same backend")


ENTRY = """
[[served]]
name = "vLLM"
base_url = "http://127.0.0.1:8000/v1/"
model = "Qwen/Qwen3-4B"
"""


def test_servers_of_the_spacefile_are_read():
    more = 'metrics_url = "https://h/metrics"\nkey_variable = "VLLM_KEY"\nsame_as = "mine"\n'
    first, second = parse_spacefile(SMALL + ENTRY + more + ENTRY.replace("vLLM", "b")).served
    assert first.completions_url == "http://127.0.0.1:8000/v1/chat/completions"
    assert (first.metrics_url, first.key_variable, first.same_as) == (
        "https://h/metrics",
        "VLLM_KEY",
        "mine",
    )
    assert second == Server("b", "http://127.0.0.1:8000/v1/", "Qwen/Qwen3-4B")
    assert parse_spacefile(SMALL).served == ()


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("http://127.0.0.1:8000/v1/", "file:///etc/passwd", "served[0].base_url"),
        ("http://127.0.0.1:8000/v1/", "http://me:pw@h/v1", "served[0].base_url"),
        ("http://127.0.0.1:8000/v1/", "http://h/v1?key=1", "served[0].base_url"),
        ("http://127.0.0.1:8000/v1/", "http://h:99999/", "served[0].base_url"),
        ("http://127.0.0.1:8000/v1/", "http:///v1", "served[0].base_url"),
        ('model = "Qwen/Qwen3-4B"', 'model = ""', "served[0].model"),
        (
            'model = "Qwen/Qwen3-4B"',
            'model = "m"\nmetrics_url = "ftp://h"',
            "served[0].metrics_url",
        ),
        ('model = "Qwen/Qwen3-4B"', 'model = "m"\nkey_variable = "a b"', "served[0].key_variable"),
        ('model = "Qwen/Qwen3-4B"', 'model = "m"\nkey = "sk-1"', "served[0].key"),
        ('"vLLM"', '"' + "x" * 81 + '"', "served[0].name"),
    ],
)
def test_a_wrong_server_is_named_by_its_key(old, new, where):
    with pytest.raises(SpacefileError) as caught:
        parse_spacefile(SMALL + ENTRY.replace(old, new))
    assert str(caught.value).startswith(f"{where} in the Spacefile ")


def test_two_servers_of_one_name_are_refused():
    with pytest.raises(SpacefileError, match="twice"):
        parse_spacefile(SMALL + ENTRY + ENTRY)


def entry(**values):
    lanes = {"lane1_method": "greedy", "lane1_rules": "exact",
             "lane2_method": "served", "lane2_rules": "article"}  # fmt: skip
    return read_entry({"prompt": "p", "lanes": 2, **lanes, **values}, LIMITS, MENU)


def test_a_visitor_picks_a_server_by_name_and_never_by_address():
    assert entry(lane2_preset="other").lanes[1].server == "other"
    assert entry(lane2_preset=None).lanes[1].server == "tiny"
    assert entry(lane2_preset="tiny").labels == ("1 Greedy", "2 Served tiny")
    for address in ("http://10.0.0.1/v1", ["tiny"], {"a": 1}, 3, "tiny\n"):
        with pytest.raises(EntryError, match="no such server"):
            entry(lane2_preset=address)
    with pytest.raises(EntryError):
        entry(lane2_own="server=http://10.0.0.1")


def test_the_picker_offers_servers_only_where_there_are_some():
    rules, menu, note = lane_choices(MENU, [PAIR], "served", "exact", "automatic")
    assert rules["visible"] is False and menu["visible"] is True
    assert menu["choices"] == [("tiny", "tiny"), ("other", "other")]
    assert (menu["value"], menu["label"]) == ("tiny", "Server")
    assert "prompt is sent" in note
    with pytest.raises(EntryError, match="no such server"):
        read_entry({"prompt": "p", "lanes": 2, "lane1_method": "greedy", "lane1_rules": "exact",
                    "lane2_method": "served", "lane2_rules": "exact"}, LIMITS, PRESETS)  # fmt: skip


def test_the_page_names_the_server_and_keeps_its_figures_apart(mixed):
    head = lane_head(2, mixed.lanes[1])
    assert (head["name"], head["rules"], head["served"]) == ("2 Served", "", True)
    assert head["who"] == "tiny, one GPU"
    assert "one GPU" not in origin(mixed) and "SmolLM2" in origin(mixed)
    assert exactness(mixed, mixed.lanes[1])[1].startswith("another engine: differs at character ")
    cells = {cell[0]: cell[1] for cell in strips(mixed)[1]["cells"]}
    assert cells["speedup"] == cells["target calls"] == "–"
    assert cells["accepted length"] == "3.00" and cells["acceptance"] == "67%"
    assert cells["equal characters"] not in ("–", "100%")


def test_pieces_go_to_the_browser_with_the_number_of_their_tokens(mixed):
    lines = [json.loads(line) for line in race_lines(mixed).splitlines()]
    pieces = [line["committed"] for line in lines if line["kind"] == "round" and line["lane"] == 1]
    assert [(piece[0][1], piece[0][8]) for piece in pieces] == [(t, n) for n, t in CHUNKS]
    assert [line["tokens"] for line in lines if line["kind"] == "served"] == [10]
    assert "served" in lines[0]["fates"]
    plain = dataclasses.replace(mixed, lanes=(mixed.lanes[0], mixed.lanes[2]))
    assert "served" not in json.loads(race_lines(plain).splitlines()[0])["fates"]


@pytest.mark.parametrize("code", ["en", "zh"])
def test_a_round_of_a_served_lane_is_told_and_shown(mixed, code):
    with speaking(code):
        told = verdict(mixed.lanes[1], 1, mixed.lanes[0])
        assert "is the plan" in told
        assert shown(mixed, 1, 1) and strips(mixed)
    if code == "en":
        assert told.startswith("3 tokens arrived together, «") and "not show from outside" in told
