"""Hostile text at the edges: sentences, log lines, metrics, servers' streams, the static site."""

import base64
import io
import json
import logging
import re
import zlib
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from spork_demo import trace_file
from spork_demo.export import export_site
from spork_demo.host import RunRefusedError
from spork_demo.language import LANGUAGES, catalogue, known, later, say, speaking
from spork_demo.observed import ObservedHost
from spork_demo.served.counters import between, read_page
from spork_demo.served.events import EventReader, MalformedError, RefusedInStreamError
from spork_demo.server import JsonLines
from spork_demo.settings import METHODS, RULES, Settings
from spork_demo.trace import Race
from spork_demo.ui import player
from spork_demo.ui.calibrate_handlers import read_plan
from spork_demo.ui.notices import headed, notice
from tests.hostile import TEXTS, among, cases, leaves, texts, values
from tests.sample_race import LIMITS, FakeHost, sample_race
from tests.served_server import VLLM_PAGE, Script
from tests.test_served import SETTINGS, run

PLACE = re.compile(r"\{(\w+)\}")
FILLED = [sentence for sentence in catalogue("zh") if PLACE.search(sentence)]


@pytest.mark.parametrize("code", LANGUAGES)
@pytest.mark.parametrize("text", ["{x}", "{0}", "{x.__class__}", "{", "}}", "{{x}}", "%s", "\\N"])
def test_braces_in_a_value_stay_as_they_are_in_every_sentence(code, text):
    with speaking(code):
        for sentence in FILLED:
            names = set(PLACE.findall(sentence))
            told = say(sentence, **dict.fromkeys(names, text))
            assert told.count(text) >= len(names), sentence
            assert say(later(sentence, **dict.fromkeys(names, text))).count(text) >= len(names)


@given(texts)
@cases("log lines")
def test_a_stranger_s_text_is_never_taken_for_a_sentence_of_ours(text):
    with speaking("zh"):
        if text not in catalogue("zh"):
            assert known(text) == text


@given(texts)
@cases("log lines")
def test_a_notice_is_text(text):
    for told in (notice(text), headed(text, text)):
        assert not re.search(r"<(?!/?(p|div|h3)\b)", told)
        assert told.count("<script") == 0


@cases("log lines")
@given(texts, st.dictionaries(texts, values, max_size=3))
def test_a_log_line_is_one_line_whatever_is_logged(text, fields):
    record = logging.makeLogRecord(
        {"name": text, "msg": "%s", "args": (text,), "levelname": "INFO", "fields": fields}
    )
    line = JsonLines().format(record)
    assert line.isascii() and line.isprintable()
    json.loads(line)


def test_a_log_line_can_hold_what_json_cannot():
    fields = {"path": object, "error": ValueError("x")}
    line = JsonLines().format(logging.makeLogRecord({"msg": "x", "fields": fields}))
    assert "ValueError" in json.loads(line)["error"]


def test_a_line_is_written_where_only_ascii_can_be():
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    handler.emit(logging.makeLogRecord({"msg": "字\ud800\nnew"}))
    stream.flush()
    assert stream.buffer.getvalue().count(b"\n") == 1


STRANGE_NAME = "x\ny <img onerror=1> " * 50


def test_neither_logs_nor_metrics_hold_what_a_visitor_sent(caplog):
    registry = CollectorRegistry()
    host = ObservedHost(FakeHost(refuse="No such pair."), registry)
    lane = Settings("spork", "exact", drafter="ngram", judge="target")
    plan = read_plan(
        {"judge": "early_layers", "drafter": "target", "prompts": 1, "tokens": 8, "layers": 28},
        LIMITS,
    )
    with caplog.at_level(logging.INFO):
        for runs in (
            host.race(STRANGE_NAME, [lane], [STRANGE_NAME], STRANGE_NAME),
            host.calibrate(plan, STRANGE_NAME),
        ):
            with pytest.raises(RunRefusedError):
                list(runs)
    assert [record.fields["pair"] for record in caplog.records] == ["unknown"] * 2
    assert "onerror" not in caplog.text + str([vars(record) for record in caplog.records])
    assert b"onerror" not in generate_latest(registry)


def test_labels_of_metrics_are_few_whatever_is_run():
    registry = CollectorRegistry()
    host = ObservedHost(FakeHost(), registry)
    for seed in range(30):
        lane = Settings("spork", "exact", drafter="ngram", judge="target", seed=seed,
                        max_new_tokens=2)  # fmt: skip
        list(host.race(f"prompt {seed}", [lane], [f"label {seed}"], f"pair {seed}"))
    told = generate_latest(registry).decode()
    samples = [line for line in told.splitlines() if line.startswith("spork_tokens_total{")]
    assert len(samples) == 1
    assert len(METHODS) * len(RULES) < 20
    assert "pair" not in told.replace("spork_", "")


chunks = st.dictionaries(
    st.sampled_from(["choices", "usage", "error", "delta", "content", "completion_tokens"]), values
)
lines = st.one_of(
    chunks.map(lambda chunk: "data: " + json.dumps(chunk)),
    values.map(lambda value: "data: " + json.dumps({"choices": [{"delta": {"content": value}}]})),
    values.map(lambda value: "data: " + json.dumps({"choices": [{"delta": value}]})),
    values.map(lambda value: "data: " + json.dumps({"usage": {"completion_tokens": value}})),
    texts.map(lambda text: "data: " + text),
    texts,
)


@cases("streams of servers")
@given(st.lists(lines, max_size=4), st.integers(1, 400))
def test_a_stream_is_text_or_refused(sent, portion):
    stream = "\n\n".join(sent).encode("utf-8", "surrogatepass") + b"\n\n"
    reader = EventReader()
    try:
        for start in range(0, len(stream), portion * 50):
            for chunk in reader.feed(stream[start : start + portion * 50]):
                chunk.text.encode("utf-8")
                assert chunk.tokens is None or 0 <= chunk.tokens < 2**31
    except (MalformedError, RefusedInStreamError):
        pass


@cases("counters of servers")
@given(st.lists(st.one_of(st.sampled_from(VLLM_PAGE.splitlines()), texts), max_size=12), leaves)
@example(["vllm:spec_decode_num_drafts_total" + "{" * 50_000 + "} 1"], 1)
@example(["vllm:spec_decode_num_drafts_total{" + "} " * 50_000], 1)
@example(["vllm:spec_decode_num_drafts_total " + " " * 100_000 + "x"], 1)
@example(["vllm:spec_decode_num_drafts_total 1" + " " * 100_000 + "x"], 1)
@example(['vllm:spec_decode_num_accepted_tokens_per_pos_total{position="' + "9" * 50_000], 1)
def test_a_page_of_counters_is_numbers_or_nothing(rows, value):
    before = read_page("\n".join(rows))
    after = read_page("\n".join(f"{row.rpartition(' ')[0]} {value}" for row in rows))
    assert all(isinstance(number, float) for number in before.values())
    between(before, after)


def test_a_server_that_claims_two_thousand_million_tokens_is_cut_off():
    """Each token would be an object here."""
    said = {"choices": [{"delta": {"content": "x"}}], "usage": {"completion_tokens": 2**31 - 1}}
    trace = run(Script(raw=f"data: {json.dumps(said)}\n\n".encode()), SETTINGS)
    assert trace.stop_reason == "failed"
    assert "more than it was asked for" in trace.message
    assert trace.tokens == ()


ODD = "a b#c?d%20e&f'\"<img src=x onerror=1>..${x}"


def test_the_site_of_a_race_with_an_odd_name_and_title_is_whole(tmp_path):
    traces, site = tmp_path / "in", tmp_path / "out"
    traces.mkdir()
    race = sample_race(tokens=2)
    lanes = tuple(replace(lane, label=TITLE, prompt=TITLE) for lane in race.lanes)
    (traces / f"{ODD}.json").write_text(trace_file.dumps(Race(TITLE, lanes)), encoding="utf-8")
    export_site(traces, site)
    written = {path.relative_to(site).parts[0] for path in site.rglob("*") if path.is_file()}
    assert written == {"assets", "traces", "data", "index.html", "zh.html"}
    page = (site / "index.html").read_text("utf-8")
    assert "<img" not in page and "</script><" not in page.replace("</script><script", "")
    script = (site / "data" / "en" / f"{ODD}.js").read_text("utf-8")
    name, text = re.fullmatch(r"sporkSite\.receive\((.*),\"([\w+/=]+)\"\);\n", script).groups()
    assert json.loads(name) == ODD
    data = json.loads(zlib.decompress(base64.b64decode(text)))
    assert "<" not in data["lines"] and "<" not in data["reel"]


TITLE = "../../../etc/passwd </script><img src=x onerror=1> ${x} $title $data \u2028"


@pytest.mark.parametrize("title", [text for text in TEXTS if 0 < len(text) < 1000])
def test_a_title_on_the_page_of_the_site_is_data(title):
    title = title.encode("utf-8", "replace").decode()
    page = player.page([("1-a", title)])
    assert page.count("<script") == player.page([("1-a", "x")]).count("<script")
    assert page.count("<") == player.page([("1-a", "x")]).count("<")


@cases("counters of servers")
@given(among(TEXTS))
def test_what_is_kept_of_a_race_can_be_written(text):
    lane = replace(sample_race(tokens=1).lanes[0], prompt=text)
    trace_file.dumps(Race(text, (lane,))).encode("utf-8")
