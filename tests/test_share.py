"""Links: what a page holds comes back from its query, and no query does harm."""

from urllib.parse import parse_qsl

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spork_demo.settings import CHOICES, KNOBS, METHODS, RULES
from spork_demo.ui.entry import SHARED_FIELDS, read_entry
from spork_demo.ui.share import LONGEST, fresh_values, holds_prompt, read_query, write_query
from tests.sample_race import LIMITS, PRESETS

FRESH = fresh_values(LIMITS)
HOSTILE = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.integers()),
    st.sampled_from(["<img src=x onerror=alert(1)>", "${1+1}", "\ud800", 10**400, "4,seed=3"]),
)  # fmt: skip


def read(query: str):
    return read_query(dict(parse_qsl(query, keep_blank_values=True)), LIMITS)


def knob_values(name: str):
    if name in CHOICES:
        return st.sampled_from(CHOICES[name])
    knob = KNOBS[name]
    high = {"max_new_tokens": LIMITS.new_tokens, "node_budget": LIMITS.fork_nodes}.get(
        name, knob.high
    )
    if knob.whole:
        return st.integers(knob.low, min(high, knob.high))
    return st.floats(knob.low, high).map(lambda value: round(value, 6))


NAMES = st.text(st.characters(categories=["L", "N", "P"]), max_size=80)
OWN = st.sampled_from(["", "fork_width=8", "K=2 γ=3", "seed=7, T=0.5", "schedule=full"])
PAGES = st.fixed_dictionaries(
    {
        "prompt": st.text(st.characters(exclude_categories=["Cs"]), max_size=200),
        "pair": NAMES,
        "lanes": st.integers(2, 4),
        **{f"lane{n}_method": st.sampled_from(METHODS) for n in range(1, 5)},
        **{f"lane{n}_rules": st.sampled_from(RULES) for n in range(1, 5)},
        **{f"lane{n}_preset": NAMES for n in range(1, 5)},
        **{f"lane{n}_own": OWN for n in range(1, 5)},
        **{name: knob_values(name) for name in SHARED_FIELDS},
    }
)


@given(PAGES)
@settings(max_examples=150, deadline=None)
def test_what_a_page_holds_comes_back(values):
    query = write_query(values, LIMITS)
    assert len(query) <= LONGEST
    link = read(query)
    assert link.problems == ()
    told = {**FRESH, **link.values}
    gone = {n for n in values if n[:4] == "lane" and n[4].isdigit() and int(n[4]) > values["lanes"]}
    if not holds_prompt(query):
        gone.add("prompt")
    kept = {name: value for name, value in values.items() if name not in gone}
    assert {name: told[name] for name in kept} == kept


@given(st.dictionaries(st.one_of(st.sampled_from([*FRESH, "prompt"]), st.text()), HOSTILE))
@settings(max_examples=150, deadline=None)
def test_no_page_breaks_the_writer(values):
    query = write_query(
        values, LIMITS, {"recording": values.get("seed"), "tab": values.get("prompt")}
    )
    assert len(query) <= LONGEST
    assert query.isascii()
    assert read(query).problems == ()


@given(st.dictionaries(st.one_of(st.sampled_from([*FRESH, "prompt", "round"]), st.text()), HOSTILE))
@settings(max_examples=150, deadline=None)
def test_no_query_breaks_the_reader_and_what_it_gives_can_be_read_on(query):
    link = read_query(query, LIMITS)
    assert set(link.values) <= {*FRESH, "prompt"}
    assert not set(link.problems) & set(link.values)
    ours = {name for name in query if not name.startswith("__")}
    assert set(link.problems) <= ours
    assert write_query({**FRESH, **link.values}, LIMITS) is not None
    if link.values.get("min_threshold", 0.1) <= link.values.get("max_threshold", 0.5):
        plain = {
            n: v for n, v in link.values.items() if n in SHARED_FIELDS and n != "max_new_tokens"
        }
        whole = {**FRESH, **plain, "prompt": "Hello", "fork_shape": "tree"}
        read_entry(whole, LIMITS, PRESETS)


def test_a_fresh_page_is_an_empty_query_and_a_query_holds_only_what_differs():
    assert write_query(FRESH, LIMITS) == ""
    changed = {**FRESH, "fork_width": 8, "lane2_rules": "article", "lane4_method": "greedy"}
    assert write_query(changed, LIMITS) == "lane2_rules=article&fork_width=8"
    assert read_query({}, LIMITS).empty


def test_bad_and_unknown_parts_are_named_and_the_rest_holds():
    link = read(
        "fork_width=99&draft_length=6&colour=red&seed=-1&lanes=4&accept_threshold=nan&round=0"
        "&__theme=dark&lane1_method=beam&lane2_own=K&temperature=1e-3&top_k=3%20seed%3D2"
    )
    assert link.values == {"draft_length": 6, "lanes": 4}
    assert link.problems == (
        "fork_width", "colour", "seed", "accept_threshold", "round", "lane1_method", "lane2_own",
        "temperature", "top_k",
    )  # fmt: skip


@pytest.mark.parametrize("prompt", ["长" * 2000, "x" * 9000, "\ud800"])
def test_a_prompt_that_no_link_can_hold_is_left_out_and_the_settings_stay(prompt):
    query = write_query({**FRESH, "prompt": prompt, "seed": 5}, LIMITS)
    assert query == "seed=5"
    assert not holds_prompt(query)


def test_what_is_on_show_travels_too():
    query = write_query(FRESH, LIMITS, {"recording": 2, "lane": 3, "round": 7, "tab": "inside"})
    assert query == "recording=2&lane=3&round=7&tab=inside"
    assert read(query).shown == {"recording": 2, "lane": 3, "round": 7, "tab": "inside"}
