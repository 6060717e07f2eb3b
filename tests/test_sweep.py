"""Sweeps: the grid, the sums over races, the front, and the command on the embedded model."""

import csv
import json
import math

import pytest

from spork_demo import sweep_command
from spork_demo.cli import main
from spork_demo.settings import Settings, SettingsError
from spork_demo.sweep import CELLS_A_RACE, best_exact, cells, pareto, races, sweep
from spork_demo.sweep_command import parse_axes, table
from spork_demo.trace import Fidelity, Race, Round, Token, Trace

BASE = Settings(method="speculative", drafter="ngram")


def lane(settings: Settings, ids, per_round: int, seconds: float, **found) -> Trace:
    """A lane that committed `ids`, so many a round, each round so many seconds."""
    rounds = []
    for start in range(0, len(ids), per_round):
        tokens = tuple(Token(n, "", "plain") for n in ids[start : start + per_round])
        rounds.append(
            Round(len(rounds), (), tokens, 0, 0, 1, 0, 1, seconds, 0.0, seconds, 0.0)
        )  # fmt: skip
    return Trace(settings, "p", rounds=tuple(rounds), fidelity=Fidelity(**found))


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
                perplexity=4.0 if strays else 2.0,
                greedy_perplexity=2.0,
            )
        )
    return Race(prompt, tuple(made))


def last(iterator):
    *_, found = iterator
    return found


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
    found = last(sweep(fake, ["a", "b"], grid))
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
    found = last(sweep(slower_when_exact, ["a"], grid))
    assert pareto(found) == (found[1], found[0])
    assert best_exact(found) is found[0]


def test_cells_race_in_groups_beside_a_greedy_lane_each_and_come_as_they_end():
    seen = []

    def watched(prompt, lanes):
        seen.append((prompt, [settings.method for settings in lanes]))
        return fake(prompt, lanes)

    grid = cells(BASE, {"draft_length": range(1, CELLS_A_RACE + 3)})
    steps = list(sweep(watched, ["a", "b"], grid))
    assert len(steps) == races(["a", "b"], grid) == 4
    assert [prompt for prompt, _ in seen] == ["a", "a", "b", "b"]
    assert [methods[0] for _, methods in seen] == ["greedy"] * 4
    assert [len(methods) for _, methods in seen] == [CELLS_A_RACE + 1, 3] * 2
    assert [cell.races for cell in steps[0]] == [1] * CELLS_A_RACE + [0, 0]
    assert steps[0][-1].plain()["speedup"] is None
    assert [cell.races for cell in steps[-1]] == [2] * len(grid)
    assert "-" in table(steps[0])


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
    plain, told = sweep_command.run_lanes, []

    def stopped(*arguments):
        if len(told) == 1:
            raise KeyboardInterrupt
        return plain(*arguments)

    monkeypatch.setattr(sweep_command, "run_lanes", stopped)
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
