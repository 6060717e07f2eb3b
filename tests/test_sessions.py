"""What the server keeps of a visitor, and that it still serves each one's own values."""

import pytest

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
