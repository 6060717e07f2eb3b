"""A lane another server decodes: timed from its stream, its counters read, its faults told."""

import dataclasses
import threading
import time

import pytest

from spork_demo.fidelity import text_fidelity
from spork_demo.metrics import measure, speedup
from spork_demo.served.counters import between, read_page, tokens_counted
from spork_demo.served.events import EventReader, MalformedError, RefusedInStreamError
from spork_demo.served.lane import ServedLane
from spork_demo.served.server import Server
from spork_demo.settings import Settings, SettingsError, resolve
from spork_demo.trace import Race, Round, Started, Trace, fold
from spork_demo.trace_file import TraceError, dumps, loads
from spork_demo.trace_served import Served
from tests.sample_race import greedy_lane
from tests.served_server import CHUNKS, SGLANG_PAGE, Script, event, serving

SETTINGS = Settings(method="served", server="tiny", max_new_tokens=20)
TEXT = "".join(text for _, text in CHUNKS)
TOKENS = sum(tokens for tokens, _ in CHUNKS)


def run(script: Script, settings: Settings = SETTINGS, seconds: float = 10, **more) -> Trace:
    with serving(script) as address:
        return finish(address, settings, seconds, **more)


def finish(address: str, settings: Settings = SETTINGS, seconds: float = 10, **more) -> Trace:
    server = Server("tiny", f"{address}/v1", "tiny", f"{address}/metrics", **more)
    lane = ServedLane(server, "Say it.", settings, seconds)
    return fold(Trace(settings, "Say it."), lane.events())


def test_a_stream_becomes_rounds_of_what_arrived_and_keeps_its_text():
    trace = run(Script(gap=0.03))
    assert (trace.text, trace.stop_reason, trace.prompt_tokens) == (TEXT, "eos", 7)
    assert [len(round_.committed) for round_ in trace.rounds] == [n for n, _ in CHUNKS]
    assert {token.fate for token in trace.tokens} == {"served"}
    assert trace.rounds[0].seconds == 0 < trace.prefill_seconds
    assert sum(round_.seconds for round_ in trace.rounds) == pytest.approx(0.09, rel=0.5)
    assert (trace.served.counted, trace.served.tokens) == ("chunk", TOKENS)


def test_the_request_asks_for_what_the_lane_was_set_to():
    script = Script()
    sampled = dataclasses.replace(SETTINGS, temperature=0.7, top_p=0.9, top_k=5, seed=3)
    run(script, sampled)
    run(script)
    warm, greedy = script.asked
    asked = ("model", "max_tokens", "temperature", "top_p", "top_k", "seed", "stream")
    assert [warm[name] for name in asked] == ["tiny", 20, 0.7, 0.9, 5, 3, True]
    assert warm["messages"] == [{"role": "user", "content": "Say it."}]
    assert greedy["temperature"] == 0 and "top_k" not in greedy


def test_figures_are_those_of_the_stream_and_of_the_servers_counters():
    trace = run(Script(gap=0.02))
    figures = measure(trace)
    decode = sum(round_.seconds for round_ in trace.rounds)
    assert figures.tokens_per_second == pytest.approx((TOKENS - 1) / decode)
    assert figures.seconds_to_first_token == trace.prefill_seconds
    assert figures.end_to_end_tokens_per_second == pytest.approx(
        TOKENS / (decode + trace.prefill_seconds)
    )
    # Three drafts of 3 tokens, of which 2, 1 and 3 were accepted.
    served = trace.served
    assert (served.rounds, served.drafted, served.accepted, served.alone) == (3, 9, 6, True)
    assert served.kept == (3, 2)
    assert figures.accepted_length == 1 + 6 / 3
    assert figures.acceptance_rate == 6 / 9
    assert figures.prefix_survival == (1, 2 / 3)
    assert figures.target_calls_per_token is None


def test_counters_that_come_late_are_waited_for():
    assert run(Script(lag=2)).served.accepted == 6


def test_counters_that_hold_other_peoples_tokens_give_no_acceptance():
    trace = run(Script(others=50))
    assert trace.served.alone is False
    assert measure(trace).acceptance_rate is None
    assert measure(trace).accepted_length is None


def test_sglang_tells_checks_and_no_acceptance_rate():
    trace = run(Script(page=SGLANG_PAGE))
    assert (trace.served.counters, trace.served.rounds) == ("sglang", 3)
    assert measure(trace).accepted_length == TOKENS / 3
    assert measure(trace).acceptance_rate is None


def test_without_a_metrics_page_there_is_no_acceptance_and_no_fault():
    trace = run(Script(page=""))
    assert (trace.stop_reason, trace.served.counters) == ("eos", "")
    assert measure(trace).accepted_length is None


@pytest.mark.parametrize(("usage", "counted"), [("total", "total"), ("", "pieces")])
def test_servers_that_do_not_count_along_are_counted_by_pieces_meanwhile(usage, counted):
    trace = run(Script(usage=usage, gap=0.02))
    assert [len(round_.committed) for round_ in trace.rounds] == [1, 1, 1, 1]
    assert trace.served.counted == counted
    assert trace.served.tokens == (TOKENS if usage else None)
    assert measure(trace).committed == (TOKENS if usage else 4)


def test_a_server_that_refuses_a_field_is_asked_again_without_it():
    script = Script(refuse_fields=True, usage="total")
    assert run(script).text == TEXT
    assert [("stream_options" in body) for body in script.asked] == [True, False]


def test_what_arrives_at_once_is_one_round():
    together = b"".join(event({"content": c}, tokens=n) for n, c in enumerate("abc", 1))
    trace = run(Script(raw=together + event({}, "length", 3), page=""))
    assert [len(round_.committed) for round_ in trace.rounds] == [3]
    assert (trace.text, trace.stop_reason) == ("abc", "length")


def test_text_the_count_has_not_reached_waits_and_a_token_without_text_counts():
    parts = [event({"content": "a"}, tokens=1), event({"content": "b"}, tokens=1)]
    parts += [event({}, tokens=3), event({"content": "c"}, "stop", 3)]
    reader = Script(raw=b"".join(parts), page="")
    assert run(reader).text == "abc"


FAULTS = {
    "401": (Script(key="right"), "refused the key"),
    "404": (Script(status=404), "404"),
    "400": (Script(status=400), "does not suit"),
    "429": (Script(status=429), "busy"),
    "500": (Script(status=500), "status 500"),
    "307": (Script(status=307), "status 307"),
    "html": (Script(content_type="text/html"), "not a stream"),
    "not JSON": (Script(raw=b"data: {oops\n\n"), "not a stream"),
    "not UTF-8": (Script(raw=b"data: \xff\n\n"), "not a stream"),
    "wrong shape": (Script(raw=b'data: {"choices": [7]}\n\n'), "not a stream"),
    "a giant line": (Script(raw=b"data: " + b"x" * 1_100_000), "not a stream"),
    "an error inside": (Script(raw=b'data: {"error": {"message": "/etc"}}\n\n'), "of its own"),
    "no end": (Script(finish=""), "ended before"),
    "no reason": (Script(raw=event({"content": "hi"}) + b"data: [DONE]\n\n"), "ended before"),
    "too much": (Script(chunks=[(1, "x")] * 90, gap=0), "more than it was asked"),
}


@pytest.mark.parametrize(("script", "words"), FAULTS.values(), ids=FAULTS)
def test_each_fault_is_one_sentence_and_fails_the_lane(script, words):
    trace = run(dataclasses.replace(script))
    assert trace.stop_reason == "failed"
    assert words in trace.message
    assert trace.message.endswith(".") and "/" not in trace.message


def test_a_fault_keeps_the_text_so_far():
    assert run(Script(finish="")).text == TEXT


def test_a_server_nobody_runs_is_unreachable():
    with serving(Script()) as address:
        pass
    assert "could not be reached" in finish(address).message


def test_a_slow_server_is_ended_at_the_deadline_with_its_text():
    begun = time.perf_counter()
    trace = run(Script(hold=3), seconds=0.4)
    assert time.perf_counter() - begun < 2
    assert "longer than a run may take" in trace.message
    assert trace.text == TEXT


def test_a_silent_server_is_ended_too(monkeypatch):
    monkeypatch.setattr("spork_demo.served.stream.SILENCE_SECONDS", 0.3)
    assert "fell silent" in run(Script(hold=3)).message


def test_the_key_comes_from_the_environment_and_its_absence_is_told(monkeypatch):
    monkeypatch.setenv("TINY_KEY", "right")
    script = Script(key="right")
    assert run(script, key_variable="TINY_KEY").text == TEXT
    monkeypatch.setenv("TINY_KEY", "")
    assert "not set on this machine" in run(script, key_variable="TINY_KEY").message


def test_stopping_closes_the_connection_while_the_server_is_silent():
    script = Script(chunks=[(1, "x")] * 15, gap=0.05, page="")
    threads = threading.active_count()
    with serving(script) as address:
        lane = ServedLane(Server("tiny", f"{address}/v1", "tiny"), "p", SETTINGS, 10)
        events = lane.events()
        while not isinstance(next(events), Round):
            pass
        begun = time.perf_counter()
        events.close()
        assert time.perf_counter() - begun < 1
        assert script.dropped.wait(5)
    assert threading.active_count() <= threads


def test_a_waiting_lane_says_so_so_that_it_can_be_stopped():
    with serving(Script(gap=0.5, page="")) as address:
        events = ServedLane(Server("tiny", f"{address}/v1", "t"), "p", SETTINGS, 10).events()
        assert isinstance(next(events), Served)
        events.close()


def test_a_slow_reader_does_not_stretch_the_lane():
    trace = Trace(SETTINGS, "p")
    with serving(Script(gap=0.01)) as address:
        lane = ServedLane(Server("tiny", f"{address}/v1", "t"), "p", SETTINGS, 10)
        for news in lane.events():
            time.sleep(0.1 if isinstance(news, Started | Round) else 0)
            trace = trace.add(news)
    assert measure(trace).decode_seconds < 0.15


def test_events_are_read_from_portions_of_any_size():
    whole = b": hi\r\n" + event({"content": "h\u00e9llo"}, tokens=2).replace(b"\n", b"\r\n")
    for size in (1, 2, 7, 1000):
        reader = EventReader()
        found = [c for at in range(0, len(whole), size) for c in reader.feed(whole[at : at + size])]
        assert [(chunk.text, chunk.tokens) for chunk in found] == [("héllo", 2)]


def test_thinking_is_text_once_and_lone_surrogates_are_replaced():
    both = b'data: {"choices":[{"delta":{"reasoning":"hm","reasoning_content":"hm"}}]}\n\n'
    lone = b'data: {"choices":[{"delta":{"content":"\\ud800"}}]}\n\n'
    reader = EventReader()
    assert [chunk.text for chunk in reader.feed(both + lone)] == ["hm", "?"]


@pytest.mark.parametrize(
    "data",
    [b"[1]", b'{"choices": 3}', b'{"choices": [{"delta": 3}]}', b'{"usage": 3, "choices": []}',
     b'{"choices": [{"delta": {"content": 3}}]}',
     b'{"choices":[],"usage":{"completion_tokens":-1}}',
     b'{"choices":[],"usage":{"completion_tokens":true}}', b"[" * 100_000],
)  # fmt: skip
def test_odd_shapes_are_refused(data):
    with pytest.raises((MalformedError, RefusedInStreamError)):
        list(EventReader().feed(b"data: " + data + b"\n\n"))


def test_counters_add_up_engines_and_pass_over_what_they_do_not_know():
    page = 'vllm:generation_tokens_total{engine="0"} 3\n'
    page += 'vllm:generation_tokens_total{engine="1"} 4.0 17\n'
    before = read_page(page + "# comment\nother_total 5\nvllm:generation_tokens_total oops\n\x00")
    assert list(before.values()) == [7]
    assert tokens_counted({}, before) == 7
    assert between({}, before) is None


def test_a_server_started_anew_between_readings_counts_nothing():
    name = "vllm:spec_decode_num_drafts_total"
    assert between(read_page(f"{name} 9"), read_page(f"{name} 2")) is None


def served_trace(**facts) -> Trace:
    tokens = run(Script())
    return dataclasses.replace(tokens, served=dataclasses.replace(tokens.served, **facts))


def test_speed_is_set_in_relation_only_where_target_and_device_are_stated_the_same():
    greedy = greedy_lane("p")
    assert speedup(served_trace(), greedy) is None
    assert speedup(served_trace(comparable=True), greedy) > 0


def test_a_served_lane_survives_saving_and_loading():
    race = Race("r", (served_trace(),))
    assert loads(dumps(race)) == race


@pytest.mark.parametrize(
    "change",
    [
        {"served": None},
        {"settings": Settings()},
        {"served": Served("tiny", tokens=-1)},
        {"served": Served("tiny", rounds=2, kept=(1, 2))},
        {"served": Served("tiny", drafted=2, accepted=3)},
        {"rounds": greedy_lane("p", 3).rounds},
    ],
)
def test_a_file_whose_served_lane_contradicts_itself_is_refused(change):
    with pytest.raises(TraceError):
        loads(dumps(Race("r", (dataclasses.replace(served_trace(), **change),))))


def test_a_served_lane_names_its_server_and_runs_nowhere_else():
    for wrong in ({"method": "served"}, {"server": "x"}, {"method": "served", "server": "x" * 81}):
        with pytest.raises(SettingsError):
            Settings(**wrong)
    with pytest.raises(SettingsError, match="on its server"):
        resolve(SETTINGS, has_draft_model=True)
    assert not SETTINGS.exact


def test_texts_are_compared_by_place_and_by_words():
    found = text_fidelity("one two six", "one two three")
    assert (found.first_difference, found.ours, found.theirs) == (8, "six", "three")
    assert found.equal_characters == 8 / 13
    assert found.rouge_l == pytest.approx(2 / 3)
    same = text_fidelity("水的化学式", "水的化学式")
    assert (same.first_difference, same.equal_characters, same.rouge_l) == (None, 1, 1)
    assert text_fidelity("", "").equal_characters is None
