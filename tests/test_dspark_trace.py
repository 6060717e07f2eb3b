"""What exact DSpark really records: it survives a file, and the page can tell all of it."""

import pytest

from spork_demo.reliability import outcomes, predictions
from spork_demo.settings import Settings
from spork_demo.trace import Race
from spork_demo.trace_file import dumps, loads
from spork_demo.ui import inside
from spork_demo.ui.scheduling_story import scheduling_story
from tests.dspark_lanes import FixedCosts, lane_trace, parity_pair
from tests.dspark_parity import PROMPTS

FLAT = (0.02, 0.0201, 0.0202, 0.0203, 0.0204, 0.0205)
STEEP = (0.02, 0.03, 0.045, 0.065, 0.09, 0.12)
STAIRS = (0.02, 0.0202, 0.03, 0.0301, 0.0302, 0.06)


@pytest.mark.parametrize("costs", [FLAT, STEEP, STAIRS], ids=["flat", "steep", "stairs"])
@pytest.mark.parametrize("schedule", ["hardware", "threshold", "full"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_recorded_schedules_load_again_and_every_round_is_told(schedule, costs, temperature):
    settings = Settings(
        "dspark", schedule=schedule, draft_length=5, max_new_tokens=40, temperature=temperature
    )
    trace = lane_trace(parity_pair(), settings, PROMPTS[0], FixedCosts(*costs, draft=0.005))
    race = Race("DSpark", (trace,))
    assert loads(dumps(race)) == race
    for place, round_ in enumerate(trace.rounds):
        assert len(inside.shown(race, 0, place)) == 17
        if round_.nodes:
            story = scheduling_story(round_)
            assert story.endswith(".") and "None" not in story and "{" not in story
    assert len(outcomes(predictions(trace.rounds), scaled=True)) <= sum(
        round_.scheduled for round_ in trace.rounds
    )
