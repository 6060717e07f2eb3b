"""How much of a block is sent: reference answers, what a rule may not look at, and the costs."""

from itertools import accumulate

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spork_demo.decoding.calibration import calibration_error, fit_temperatures, scaled
from spork_demo.decoding.cost_table import CostTable
from spork_demo.decoding.measured_costs import BANDS, ROWS, CostTables, measure_costs
from spork_demo.decoding.schedule import (
    hardware_lengths,
    prefix_survival,
    scheduler,
    threshold_length,
)
from spork_demo.settings import Settings
from tests.dspark_parity import SCHEDULER, recorded
from tests.toys import dspark_pair

CASES = {case["name"]: case for case in SCHEDULER["cases"]}
APPENDIX_A = {1: 1.0, 2: 0.5, 3: 0.45}.__getitem__
THRESHOLD = Settings(method="dspark", schedule="threshold", confidence_threshold=0.5)
confidence = st.floats(0.0, 1.0)


def hindsight(confidences, steps_per_second):
    """The best prefix of one request, all confidences known: what a lossless rule may not do."""
    survivals = prefix_survival(confidences)
    values = [(1 + sum(survivals[:n])) * steps_per_second(1 + n) for n in range(len(survivals) + 1)]
    return max(range(len(values)), key=lambda n: (values[n], -n)), values


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_algorithm_1_gives_the_reference_lengths_and_throughputs(case):
    table = {int(rows): rate for rows, rate in case["sps"].items()}
    decided = hardware_lengths(case["confidence"], table.__getitem__, stair=0)
    assert list(decided.lengths) == case["early_stop"]["lengths"]
    assert decided.throughputs == pytest.approx(case["early_stop"]["theta_trace"], rel=1e-12)
    assert max(decided.throughputs) == pytest.approx(case["early_stop"]["theta"], rel=1e-12)


@pytest.mark.parametrize("case", [c for c in CASES.values() if len(c["confidence"]) == 1])
def test_the_search_without_early_stop_of_these_tests_is_the_reference_one(case):
    table = {int(rows): rate for rows, rate in case["sps"].items()}
    best, values = hindsight(case["confidence"][0], table.__getitem__)
    assert [best] == case["no_early_stop"]["lengths"]
    # the reference does not list drafts that cannot survive
    wanted = case["no_early_stop"]["theta_trace"]
    assert values[: len(wanted)] == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("second", [0.9, 0.0])
def test_appendix_a_sends_nothing_whatever_the_second_confidence_is(second):
    assert hardware_lengths([[0.8, second]], APPENDIX_A).lengths == (0,)
    assert hindsight([0.8, second], APPENDIX_A)[0] == (2 if second else 0)


def test_a_stair_is_judged_by_its_end():
    case = CASES["staircase"]
    table = {int(rows): rate for rows, rate in case["sps"].items()}.__getitem__
    (own,) = case["confidence"]
    # rows 1-4 cost the same, so do 5-8: early stop alone ends before the stair
    assert hardware_lengths([own], table, stair=0).lengths == (3,)
    climbed = hardware_lengths([own], table)
    assert climbed.lengths == (7,)
    assert climbed.throughputs[4] < climbed.throughputs[3] < climbed.throughputs[7]
    assert climbed.hopes[3] > climbed.throughputs[3]


def test_a_stair_is_not_climbed_without_confidence():
    table = {int(r): rate for r, rate in CASES["staircase"]["sps"].items()}.__getitem__
    assert hardware_lengths([[0.97, 0.95, 0.93, 0.5, 0.92, 0.92, 0.9]], table).lengths == (3,)


@given(
    st.lists(confidence, min_size=1, max_size=7),
    st.lists(st.floats(0.0, 5.0), min_size=7, max_size=7),
)
def test_on_costs_that_rise_ever_faster_stairs_change_nothing(confidences, bends):
    seconds, rise = [10.0], 0.0
    for bend in bends:
        rise += bend
        seconds.append(seconds[-1] + rise)
    rate = lambda rows: 1 / seconds[rows - 1]  # noqa: E731
    plain = hardware_lengths([confidences], rate, stair=0)
    stairs = hardware_lengths([confidences], rate)
    value = lambda n: hindsight(confidences, rate)[1][n]  # noqa: E731
    assert value(stairs.lengths[0]) == pytest.approx(value(plain.lengths[0]), rel=1e-9)


@given(
    st.lists(confidence, min_size=2, max_size=7),
    st.lists(confidence, min_size=7, max_size=7),
    st.lists(st.sampled_from([0.0, 0.05, 1.0, 6.0]), min_size=8, max_size=8),
    st.integers(0, 6),
)
def test_a_decision_never_depends_on_later_confidences(confidences, others, rises, place):
    place %= len(confidences)
    seconds = accumulate(rises, initial=10.0)  # flat stretches and steps
    changed = [*confidences[: place + 1], *others[: len(confidences) - place - 1]]
    table = CostTable(64, 0.0, tuple(seconds))
    for settings in (THRESHOLD, Settings(method="dspark", schedule="hardware")):
        rule = scheduler(settings, table)
        one, other = rule(confidences)[0], rule(changed)[0]
        # whether draft k is sent, for every k up to the last confidence they share
        assert [one > k for k in range(place + 1)] == [other > k for k in range(place + 1)]


@pytest.mark.parametrize("later", [0.0, 0.3, 1.0])
def test_a_stair_is_climbed_on_the_first_confidence_of_it_alone(later):
    table = {int(r): rate for r, rate in CASES["staircase"]["sps"].items()}.__getitem__
    for first, climbed in ((0.93, True), (0.5, False)):
        decided = hardware_lengths([[0.97, 0.95, 0.93, first, later, later, later]], table)
        assert (decided.lengths[0] > 3) is climbed


def test_hindsight_does_depend_on_later_confidences():
    assert hindsight([0.8, 0.9], APPENDIX_A)[0] != hindsight([0.8, 0.0], APPENDIX_A)[0]


@pytest.mark.parametrize(
    ("threshold", "length"), [(0.5, 1), (0.0, 3), (0.4, 3), (0.95, 0), (1.0, 0), (0.9, 1)]
)
def test_a_threshold_keeps_what_stands_before_the_first_weak_draft(threshold, length):
    assert threshold_length([0.9, 0.4, 0.95], threshold) == length


def test_the_reasons_are_recorded():
    sent, why = scheduler(THRESHOLD)([0.9, 0.4, 0.95])
    assert (sent, why.rule, why.threshold) == (1, "threshold", 0.5)
    assert why.survivals == pytest.approx((0.9, 0.36, 0.342))
    table = CostTable(64, 1.0, (9.0, 9.5, 15.0))
    sent, why = scheduler(Settings(method="dspark", schedule="hardware"), table)([0.9, 0.4])
    # 1 / 10, 1.9 / 10.5, 2.26 / 16
    assert (sent, why.rule) == (1, "hardware")
    assert why.throughputs == pytest.approx((0.1, 1.9 / 10.5, 2.26 / 16))
    assert (why.call_seconds, why.draft_seconds) == (table.call_seconds, 1.0)
    assert scheduler(Settings(method="dspark", schedule="full"))([0.1, 0.0])[0] == 2


def test_a_hardware_schedule_without_costs_is_refused():
    with pytest.raises(ValueError, match="measured cost table"):
        scheduler(Settings(method="dspark", schedule="hardware"))


@pytest.mark.parametrize("drafter", ["vanilla", "rnn"])
def test_sequential_temperature_scaling_gives_the_reference(drafter):
    logits = recorded(f"calib.{drafter}.confidence_logits")
    labels = recorded(f"calib.{drafter}.label")
    wanted = SCHEDULER["sts"][drafter]
    temperatures = fit_temperatures(logits, labels)
    assert temperatures == pytest.approx(wanted["temperatures"], rel=1e-12)
    for name, fitted in (("ece_before", ()), ("ece_after", temperatures)):
        survival = scaled(logits.double(), fitted).cumprod(dim=-1)
        errors = [calibration_error(survival[:, k], labels[:, k]) for k in range(5)]
        assert errors == pytest.approx(wanted[name], abs=1e-7)


def test_survivals_of_the_calibration_rounds_are_products_of_confidences():
    survival = scaled(recorded("calib.vanilla.confidence_logits").double(), ()).cumprod(dim=-1)
    torch.testing.assert_close(
        survival, recorded("calib.vanilla.pred_prefix"), rtol=0, atol=1e-6, equal_nan=True
    )


def test_calibration_error_by_hand():
    predicted = torch.tensor([0.01, 0.04, 0.98, 0.99, torch.nan])
    happened = torch.tensor([0.0, 1.0, 1.0, 1.0, 1.0])
    # first bin: mean 0.025 against 0.5, half of the rounds; last: 0.985 against 1, the other half
    assert calibration_error(predicted, happened) == pytest.approx(0.5 * 0.475 + 0.5 * 0.015)
    assert calibration_error(torch.tensor([torch.nan]), torch.tensor([1.0])) == 0.0


def test_a_shorter_draft_uses_the_temperatures_of_its_slots():
    logits = torch.tensor([2.0, -2.0])
    assert scaled(logits, (2.0, 1.0, 8.0)).tolist() == pytest.approx([0.731059, 0.119203])


def test_costs_are_medians_of_calls_that_take_turns_and_never_fall():
    ticks = iter(range(10_000))
    table = measure_costs(dspark_pair(), 20, now=lambda: float(next(ticks)))
    assert table.context == 20
    assert table.draft_seconds == 1.0
    assert table.call_seconds == (1.0,) * ROWS[-1]  # a tick each
    assert table.steps_per_second(3) == 0.5


def test_rows_between_and_beyond_the_measured_ones_are_linear():
    from spork_demo.decoding.measured_costs import _every_row

    seconds = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 11.0, 15.0, 23.0]
    curve = _every_row(seconds)
    assert len(curve) == ROWS[-1]
    assert [curve[rows - 1] for rows in ROWS] == pytest.approx(seconds)
    assert curve[10 - 1] == pytest.approx(9.0)
    table = CostTable(64, 0.0, tuple(curve))
    assert table.seconds(12) == pytest.approx(10.0)
    assert table.seconds(40) > table.seconds(33) > table.seconds(32)


def test_a_longer_call_measured_faster_caps_the_shorter_one():
    from spork_demo.decoding.measured_costs import _never_falling

    assert _never_falling([3.0, 2.0, 4.0, 3.5, 5.0]) == [2.0, 2.0, 3.5, 3.5, 5.0]


def test_a_pair_is_measured_once_for_each_band_of_context(monkeypatch):
    asked = []

    def measured(pair, context):
        asked.append(context)
        return CostTable(context, 1.0, (1.0,))

    monkeypatch.setattr("spork_demo.decoding.measured_costs.measure_costs", measured)
    tables = CostTables(dspark_pair())
    contexts = [tables.near(length).context for length in (3, 64, 150, 200, 250, 9000)]
    # the pair holds 256 tokens, the longest call and the anchor
    assert contexts == [64, 64, 64, 223, 223, 223]
    assert asked == [64, 223]
    assert sorted(BANDS) == list(BANDS)
