"""What the server keeps of a visitor, and that it still serves each one's own values."""

import gc

import gradio as gr
import pytest

from spork_demo.ui.sessions import Sessions
from tests.launched import launched
from tests.page_client import PageClient
from tests.sample_race import LIMITS, FakeHost
from tests.test_ui_page import in_order


@pytest.fixture(scope="module")
def page():
    with launched(FakeHost(gap=0.0)) as served:
        yield served


def test_a_visitor_who_raced_leaves_the_race_and_no_copy_of_the_page(page):
    client = PageClient(page.local_url, verbose=False)
    client.run(in_order(prompt="Kept once")).result(timeout=60)
    kept = page.state_holder.session_data[client.session_hash]
    assert list(kept.components) == []
    assert len(kept.config_values) == 0
    (race,) = [value for value in kept.state_data.values() if hasattr(value, "lanes")]
    assert race.lanes[0].prompt == "Kept once"


def test_visitors_keep_their_own_races(page):
    clients = {f"Mine {n}": PageClient(page.local_url, verbose=False) for n in range(2)}
    for prompt, client in clients.items():
        client.run(in_order(prompt=prompt)).result(timeout=60)
    for prompt, client in clients.items():
        held = page.state_holder.session_data[client.session_hash].state_data.values()
        assert [value.lanes[0].prompt for value in held if hasattr(value, "lanes")] == [prompt]


def test_no_more_visitors_are_kept_than_the_limit(page):
    for number in range(LIMITS.visitors + 3):
        page.state_holder[f"visitor {number}"]
    assert len(page.state_holder.session_data) == LIMITS.visitors


def test_no_sum_of_all_events_is_made_after_each(page):
    client = PageClient(page.local_url, verbose=False)
    client.run(in_order(prompt="Not summed up")).result(timeout=60)
    assert page._queue.event_analytics  # what would be summed up
    assert page._queue.cached_event_analytics_summary == {"functions": {}}


def held_of(blocks):
    sessions = Sessions()
    sessions.set_blocks(blocks)
    return sessions


def menu_of(choices):
    return gr.Dropdown(choices=choices, render=False)


@pytest.fixture
def menu_page():
    with gr.Blocks() as blocks:
        gr.Dropdown(choices=["a"])
    (key,) = [n for n, each in blocks.default_config.blocks.items() if type(each) is gr.Dropdown]
    return blocks, key


def test_a_changed_widget_is_one_for_all_who_have_it_so(menu_page):
    blocks, key = menu_page
    sessions = held_of(blocks)
    for visitor, choices in (("one", ["b", "c"]), ("two", ["b", "c"]), ("three", ["d"])):
        sessions[visitor][key] = menu_of(choices)
    assert sessions["one"][key] is sessions["two"][key]
    assert [value for _, value in sessions["two"][key].choices] == ["b", "c"]
    assert [value for _, value in sessions["three"][key].choices] == ["d"]
    assert [value for _, value in sessions["four"][key].choices] == ["a"]
    sessions["two"][key] = menu_of(["d"])
    assert sessions["two"][key] is sessions["three"][key]
    assert [value for _, value in sessions["one"][key].choices] == ["b", "c"]


def test_what_the_last_visitor_had_goes_with_the_visitor(menu_page):
    blocks, key = menu_page
    sessions = held_of(blocks)
    for visitor in ("one", "two"):
        sessions[visitor][key] = menu_of(["b"])
    kept = sessions._alike._kept
    del sessions.session_data["one"]
    gc.collect()
    assert len(kept) == 1
    del sessions.session_data["two"]
    gc.collect()
    assert len(kept) == 0


def test_visitors_of_the_page_share_what_its_events_changed(page):
    names = []
    for prompt in ("Shared 1", "Shared 2"):
        client = PageClient(page.local_url, verbose=False)
        client.run(in_order(prompt=prompt)).result(timeout=60)
        names.append(client.session_hash)
    one, two = (page.state_holder.session_data[name].blocks_config.blocks for name in names)
    changed = one.maps[0].keys() & two.maps[0].keys()
    assert changed
    assert all(one[key] is two[key] for key in changed)
    assert not any(one[key] is page.default_config.blocks[key] for key in changed)
