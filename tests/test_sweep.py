"""Sweeps: the grid, the sums over races, the front, and the command on the embedded model."""

import csv
import dataclasses
import json
import math

import pytest

from spork_demo import engine as engine_module
from spork_demo import sweep_command
from spork_demo.axes import SWEPT, USUAL, axis_values, unread
from spork_demo.cells import MEASURES, best_exact, cells, pareto, possible_cells
from spork_demo.cli import main
from spork_demo.settings import CHOICES, KNOBS, SEED_LIMIT, Settings, SettingsError
from spork_demo.sweep import CELLS_A_RACE, groups, sweep
from spork_demo.sweep_command import parse_axes, table
from spork_demo.sweep_file import as_csv, as_json
from spork_demo.trace import Fidelity, LaneEvent, Provenance, Race, Round, Token, Trace

BASE = Settings(method="speculative", drafter="ngram")


def lane(settings: Settings, ids, per_round: int, seconds: float, **found) -> Trace:
    """A lane that committed `ids`, so many a round, each round so many seconds."""
    rounds = []
    for start in range(0, len(ids), per_round):
        tokens = tuple(Token(n, "", "plain") for n in ids[start : start + per_round])
        rounds.append(
            Round(len(rounds), (), tokens, 0, 0, 1, 0, 1, seconds, 0.0, seconds, 0.0)
        )  # fmt: skip
    return Trace(
        settings, "p", rounds=tuple(rounds), stop_reason="length", fidelity=Fidelity(**found)
    )


def replayed(race: Race):
    """A finished race as a host would run it: the empty race, then its lanes' events in turns."""
    yield Race(race.title, tuple(Trace(lane.settings, lane.prompt) for lane in race.lanes))
    streams = [list(lane.events()) for lane in race.lanes]
    for place in range(max(map(len, streams))):
        for number, events in enumerate(streams):
            if place < len(events):
                yield LaneEvent(number, events[place])


def fake_run(prompt: str, lanes):
    return replayed(fake(prompt, lanes))


def fake(prompt: str, lanes) -> Race:
    """Greedy takes 1 s a token; a chain of γ commits γ tokens in 1.5 s; article lanes go astray."""
    ids = list(range(12))
    made = [lane(lanes[0], ids, 1, 1.0)]
    for settings in lanes[1:]:
        strays = not settings.exact
        made.append(
            lane(
                settings,
                [99, *ids[1:]] if strays else ids,
                settings.draft_length,
                1.5,
                equal_tokens=0.75 if strays else 1.0,
                rouge_l=0.5 if strays else 1.0,
                bleu=0.25 if strays else 1.0,
                perplexity=4.0 if strays else 2.0,
                greedy_perplexity=2.0,
            )
        )
    return Race(prompt, tuple(made))


def last(iterator):
    *_, state = iterator
    return state.cells


def test_a_grid_holds_every_combination_in_order():
    grid = cells(BASE, {"draft_length": [2, 4], "temperature": [0.0, 0.5, 1.0]})
    assert [tuple(cell.values.values()) for cell in grid] == [
        (2, 0.0), (2, 0.5), (2, 1.0), (4, 0.0), (4, 0.5), (4, 1.0),
    ]  # fmt: skip
    assert grid[4].settings == Settings(
        method="speculative", drafter="ngram", draft_length=4, temperature=0.5
    )


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        ({}, "one setting or two"),
        ({"draft_length": [1], "top_k": [1], "seed": [1]}, "one setting or two"),
        ({"draft_length": []}, "at least one value"),
        ({"draft_length": [99]}, "draft_length must be between"),
        ({"gamma": [1]}, "no setting called 'gamma'"),
        ({"seed": range(13), "top_k": range(12)}, "at most 144 cells; this one has 156"),
        ({"method": ["greedy"]}, "Greedy is what a sweep compares with"),
        ({"draft_length": [math.nan]}, "finite"),
    ],
)
def test_a_grid_that_cannot_be_is_refused_in_words(axes, words):
    with pytest.raises(SettingsError, match=words):
        cells(BASE, axes)


def test_sums_over_prompts_by_hand():
    grid = cells(BASE, {"draft_length": [2, 4], "rules": ["exact", "article"]})
    found = last(sweep(fake_run, ["a", "b"], grid))
    rows = [cell.plain() for cell in found]
    assert [row["draft_length"] for row in rows] == [2, 2, 4, 4]
    # 12 tokens: greedy 12 s; γ 2: 6 rounds of 1.5 s; γ 4: 3 rounds
    assert [row["speedup"] for row in rows] == pytest.approx([12 / 9, 12 / 9, 12 / 4.5, 12 / 4.5])
    assert [row["accepted_length"] for row in rows] == [2, 2, 4, 4]
    assert [row["target_calls_per_token"] for row in rows] == [0.5, 0.5, 0.25, 0.25]
    assert [row["tokens_per_second"] for row in rows] == pytest.approx([24 / 18] * 2 + [24 / 9] * 2)
    assert [row["equal_tokens"] for row in rows] == [1.0, 0.75, 1.0, 0.75]
    assert [row["identical"] for row in rows] == [2, 0, 2, 0]
    assert [row["perplexity_ratio"] for row in rows] == pytest.approx([1.0, 2.0, 1.0, 2.0])
    assert [row["races"] for row in rows] == [2] * 4
    assert best_exact(found) is found[2]
    assert pareto(found) == (found[2],)  # as fast as the article's and more alike


def test_the_front_keeps_what_is_faster_or_more_alike():
    def slower_when_exact(prompt, lanes):
        race = fake(prompt, lanes)
        first = race.lanes[1]
        slow = lane(first.settings, first.ids, 1, 0.9, equal_tokens=1.0)
        return Race(prompt, (race.lanes[0], slow, *race.lanes[2:]))

    grid = cells(BASE, {"rules": ["exact", "article"]})
    found = last(sweep(lambda *asked: replayed(slower_when_exact(*asked)), ["a"], grid))
    assert pareto(found) == (found[1], found[0])
    assert best_exact(found) is found[0]


def test_cells_race_in_groups_beside_a_greedy_lane_each_and_come_as_they_end():
    seen = []

    def watched(prompt, lanes):
        seen.append((prompt, [settings.method for settings in lanes]))
        return replayed(fake(prompt, lanes))

    grid = cells(BASE, {"draft_length": range(1, CELLS_A_RACE + 3)})
    states = list(sweep(watched, ["a", "b"], grid))
    between = [state for state in states if state.running is None]
    assert [state.races_done for state in between] == [0, 1, 2, 3, 4]
    assert {state.races for state in states} == {4}
    assert [prompt for prompt, _ in seen] == ["a", "a", "b", "b"]
    assert [methods[0] for _, methods in seen] == ["greedy"] * 4
    assert [len(methods) for _, methods in seen] == [CELLS_A_RACE + 1, 3] * 2
    assert [cell.races for cell in between[1].cells] == [1] * CELLS_A_RACE + [0, 0]
    assert between[1].cells[-1].plain()["speedup"] is None
    assert [cell.races for cell in between[-1].cells] == [2] * len(grid)
    assert "-" in table(between[1].cells)
    shares = [state.share for state in states]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)


def test_a_race_under_way_counts_with_its_speed_and_not_with_its_text():
    grid = cells(BASE, {"draft_length": [4]})
    states = list(sweep(fake_run, ["a"], grid))
    # the empty sweep, the empty race, two starts, then a round of each lane
    cell = states[5].so_far()[0]
    assert (cell.races, cell.tokens, cell.rounds, cell.compared) == (0, 4, 1, ())
    assert cell.speedup == pytest.approx((4 / 1.5) / 1.0)
    assert cell.plain()["equal_tokens"] is None
    assert states[5].cells[0].races == 0
    assert states[-1].cells[0].compared


def test_closing_a_sweep_closes_its_race():
    closed = []

    def run(prompt, lanes):
        try:
            yield from fake_run(prompt, lanes)
        finally:
            closed.append(prompt)

    steps = sweep(run, ["a", "b"], cells(BASE, {"draft_length": [2]}))
    for _ in range(4):
        next(steps)
    steps.close()
    assert closed == ["a"]


def test_samples_race_beside_samples_and_repeats_take_the_next_seed():
    base = Settings(method="speculative", drafter="ngram", seed=SEED_LIMIT)
    grid = cells(base, {"draft_length": [2, 4], "temperature": [0.0, 1.0]})
    assert groups(grid) == ((0, 2), (1, 3))
    seen = []

    def watched(prompt, lanes):
        seen.append([(s.temperature, s.seed) for s in lanes])
        return fake_run(prompt, lanes)

    found = last(sweep(watched, ["a"], grid, repeats=2))
    assert seen == [[(t, seed)] * 3 for seed in (SEED_LIMIT, 0) for t in (0.0, 1.0)]
    sampled = found[1].plain()
    assert [sampled[name] for name in MEASURES] == [None, None, None, pytest.approx(1.0)]
    assert sampled["identical"] is None
    assert found[0].plain()["equal_tokens"] == 1.0


def test_the_spread_is_that_of_the_races():
    def run(prompt, lanes):
        race = fake(prompt, lanes)
        if prompt == "slow":
            race = Race("", (race.lanes[0], lane(lanes[1], list(range(12)), 2, 3.0)))
        return replayed(race)

    (cell,) = last(sweep(run, ["quick", "slow"], cells(BASE, {"draft_length": [2]})))
    assert cell.spread == pytest.approx((12 / 18, 12 / 9))
    assert cell.speedup == pytest.approx(24 / 27)  # 12 tokens in 9 s, 12 in 18 s; greedy 1 a s
    assert cell.few_rounds


def test_a_lane_that_failed_is_never_the_best():
    def run(prompt, lanes):
        race = fake(prompt, lanes)
        failed = dataclasses.replace(race.lanes[2], stop_reason="failed")
        return replayed(Race("", (*race.lanes[:2], failed)))

    found = last(sweep(run, ["a"], cells(BASE, {"draft_length": [2, 4]})))
    assert found[1].speedup > found[0].speedup
    assert best_exact(found) is found[0]


def test_impossible_combinations_are_left_out_and_counted():
    base = Settings(method="dspark", rules="article", drafter="ngram")
    axes = {"min_threshold": [0.1, 0.5], "max_threshold": [0.3, 0.6]}
    grid, refusals = possible_cells(base, axes)
    assert [tuple(cell.values.values()) for cell in grid] == [(0.1, 0.3), (0.1, 0.6), (0.5, 0.6)]
    assert refusals == ("min_threshold must not be above max_threshold.",)
    with pytest.raises(SettingsError, match="at most 3 cells; this one has 4"):
        possible_cells(base, axes, limit=3)


def test_less_perplexity_is_more_fidelity():
    found = last(sweep(fake_run, ["a"], cells(BASE, {"rules": ["exact", "article"]})))
    assert pareto(found, "perplexity_ratio") == (found[0],)
    assert found[1].fidelity("perplexity_ratio") == pytest.approx(2.0)
    assert [found[1].fidelity(name) for name in ("rouge_l", "bleu")] == [0.5, 0.25]


@pytest.mark.parametrize(
    ("name", "text", "values"),
    [
        ("draft_length", "2, 4, 8", [2, 4, 8]),
        ("draft_length", "2，4、8;16", [2, 4, 8, 16]),
        ("draft_length", "1:4", [1, 2, 3, 4]),
        ("draft_length", "1:8:3, 16", [1, 4, 7, 16]),
        ("draft_length", "4 4 2:4:2", [4, 2]),
        ("accept_threshold", "0.5:0.7:0.1", [0.5, 0.6, 0.7]),
        ("temperature", "0:0.15", [0, 0.05, 0.1, 0.15]),
        ("temperature", "1.0", [1.0]),
        ("drafter", "ngram, early_exit", ["ngram", "early_exit"]),
    ],
)
def test_values_as_they_are_typed(name, text, values):
    assert axis_values(name, text) == values


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("draft_length", "", "look like 2, 4, 8"),
        ("draft_length", None, "look like 2, 4, 8"),
        ("draft_length", 3, "look like 2, 4, 8"),
        ("draft_length", "1:2:3:4", "look like 2, 4, 8"),
        ("draft_length", "-1", "look like 2, 4, 8"),
        ("draft_length", "nan", "look like 2, 4, 8"),
        ("draft_length", "1e9", "look like 2, 4, 8"),
        ("draft_length", "٣", "look like 2, 4, 8"),
        ("draft_length", "<img src=x onerror=alert(1)>", "look like 2, 4, 8"),
        ("draft_length", "1:999999999999", "more than 144 values"),
        ("draft_length", "8:1", "goes upwards"),
        ("draft_length", "1:8:0", "goes upwards"),
        ("draft_length", "2.5", "whole number"),
        ("draft_length", "99", "between 1 and 16"),
        ("draft_length", "1" * 500, "look like 2, 4, 8"),
        ("temperature", "0:2:0.00001", "more than 144 values"),
        ("drafter", "beam", "must be one of"),
        ("gamma", "1", "no setting called"),
    ],
)
def test_values_that_cannot_be_read_are_refused_in_a_sentence(name, text, words):
    with pytest.raises(SettingsError, match=words):
        axis_values(name, text)


def test_usual_values_are_values_and_offered_settings_are_read():
    for (method, rules), names in SWEPT.items():
        base = Settings(method=method, rules=rules, schedule="threshold", fork_shape="tree")
        for name in names:
            assert name in KNOBS or name in CHOICES
            if name in USUAL:
                assert len(axis_values(name, USUAL[name])) >= 3 - (name == "policy")
        assert not unread(base, "policy")
    chain = Settings(method="speculative", drafter="ngram")
    assert unread(chain, "fork_width")
    assert unread(chain, "verifier_layers")
    assert not unread(Settings(method="speculative", drafter="early_exit"), "verifier_layers")
    assert unread(Settings(method="spork", fork_shape="forks"), "node_budget")
    assert unread(Settings(method="dspark", schedule="full"), "confidence_threshold")


def test_a_file_holds_the_cells_their_settings_and_what_they_ran_on():
    found = last(sweep(fake_run, ["a"], cells(BASE, {"draft_length": [2, 4]})))
    rows = list(csv.DictReader(as_csv(found).splitlines()))
    assert [row["draft_length"] for row in rows] == ["2", "4"]
    assert [float(row["speedup"]) for row in rows] == pytest.approx([12 / 9, 12 / 4.5])
    plain = json.loads(as_json(found, Provenance(target="t"), ["a"], {"text": "x"}))
    assert plain["provenance"]["target"] == "t"
    assert plain["prompts"] == ["a"]
    assert plain["cells"][1]["settings"]["draft_length"] == 4
    assert plain["best_exact"] == {"text": "x"}


def test_axes_as_they_are_typed():
    assert parse_axes(["draft-length=2,4", "drafter=ngram,early_exit"]) == {
        "draft_length": [2, 4],
        "drafter": ["ngram", "early_exit"],
    }
    assert parse_axes(["temperature=0,0.5"]) == {"temperature": [0.0, 0.5]}


@pytest.mark.parametrize(
    "given", [["gamma=1"], ["draft_length"], ["draft_length="], ["seed=1", "seed=2"], ["seed=x"]]
)
def test_axes_that_cannot_be_read_are_refused(given):
    with pytest.raises(SettingsError):
        parse_axes(given)


def test_the_command_prints_and_writes_the_same_figures(embedded_folder, tmp_path, capsys):
    common = ["sweep", "--method", "speculative", "--vary", "draft_length=2,4"]
    common += ["--max-new-tokens", "6", "--prompt", "Count to ten.", "--prompt", "Hello"]
    assert main([*common, "--out", str(tmp_path / "found.csv")]) == 0
    said = capsys.readouterr()
    assert said.err.splitlines() == ["race 1 of 2", "race 2 of 2"]
    assert "fastest with the target's own output: draft_length" in said.out
    rows = list(csv.DictReader((tmp_path / "found.csv").read_text().splitlines()))
    assert [row["draft_length"] for row in rows] == ["2", "4"]
    assert all(row["identical"] == row["races"] == "2" for row in rows)
    for row in rows:
        assert f"{float(row['speedup']):.2f}" in said.out
    assert main([*common, "--out", str(tmp_path / "found.json")]) == 0
    written = json.loads((tmp_path / "found.json").read_text())
    assert written["provenance"]["target"] == "SmolLM2-135M-Instruct"
    assert [cell["identical"] for cell in written["cells"]] == [2, 2]


def test_an_interrupted_sweep_keeps_what_is_done(engine, monkeypatch):
    plain, told = engine_module.run_lanes, []

    def stopped(*arguments):
        if len(told) == 1:
            raise KeyboardInterrupt
        return plain(*arguments)

    monkeypatch.setattr(engine_module, "run_lanes", stopped)
    settings = Settings(method="spork", max_new_tokens=4)
    found = sweep_command.run_sweep(
        engine, settings, {"fork_width": [1, 2]}, ["Hello", "Hi"], told.append
    )
    assert [cell.races for cell in found] == [1, 1]
    assert told == ["race 1 of 2", "Stopped; what is done is kept."]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--vary", "draft_length=2"], "needs --prompt"),
        (["--vary", "draft_length=2", "--prompt", " "], "empty"),
        (["--vary", "verifier_layers=99", "--drafter", "early_exit", "--prompt", "a"], "between 1"),
    ],
)
def test_a_sweep_that_cannot_run_says_why(arguments, words, embedded_folder, capsys):
    assert main(["sweep", "--method", "speculative", *arguments]) == 2
    assert words in capsys.readouterr().err
