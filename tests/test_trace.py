"""Traces keep what they were given, and reading one from a stranger is strict."""

import contextlib
import copy
import dataclasses
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spork_demo.settings import Settings
from spork_demo.trace import Fidelity, Finished, Race, Trace, fold
from spork_demo.trace_file import TraceError, dumps, loads
from tests.dspark_rounds import dspark_round
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


def test_a_copy_of_a_race_is_the_race_since_nothing_in_it_can_change():
    assert copy.deepcopy(RACE) is RACE
    seen = [RACE, *RACE.lanes, *(r for lane in RACE.lanes for r in lane.rounds)]
    seen += [
        value for r in RACE.lanes[0].rounds + THREE.rounds for value in (*r.nodes, *r.committed)
    ]
    for value in seen:
        assert type(value).__dataclass_params__.frozen
        for field in dataclasses.fields(value):
            assert not isinstance(getattr(value, field.name), (list, dict, set)), field.name


def test_schedules_survive_saving_and_loading():
    assert loads(dumps(SCHEDULED)) == SCHEDULED
    rounded = drafted(confidence=1 + 1e-7)
    assert loads(rounded).lanes[0].rounds[0].nodes[0].confidence > 1


def test_a_trace_is_what_its_events_fold_to():
    lane = dataclasses.replace(THREE, stop_reason="eos", tail="\ufffd", fidelity=Fidelity())
    empty = Trace(lane.settings, lane.prompt)
    assert fold(empty, lane.events()) == lane
    assert fold(empty, [Finished("stopped")]).stop_reason == "stopped"


def test_the_text_of_a_trace_is_its_tokens_joined():
    assert THREE.text == "x" * 9
    assert len(THREE.ids) == 9


SCHEDULED = Race(
    "DSpark",
    (
        Trace(
            Settings("dspark", max_new_tokens=9),
            "p",
            rounds=(
                dspark_round(0, (0.9, 0.8, 0.2), 2, raw=(0.95, 0.9, 0.5)),
                dspark_round(1, (0.9, 0.4), 1, "threshold"),
                dspark_round(2, (0.9, 0.4), 1, "full"),
            ),
        ),
    ),
)


def rescheduled(index: int = 0, **fields) -> str:
    """SCHEDULED with other numbers in the schedule of one round."""
    data = json.loads(dumps(SCHEDULED))
    data["lanes"][0]["rounds"][index]["scheduling"].update(fields)
    return json.dumps(data)


def drafted(**fields) -> str:
    """SCHEDULED with other numbers at its first drafted token."""
    data = json.loads(dumps(SCHEDULED))
    data["lanes"][0]["rounds"][0]["nodes"][0].update(fields)
    return json.dumps(data)


def changed(**values):
    return {"cause": "misses", "width": 2, "depth": 2} | values


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
    "a change to no forks": edited(
        lambda d: d["lanes"][1]["rounds"][0].update(change=changed(width=0))
    ),
    "a change to endless forks": edited(
        lambda d: d["lanes"][1]["rounds"][0].update(change=changed(depth=10**6))
    ),
    "a change without a known cause": edited(
        lambda d: d["lanes"][1]["rounds"][0].update(change=changed(cause="<b>"))
    ),
    "bad settings": edited(lambda d: d["lanes"][0]["settings"].update(fork_width=10**9)),
    "settings of another kind": edited(lambda d: d["lanes"][0].update(settings=[])),
    "missing field": edited(lambda d: d["lanes"][0]["rounds"][0].pop("seconds")),
    "confidence above 1": drafted(confidence=1.01),
    "negative raw confidence": drafted(raw_confidence=-0.1),
    "draft probability above 1": drafted(draft_probability=2),
    "target probability below 0": drafted(target_probability=-1e-3),
    "token probability above 1": edited(
        lambda d: d["lanes"][1]["rounds"][0]["committed"][0].update(target_probability=1.5)
    ),
    "unknown rule": rescheduled(rule="<luck>"),
    "survival above 1": rescheduled(survivals=[1.5, 0.7, 0.1]),
    "a survival too few": rescheduled(survivals=[0.9, 0.7]),
    "a schedule without confidences": drafted(confidence=None),
    "threshold above 1": rescheduled(1, threshold=3),
    "a threshold rule without one": rescheduled(1, threshold=None),
    "negative throughput": rescheduled(throughputs=[-1, 20, 30, 20]),
    "a throughput too few": rescheduled(throughputs=[20, 30]),
    "a hope too many": rescheduled(hopes=[1, 1, 1, 1]),
    "negative call seconds": rescheduled(call_seconds=[-0.1] * 8),
    "call seconds of too few rows": rescheduled(call_seconds=[0.1] * 2),
    "negative draft seconds": rescheduled(draft_seconds=-1),
    "no draft seconds": rescheduled(draft_seconds=None),
    "infinite throughput": rescheduled(throughputs=[1e308] * 3).replace("1e+308", "1e999"),
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
@given(value=JSON, where=st.integers(0, 400), race=st.sampled_from([RACE, SCHEDULED]))
def test_any_value_anywhere_is_read_or_refused_but_never_crashes(value, where, race):
    data = json.loads(dumps(race))
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
