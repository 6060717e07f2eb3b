"""Hostile values where settings, links and files are read: a value or one sentence, never more."""

import contextlib
import copy
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spork_demo import trace_file
from spork_demo.axes import SWEPT, axis_values
from spork_demo.calibration import CalibrationPlan
from spork_demo.host import RunRefusedError
from spork_demo.language import LANGUAGES, speaking
from spork_demo.settings import CHOICES, KNOBS, Settings, SettingsError
from spork_demo.spacefile import Spacefile, SpacefileError, parse_spacefile
from spork_demo.trace import Node, Race, Round, Token, Trace
from spork_demo.trace_file import TraceError
from spork_demo.ui import inside
from spork_demo.ui.api import Endpoints
from spork_demo.ui.calibrate_handlers import read_plan
from spork_demo.ui.entry import Entry, EntryError, read_entry
from spork_demo.ui.handlers import Desk
from spork_demo.ui.reel import reel_value
from spork_demo.ui.results import chart_values
from spork_demo.ui.share import Link, read_query, write_query
from spork_demo.ui.stage import stage_value
from spork_demo.ui.sweep_entry import SweepEntry, read_sweep
from spork_demo.ui.token_view import race_lines
from tests import handmade_rounds as made
from tests.hostile import (
    CASES,
    ROOT,
    TEXTS,
    among,
    cases,
    insides,
    is_sentence,
    leaves,
    nested,
    texts,
    values,
)
from tests.sample_race import (
    LIMITS,
    PRESETS,
    FakeHost,
    dspark_race,
    forked_lane,
    greedy_lane,
    greedy_round,
    sample_race,
)
from tests.test_explore import asked as sweep_values
from tests.test_ui_entry import values as run_values

RACES = [json.loads(trace_file.dumps(race)) for race in
         (sample_race(tokens=3), dspark_race(tokens=3), made.handmade_race())]  # fmt: skip


def places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to everything inside a value of JSON."""
    if way:
        yield way
    pairs = enumerate(value) if isinstance(value, list) else ()
    for key, inner in value.items() if isinstance(value, dict) else pairs:
        yield from places(inner, (*way, key))


def part(value: Any, way: tuple[Any, ...]) -> Any:
    for key in way:
        value = value[key]
    return value


def put(value: Any, way: tuple[Any, ...], new: Any) -> None:
    for key in way[:-1]:
        value = value[key]
    value[way[-1]] = new


WAYS = [list(places(race)) for race in RACES]


class Spoilt(str):
    """The text of a file, which is not printed whole where a test fails."""

    def __repr__(self) -> str:
        return f"<a file of {len(self)} characters>"


@st.composite
def spoilt_races(draw: Any, kinds: Any = lambda _: values, changes: int = 3) -> Spoilt:
    """The file of a race with a few of its parts replaced. kinds: from a part to what may be."""
    which = draw(st.integers(0, len(RACES) - 1))
    race = copy.deepcopy(RACES[which])
    for _ in range(draw(st.integers(1, changes))):
        way = WAYS[which][draw(st.integers(0, len(WAYS[which]) - 1))]
        with contextlib.suppress(KeyError, IndexError, TypeError):
            put(race, way, draw(kinds(part(race, way))))
    return Spoilt(json.dumps(race))


def loaded(text: str | bytes, code: str = "zh") -> Race | None:
    """The race of a file, or None where it is refused, which is done in one sentence."""
    with speaking(code):
        try:
            return trace_file.loads(text)
        except TraceError as error:
            assert is_sentence(str(error)), str(error)
    return None


@cases("race files")
@given(spoilt_races())
def test_a_race_file_is_a_race_or_a_sentence(text):
    found = loaded(text)
    if found is not None:
        assert trace_file.loads(trace_file.dumps(found)) == found


@cases("no race files")
@given(st.one_of(st.binary(max_size=200), texts, values.map(lambda value: json.dumps(value))))
@example("[" * 100_000)
@example('{"lanes":' * 50_000)
@example('{"version":1,"lanes":' + "[" * 100_000)
@example('{"version":1,"title":"x","lanes":[],"lanes":[]}')
@example("1" * 5000)
@example("\ufeff{}")
@example(b"\xff\xfe\x00\x00")
@example(json.dumps({"version": 1, "title": "x", "lanes": nested(300)}))
def test_what_is_no_race_is_refused_in_a_sentence(text):
    if isinstance(text, str):
        text = text.encode("utf-8", "surrogatepass")
    assert loaded(text) is None


FLOATS = among([0.0, 1.0, 0.5, 1e30, 5e-324, 1e-300, 123456.789])
SHORT_TEXTS = among([text for text in TEXTS if len(text) < 1000])


def alike(old: Any) -> st.SearchStrategy[Any]:
    """Something of the kind of `old` that a race may hold in its place."""
    if isinstance(old, float):
        return FLOATS
    if isinstance(old, str):
        return SHORT_TEXTS
    return st.just(old) if isinstance(old, list | dict | bool) else among([0, 1, 2, 2**62, None])


def drawn(race: Race) -> list[str]:
    """What the page is sent to show a race, charts apart."""
    lane = inside.telling_lane(race)
    place = inside.telling_round(race, lane)
    return [race_lines(race), stage_value(race), reel_value(race, lane, place)]


def check_drawn(shown: list[Any]) -> None:
    for text in filter(None, shown):
        assert "<" not in text
        text.encode("utf-8")
        for line in text.splitlines():
            json.loads(line, parse_constant=pytest.fail)


@cases("drawn races")
@given(spoilt_races(alike, 6), st.sampled_from(sorted(LANGUAGES)))
def test_every_race_that_is_read_can_be_shown(spoilt, code):
    race = loaded(spoilt)
    with speaking(code):
        if race is not None:
            check_drawn(drawn(race))


@cases("charted races")
@given(spoilt_races(alike, 6), st.sampled_from(sorted(LANGUAGES)))
def test_every_race_that_is_read_has_its_charts(spoilt, code):
    race = loaded(spoilt)
    with speaking(code):
        if race is not None:
            check_drawn(chart_values(race))
            inside.shown(race, inside.telling_lane(race), 0)


def every_second(race: Race, seconds: float) -> Race:
    """The race with every round of it, and every phase, of so many seconds."""
    fields = ("seconds", "draft_seconds", "judge_seconds", "commit_seconds")
    lanes = []
    for lane in race.lanes:
        rounds = tuple(replace(r, **dict.fromkeys(fields, seconds)) for r in lane.rounds)
        lanes.append(replace(lane, rounds=rounds, prefill_seconds=seconds))
    return replace(race, lanes=tuple(lanes))


@pytest.mark.parametrize("seconds", [0.0, 5e-324, 1e-300, 1e30])
def test_rounds_of_no_time_or_of_ages_can_be_shown(seconds):
    race = trace_file.loads(trace_file.dumps(every_second(sample_race(tokens=3), seconds)))
    check_drawn([*drawn(race), *chart_values(race)])
    inside.shown(race, 1, 0)


def test_numbers_beyond_any_run_are_refused():
    race = every_second(sample_race(tokens=2), 1.7e308)
    with pytest.raises(TraceError, match="too large a number"):
        trace_file.loads(trace_file.dumps(race))


def test_a_race_is_no_larger_than_a_run_can_be():
    rounds = tuple(greedy_round(index) for index in range(4225))
    long = Race("x", (replace(greedy_lane("p", 1), rounds=rounds),))
    with pytest.raises(TraceError, match="at most 4096 rounds"):
        trace_file.loads(trace_file.dumps(long))
    settings = Settings("spork", drafter="ngram", judge="target")
    (lane,) = [forked_lane("p", settings, "1 SPORK exact", [(1, "bonus")], 2)]
    nodes = tuple(Node(1, "a", -1, "rejected") for _ in range(129))
    wide = replace(lane, rounds=(replace(lane.rounds[0], nodes=nodes, scheduled=2, accepted=0),))
    with pytest.raises(TraceError, match="at most 128 tokens"):
        trace_file.loads(trace_file.dumps(Race("x", (wide,))))
    lane = greedy_lane("p", 1)
    many = replace(lane.rounds[0], committed=(Token(1, "a", "plain"),) * 4225)
    crowd = replace(lane, rounds=(many,))
    with pytest.raises(TraceError, match="as many tokens"):
        trace_file.loads(trace_file.dumps(Race("x", (crowd,))))


def test_names_of_a_race_are_short():
    lane = replace(greedy_lane("p", 1), label="x" * 1001)
    with pytest.raises(TraceError, match="label is longer than 1000"):
        trace_file.loads(trace_file.dumps(Race("x", (lane,))))


def test_the_largest_file_is_refused_or_read_in_bounded_time():
    """Whatever stands in it, 16 MB cost seconds at most, also on a busy machine."""
    round_ = Round(0, (), (Token(1, "a", "plain"),), 0, 0, 1, 0, 1, 0.1, 0, 0, 0)
    lane = Trace(Settings(), "p", rounds=(round_,) * 20_000)
    for text in (
        json.dumps({"version": 1, "title": "x", "lanes": [0] * 1_000_000}),
        "[" * 15_000_000,
        trace_file.dumps(Race("x", (lane,))),
    ):
        begun = time.process_time()
        assert loaded(text) is None
        assert time.process_time() - begun < 20


def spoilt_values(plain: dict[str, Any]) -> Any:
    """A whole entry with some of its values replaced."""
    some = st.dictionaries(st.sampled_from(sorted(plain)), values, min_size=1, max_size=4)
    return some.map(lambda changed: plain | changed)


@cases("runs")
@given(spoilt_values(run_values()))
def test_a_run_is_read_or_refused_in_a_sentence(asked):
    try:
        assert isinstance(read_entry(asked, LIMITS, PRESETS), Entry)
    except (EntryError, SettingsError) as error:
        assert is_sentence(str(error)), str(error)


@cases("sweeps")
@given(spoilt_values(sweep_values()))
def test_a_sweep_is_read_or_refused_in_a_sentence(asked):
    try:
        assert isinstance(read_sweep(asked, LIMITS, PRESETS), SweepEntry)
    except (EntryError, SettingsError) as error:
        assert is_sentence(str(error)), str(error)


CALIBRATED = {"judge": "early_layers", "drafter": "target", "layers": 28, "prompts": 2,
              "tokens": 8, "quantile": 0.1, "fork_width": 2, "fork_depth": 1}  # fmt: skip


@cases("calibrations")
@given(spoilt_values(CALIBRATED))
def test_a_calibration_is_read_or_refused_in_a_sentence(asked):
    try:
        assert isinstance(read_plan(asked, LIMITS), CalibrationPlan)
    except (EntryError, SettingsError) as error:
        assert is_sentence(str(error)), str(error)


PIECES = [*"0123456789.,:;-+e ", "0.1", "1:8", "::", "1e9", "nan"]
ranges = st.lists(st.sampled_from(PIECES), max_size=12)


@cases("axes")
@given(
    st.one_of(st.sampled_from([*KNOBS, *CHOICES]), values),
    st.one_of(values, ranges.map("".join)),
)
@example("fork_width", "1:99999999999999999999")
@example("temperature", "0:20000000000000000000:0.00000000000000000001")
@example("temperature", "0." + "1" * 20 + ":" * 300)
@example("fork_width", "1," * 200)
def test_values_to_sweep_are_few_or_refused_in_a_sentence(name, text):
    name = name if isinstance(name, str) else "temperature"
    begun = time.process_time()
    try:
        assert 1 <= len(axis_values(name, text)) <= 144
    except SettingsError as error:
        assert is_sentence(str(error)), str(error)
    assert time.process_time() - begun < 2


@cases("settings")
@given(
    st.dictionaries(st.one_of(st.sampled_from(list(Settings.__slots__)), texts), values, max_size=4)
)
def test_settings_are_settings_or_a_sentence(plain):
    try:
        Settings.from_plain(plain)
    except SettingsError as error:
        assert is_sentence(str(error)), str(error)


SHORT = {"method": "spork", "max_new_tokens": 2}
AXES = st.dictionaries(
    st.sampled_from(SWEPT["spork", "exact"]),
    st.one_of(values, st.lists(leaves, max_size=2)),
    max_size=3,
)


@cases("endpoints of the API")
@given(
    st.sampled_from(["compare", "decode", "sweep"]),
    st.one_of(st.just("Hello"), values),
    st.one_of(
        values, st.just([{"method": "spork"}]), st.just({"method": "spork", "max_new_tokens": 2})
    ),
    st.one_of(
        values,
        st.dictionaries(
            st.sampled_from([*SWEPT["spork", "exact"]]),
            st.one_of(values, st.lists(leaves, max_size=2)),
            max_size=3,
        ),
    ),
    st.one_of(st.just(""), values),
)
def test_the_api_answers_or_refuses_in_a_sentence(name, prompt, lanes, axes, pair):
    told = Endpoints(Desk(FakeHost(), LIMITS, PRESETS, ()))
    asked = (prompt, lanes, pair) if name != "sweep" else ([prompt], lanes, axes, 1, pair)
    work = told._compared(asked[0], [lanes] if name == "decode" else lanes, pair)
    if name == "sweep":
        work = told._swept(*asked)
    try:
        for answer in work:
            assert not insides(json.dumps(answer, allow_nan=False))
    except (EntryError, SettingsError, RunRefusedError) as error:
        assert is_sentence(str(error)), str(error)


NAMES = [*run_values(), "tab", "step", "recording", "lane", "round", "stage", "__theme"]


@cases("links")
@given(
    st.dictionaries(st.one_of(st.sampled_from(NAMES), texts), st.one_of(texts, values), max_size=5)
)
def test_a_link_gives_values_that_can_be_and_names_the_rest(query):
    link = read_query(query, LIMITS)
    assert isinstance(link, Link)
    assert set(link.problems) <= set(query)
    again = write_query(dict(link.values), LIMITS, link.shown)
    assert len(again) <= 8000
    again.encode("ascii")


SPACEFILE = (ROOT / "Spacefile").read_text(encoding="utf-8")
LINES = SPACEFILE.splitlines()


@st.composite
def spoilt_spacefiles(draw: Any) -> str:
    lines = list(LINES)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(lines) - 1))
        key, equals, _ = lines[place].partition("=")
        value = draw(st.one_of(
            leaves.filter(lambda leaf: leaf is not None).map(lambda leaf: json.dumps(leaf)),
            texts.map(lambda text: text[:200]),
            st.sampled_from(["nan", "inf", "[" * 900, "{a=1}", "2020-01-01", "'''", "9" * 5000]),
        ))  # fmt: skip
        lines[place] = f"{key}={value}" if equals else value
    return "\n".join(lines)


@cases("Spacefiles")
@given(spoilt_spacefiles())
@example("a = " + "[" * 100_000)
@example("a." * 300 + "a = 1")
@example("spork_demo = " + "1" * 5000)
def test_a_spacefile_is_read_or_refused_in_a_sentence(text):
    try:
        assert isinstance(parse_spacefile(text), Spacefile)
    except SpacefileError as error:
        assert not insides(str(error))
        assert "\n" not in str(error)


def test_a_plain_run_tries_five_thousand_cases():
    assert sum(CASES.values()) > 5000
    told = "".join(path.read_text("utf-8") for path in (ROOT / "tests").glob("test_hostile_*.py"))
    assert [name for name in CASES if f'"{name}"' not in told] == []
