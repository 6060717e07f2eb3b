"""Traces keep what they were given, and reading one from a stranger is strict."""

import contextlib
import dataclasses
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spork_demo.settings import Settings
from spork_demo.trace import Fidelity, Finished, Race, Trace, fold
from spork_demo.trace_file import TraceError, dumps, loads
from tests.test_metrics import THREE, round_

RACE = Race(
    "A race, 中文 <b>&",
    (
        Trace(Settings(), "p", label="Greedy", rounds=(round_(0, "", 1),), stop_reason="length"),
        dataclasses.replace(THREE, fidelity=Fidelity(first_difference=3, margin=0.25)),
    ),
)


def test_loading_what_was_saved_gives_the_same_race():
    assert loads(dumps(RACE)) == RACE


def test_a_trace_is_what_its_events_fold_to():
    lane = dataclasses.replace(THREE, stop_reason="eos", tail="\ufffd", fidelity=Fidelity())
    empty = Trace(lane.settings, lane.prompt)
    assert fold(empty, lane.events()) == lane
    assert fold(empty, [Finished("stopped")]).stop_reason == "stopped"


def test_the_text_of_a_trace_is_its_tokens_joined():
    assert THREE.text == "x" * 9
    assert len(THREE.ids) == 9


def edited(change) -> str:
    data = json.loads(dumps(RACE))
    change(data)
    return json.dumps(data)


BAD = {
    "not JSON": "{",
    "a list": "[]",
    "NaN": '{"version": 1, "lanes": NaN}',
    "nothing": "",
    "deep": "[" * 100_000,
    "no lanes": edited(lambda d: d.update(lanes=[])),
    "five lanes": edited(lambda d: d.update(lanes=d["lanes"] * 3)),
    "another version": edited(lambda d: d.update(version=99)),
    "unknown field": edited(lambda d: d.update(html="<b>")),
    "text for a number": edited(lambda d: d["lanes"][1].update(prefill_seconds="1")),
    "true for a number": edited(lambda d: d["lanes"][1].update(prompt_tokens=True)),
    "infinite": edited(lambda d: d["lanes"][1].update(prefill_seconds=1)).replace(
        '"prefill_seconds": 1', '"prefill_seconds": 1e999'
    ),
    "lone surrogate": dumps(RACE).replace("中", "\\ud800"),
    "huge integer": edited(lambda d: d["lanes"][1].update(prefill_seconds=10**400)),
    "unknown fate": edited(
        lambda d: d["lanes"][1]["rounds"][0]["committed"][0].update(fate="<script>")
    ),
    "parent after child": edited(lambda d: d["lanes"][1]["rounds"][0]["nodes"][0].update(parent=3)),
    "more accepted than sent": edited(lambda d: d["lanes"][1]["rounds"][1].update(accepted=9)),
    "rounds out of order": edited(lambda d: d["lanes"][1]["rounds"][0].update(index=5)),
    "negative seconds": edited(lambda d: d["lanes"][1]["rounds"][0].update(seconds=-1)),
    "bad settings": edited(lambda d: d["lanes"][0]["settings"].update(fork_width=10**9)),
    "settings of another kind": edited(lambda d: d["lanes"][0].update(settings=[])),
    "missing field": edited(lambda d: d["lanes"][0]["rounds"][0].pop("seconds")),
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD.keys())
def test_a_file_that_is_no_race_is_refused_with_one_sentence(text):
    with pytest.raises(TraceError) as refusal:
        loads(text)
    message = str(refusal.value)
    assert message.endswith(".")
    assert len(message) < 300
    assert "Traceback" not in message
    assert "<" not in message


def test_a_prompt_with_a_lone_surrogate_is_written_as_text():
    race = dataclasses.replace(RACE, title="a\ud800b")
    assert loads(dumps(race).encode()).title == "a?b"


def test_a_file_over_the_size_limit_is_refused_unread():
    with pytest.raises(TraceError, match="larger"):
        loads(b" " * 16_000_001)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(value=JSON, where=st.integers(0, 200))
def test_any_value_anywhere_is_read_or_refused_but_never_crashes(value, where):
    data = json.loads(dumps(RACE))
    places = list(_places(data))
    holder, key = places[where % len(places)]
    holder[key] = value
    with contextlib.suppress(TraceError):
        assert isinstance(loads(json.dumps(data)), Race)


def _places(value):
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield value, key
        if isinstance(inner, dict | list):
            yield from _places(inner)
