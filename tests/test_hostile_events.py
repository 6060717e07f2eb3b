"""Every event of the page, public or private, in both languages, called with hostile values.

The list of events is the page's own, so that none can be forgotten.
"""

import asyncio
import copy
import functools
import json
import logging
from pathlib import Path
from typing import Any

import gradio as gr
import orjson
import pytest
from gradio.events import EventData
from gradio.state_holder import SessionState
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from spork_demo import language, trace_file
from spork_demo.ui import guard
from tests.hostile import FILES, cases, file_data, insides, is_sentence, leaves, texts, values
from tests.launched import launched
from tests.sample_race import (
    COSTS,
    DSPARK_PAIR,
    PAIR,
    FakeHost,
    dspark_race,
    sample_race,
)

STEPS = 3
"""Values that are taken of a stream before it is closed."""

HOST = FakeHost(offers=(DSPARK_PAIR, PAIR), measured=COSTS)


@pytest.fixture(scope="module")
def page():
    """The page as it is served, nothing of it shown."""
    races = [sample_race(tokens=3), dspark_race(tokens=3)]
    with launched(HOST, races=races) as served:
        yield served


def request(query: str = "") -> gr.Request:
    """What a handler is told of the browser's request."""
    text = query.encode("ascii", "ignore")
    scope = {"type": "http", "method": "GET", "path": "/", "query_string": text, "headers": []}
    return gr.Request(Request(scope))


@functools.cache
def opened(page: gr.Blocks) -> SessionState:
    """What the server holds for a visitor who has just come; making it takes a while."""
    return SessionState(page)


def fresh(page: gr.Blocks) -> SessionState:
    state = copy.copy(opened(page))
    state.blocks_config, state.state_data = copy.copy(page.default_config), {}
    return state


async def answer(
    page: gr.Blocks, event: Any, inputs: list[Any], data: Any = None, query: str = ""
) -> list[Any]:
    """What the browser gets for an event, step by step; the message where it is an error."""
    state, iterator, found = fresh(page), None, []
    told = EventData(None, data)
    try:
        for _ in range(STEPS):
            got = await page.process_api(
                block_fn=event, inputs=list(inputs), state=state, request=request(query),
                iterator=iterator, session_hash="x", event_id="e", event_data=told,
                in_event_listener=True,
            )  # fmt: skip
            found.append(got["data"])
            iterator = got.get("iterator")
            if not got.get("is_generating"):
                break
    except gr.Error as error:
        return [error.message]
    finally:
        if iterator is not None:
            await iterator.aclose()
    return found


def asked_of(event: Any) -> int:
    """How many values of an event a stranger chooses."""
    return sum(not block.stateful for block in event.inputs)


def reads_data(event: Any) -> bool:
    """Whether a handler takes data of the event itself, or the request."""
    return any(kind in (gr.EventData, gr.Request) for kind in event.fn.__annotations__.values())


def kind_of(event: Any) -> str:
    """How often an event is tried; those of other languages are the same code."""
    if event.page:
        return "events of other languages"
    return "events of the page" if asked_of(event) or reads_data(event) else "events without values"


DATA = ["index", "lane", "round", "value", "_data", "target"]
event_data = st.one_of(values, st.dictionaries(st.sampled_from(DATA), values))


def events(page: gr.Blocks) -> list[Any]:
    return [event for event in page.fns.values() if event.fn is not None]


@st.composite
def sendings(draw: Any, event: Any) -> list[Any]:
    """Values for an event: its widgets' own, some of them replaced, now and then too few."""
    own = [None if block.stateful else getattr(block, "value", None) for block in event.inputs]
    if kind_of(event) == "events without values" and event.inputs:
        return []  # too few; what they draw with the right ones is tested elsewhere
    sent = [draw(values) if draw(st.booleans()) else value for value in own]
    return sent[: draw(st.sampled_from([None, None, None, -1]))]


@pytest.mark.filterwarnings("ignore")
def test_every_event_answers_anything_with_values_or_one_sentence(page, caplog):
    loop = asyncio.new_event_loop()
    unforeseen = []
    tried = 0

    def tries(event: Any) -> None:
        @cases(kind_of(event))
        @given(sendings(event), event_data, texts)
        def tried_once(inputs, data, query):
            nonlocal tried
            tried += 1
            caplog.clear()
            got = loop.run_until_complete(answer(page, event, inputs, data, query))
            if [record for record in caplog.records if record.exc_info]:
                unforeseen.append((event.api_name, inputs, data, caplog.text[-1500:]))
            for values_ in got:
                if isinstance(values_, str):
                    assert is_sentence(values_), (event.api_name, values_)
                else:
                    text = orjson.dumps(values_, default=str).decode()
                    assert not insides(text), (event.api_name, insides(text))

        tried_once()

    with caplog.at_level(logging.WARNING):
        for event in events(page):
            tries(event)
    loop.close()
    assert not unforeseen, unforeseen[0]
    assert tried > 300


def run(page: gr.Blocks, name: str, *inputs: Any, data: Any = None, query: str = "") -> Any:
    """The last thing an event of the English page answers."""
    event = next(event for event in events(page) if event.api_name == name)
    return asyncio.run(answer(page, event, list(inputs), data, query))[-1]


@pytest.mark.parametrize("file", FILES, ids=range(len(FILES)))
def test_no_file_is_read_and_no_address_fetched_for_a_value(page, monkeypatch, file):
    """Gradio fetches an address that stands where a file could, in any field."""
    fetched = []

    async def fetching(*asked: Any, **_options: Any) -> None:
        fetched.append(asked)

    monkeypatch.setattr("gradio.processing_utils.async_ssrf_protected_download", fetching)
    for name in ("upload", "copy_link", "compare"):
        event = next(event for event in events(page) if event.api_name == name)
        assert run(page, name, *[file] * len(event.inputs)) == guard.MISFIT
    assert fetched == []


def test_a_race_is_read_where_it_was_uploaded_and_nowhere_else(page, tmp_path):
    text = trace_file.dumps(sample_race(tokens=2))
    for folder, read in ((gr.utils.get_upload_folder(), True), (tmp_path, False)):
        file = Path(folder) / "hostile" / "race.json"
        file.parent.mkdir(exist_ok=True, parents=True)
        file.write_text(text, encoding="utf-8")
        told = run(page, "upload", file_data(str(file)))
        assert (told == guard.MISFIT) is not read
        file.unlink()


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("example", ["x"]),
        ("example", [10**30]),
        ("example", [-1]),
        ("show_lanes", ["x"]),
        ("show_lanes", [{}]),
        ("explore_method", [None, [], {}, [], {}, []]),
        ("explore_knob2", [[], {}, []]),
        ("lane2_rules", ["spork", 10**30, [], {}]),
        ("lane2_preset", [{"__type__": "update", "value": "x"}]),
    ],
)
def test_a_menu_that_sends_nonsense_changes_nothing_it_should_not(page, caplog, name, inputs):
    with caplog.at_level(logging.WARNING):
        told = run(page, name, *inputs)
    orjson.dumps(told)
    assert not [record for record in caplog.records if record.exc_info]
    assert "10000000000" not in json.dumps(told)


@pytest.mark.parametrize("data", [None, 5, "x", {"lane": []}, {"lane": 2**70, "index": -(2**70)}])
@pytest.mark.parametrize("name", ["open_round", "inside_pick_node", "lesson_node"])
def test_data_of_an_event_may_be_anything(page, caplog, name, data):
    event = next(event for event in events(page) if event.api_name == name)
    told = run(page, name, *[None] * len(event.inputs), data=data)
    assert not isinstance(told, str)
    assert not [record for record in caplog.records if record.exc_info]


def test_a_file_in_the_data_of_an_event_is_refused_too(page):
    told = run(page, "inside_pick_node", None, None, data={"index": file_data("/etc/passwd")})
    assert told == guard.MISFIT


def test_too_few_values_are_refused_without_a_word_of_them(page, caplog, capfd):
    with caplog.at_level(logging.INFO):
        assert run(page, "race", "a secret prompt") == guard.MISFIT
    assert "secret" not in caplog.text + "".join(capfd.readouterr())


def test_an_error_nobody_foresaw_is_one_sentence_and_a_log_line(caplog):
    def broken(_value: Any) -> None:
        raise RuntimeError("/secret/path")

    def breaking(_value: Any):
        yield 1
        raise KeyError("/secret/path")

    with pytest.raises(gr.Error) as caught, language.speaking("zh"):
        guard.answering(broken)(1)
    assert caught.value.message == language.catalogue("zh")[guard.BROKE]
    steps = guard.answering(breaking)(1)
    assert next(steps) == 1
    with pytest.raises(gr.Error, match="unexpected error"):
        next(steps)

    async def awaiting(_value: Any):
        yield 1
        raise KeyError("/secret/path")

    async def last() -> None:
        async for _ in guard.answering(awaiting)(1):
            pass

    with pytest.raises(gr.Error, match="unexpected error"):
        asyncio.run(last())
    assert len([record for record in caplog.records if record.exc_info]) == 3


def test_refusals_of_handlers_pass_and_so_does_their_end():
    def refusing(_value: Any) -> None:
        raise gr.Error("No.", print_exception=False)

    with pytest.raises(gr.Error, match=r"No\."):
        guard.answering(refusing)(1)
    assert list(guard.answering(lambda n: n)(3) for _ in "a") == [3]


@cases("restored links")
@given(st.dictionaries(texts, leaves, max_size=3))
def test_a_whole_number_is_all_that_event_data_gives(data):
    for name in data:
        found = guard.sent(EventData(None, data), name, 7)
        assert type(found) is int
    assert guard.sent(EventData(None, None), "lane", 7) == 7
