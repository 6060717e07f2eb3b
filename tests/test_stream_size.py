"""What a race sends to the browser as it goes on: only what is new, however long it is."""

import statistics

from spork_demo.ui.page import build_page
from tests.launched import launched
from tests.sample_race import LIMITS, PRESETS, FakeHost, sample_race
from tests.test_ui_page import in_order, join, listen


def test_an_update_holds_what_is_new_and_no_more():
    sizes = []
    with launched(FakeHost(gap=0.004), frame_seconds=0.02) as page:
        join(page.local_url, in_order(prompt="long", max_new_tokens=128), "size")
        with listen(page.local_url, "size") as stream:
            for line in stream.iter_lines():
                if "process_generating" in line:
                    sizes.append(len(line))
                if "process_completed" in line:
                    break
    updates = sizes[1:-1]  # the first brings the head, the last the summary
    quarter = len(updates) // 4
    assert quarter >= 4
    early, late = (statistics.median(part) for part in (updates[:quarter], updates[-quarter:]))
    assert late <= 2 * early


def test_what_goes_on_quietly_tells_no_component_of_it():
    config = build_page(FakeHost(), LIMITS, PRESETS, [sample_race()]).get_config_file()
    quiet = [event for event in config["dependencies"] if event["show_progress"] == "hidden"]
    assert len(quiet) > 60
    assert [event["api_name"] for event in quiet if event["show_progress_on"] != []] == []
    race = next(event for event in config["dependencies"] if event["api_name"] == "race")
    assert len(race["show_progress_on"]) == 1
    assert len(race["outputs"]) <= 4, "at every update the browser goes through them"
