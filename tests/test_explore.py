"""The Explore tab without a browser: what it reads, how it streams, what it shows and loads."""

import csv
import dataclasses
import json
from pathlib import Path

import pytest

from spork_demo.cells import Cell, Outcome, best_exact, cells
from spork_demo.charts import sweep as sweep_charts
from spork_demo.charts.sweep_front import front_alt, front_chart
from spork_demo.charts.sweep_words import best_sentence, cell_name, remarks
from spork_demo.host import Status
from spork_demo.language import speaking
from spork_demo.settings import KNOBS, Settings, SettingsError
from spork_demo.trace import Fidelity
from spork_demo.ui.entry import SHARED_FIELDS, EntryError
from spork_demo.ui.explore_handlers import UNCHANGED, Explorer, Frame
from spork_demo.ui.explore_parts import prompts_text
from spork_demo.ui.explore_picks import pick_values, usual_values
from spork_demo.ui.sweep_entry import SweepEntry, drafter_presets, read_sweep
from spork_demo.ui.sweep_loading import lane_values, own_text, shared_values
from spork_demo.ui.sweep_results import progress, seconds_left
from spork_demo.ui.sweep_table import table_value
from tests.sample_race import DSPARK_PAIR, LIMITS, PAIR, PRESETS, FakeHost
from tests.test_ui_handlers import Clock

SKIP = {"__type__": "update"}


def asked(**changes):
    """What the tab's widgets hold when it opens, with `changes`."""
    knobs = {name: getattr(Settings(), name) for name in SHARED_FIELDS}
    start = {
        "method": "spork", "rules": "exact", "preset": "automatic", "knob1": "fork_width",
        "values1": "2, 4", "knob2": "fork_depth", "values2": "1, 5", "prompts": "One\nTwo",
        "new_tokens": 12, "repeats": 1, "measure": "equal_tokens", "pair": None,
    }  # fmt: skip
    return {**knobs, **start, **changes}


def read(**changes) -> SweepEntry:
    return read_sweep(asked(**changes), LIMITS, PRESETS)


def explorer(host=None, **options):
    return Explorer(host or FakeHost(), options.pop("limits", LIMITS), PRESETS, **options)


def cell(speedup, settings=None, rounds=40, equal=1.0, races=1, **values):
    """A cell of so many races, each `speedup` times as fast as greedy's one token a second."""
    settings = settings or Settings(method="spork", drafter="ngram")
    found = Fidelity(equal_tokens=equal, rouge_l=equal, bleu=equal, perplexity=2.0 / equal,
                     greedy_perplexity=2.0)  # fmt: skip
    outcome = Outcome(
        settings, 60, 60 / speedup, rounds // races, 60, 60, 60.0, found, True, equal == 1
    )
    return Cell(values or {"fork_width": 4}, settings, (outcome,) * races)


def test_what_the_widgets_hold_becomes_a_grid_on_the_knobs_of_the_race():
    entry = read(accept_threshold=0.55, temperature=0.2)
    assert entry.prompts == ("One", "Two")
    assert [tuple(c.values.values()) for c in entry.grid] == [(2, 1), (2, 5), (4, 1), (4, 5)]
    assert {c.settings.accept_threshold for c in entry.grid} == {0.55}
    assert {c.settings.temperature for c in entry.grid} == {0.2}
    assert {c.settings.max_new_tokens for c in entry.grid} == {12}
    assert read(knob2="").grid[0].values == {"fork_width": 2}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"method": "greedy", "knob1": "temperature", "values1": "0"}, "what a sweep compares"),
        ({"method": None}, "from the menus"),
        ({"rules": "loose"}, "from the menus"),
        ({"preset": "<img src=x onerror=alert(1)>"}, "no such preset"),
        ({"knob1": None}, "from the menu"),
        ({"knob1": ["fork_width"]}, "from the menu"),
        ({"knob1": "draft_length"}, "from the menu"),
        ({"knob1": "fork_depth"}, "two different settings"),
        ({"values1": "${process.exit()}"}, "look like 2, 4, 8"),
        ({"values1": None}, "look like 2, 4, 8"),
        ({"values1": "1:16", "values2": "0:12"}, "at most 24 cells"),
        ({"values1": "17"}, "between 1 and 16"),
        ({"prompts": None}, "at least one prompt"),
        ({"prompts": " \n "}, "at least one prompt"),
        ({"prompts": "a\nb\nc\nd\ne"}, "limit for a sweep is 4"),
        ({"prompts": "x" * 300}, "300 characters"),
        ({"new_tokens": None}, "must be a number"),
        ({"new_tokens": 10**9}, "between 1 and 4096"),
        ({"new_tokens": 999}, "limit is 128"),
        ({"new_tokens": float("nan")}, "finite"),
        ({"repeats": 4}, "1 to 3 times"),
        ({"repeats": True}, "1 to 3 times"),
        ({"temperature": float("inf")}, "finite"),
        ({"node_budget": 64}, "may draft 64"),
        ({"knob2": "verifier_layers", "values2": "2"}, "changes nothing"),
        ({"knob2": "drafter", "values2": "dspark"}, "no preset with the drafter dspark"),
        ({"knob2": "drafter", "values2": "mind"}, "must be one of"),
        ({"pair": 3}, "no such model pair"),
    ],
)
def test_what_cannot_be_swept_is_one_sentence(changes, words):
    with pytest.raises((EntryError, SettingsError), match=words) as caught:
        read(**changes)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert sentence.endswith((".", "!"))


def test_impossible_combinations_are_left_out_and_told():
    thresholds = {"method": "dspark", "rules": "article", "knob1": "min_threshold",
                  "values1": "0.1, 0.6", "knob2": "max_threshold", "values2": "0.5"}  # fmt: skip
    entry = read(**thresholds)
    assert len(entry.grid) == 1
    frames = list(explorer().sweep(**asked(**thresholds)))
    assert "Combinations left out: 1. min_threshold must not be" in frames[-1].notice
    with pytest.raises(EntryError, match="None of these combinations can run: min_threshold"):
        read(**thresholds | {"values1": "0.6"})


def test_a_sweep_streams_its_bar_and_its_results_and_ends_complete():
    host = FakeHost()
    frames = list(explorer(host, clock=Clock(0.05)).sweep(**asked()))
    assert len(frames) > 5
    bars = [frame.progress for frame in frames[:-1]]
    assert all("Race " in bar and "<progress" in bar for bar in bars)
    assert any("left, estimated" in bar for bar in bars)
    drawn = [frame for frame in frames if isinstance(frame.speed, str)]
    assert 1 < len(drawn) < len(frames)
    last = frames[-1]
    assert last.progress == ""
    assert last.explored.over
    assert [c.races for c in last.explored.cells] == [2] * 4
    assert "4 cells over 2 races" in last.notice
    assert "own output: K 4, M 5, 2.18× greedy, from 24 tokens in 8 rounds." in last.best
    assert [prompt for prompt, *_ in host.asked] == ["One", "Two"]
    assert host.closed == ["One", "Two"]


class HoldingHost(FakeHost):
    """Keeps a reference to its iterator, so that only close() can end it."""

    def sweep(self, *arguments):
        self.held = FakeHost.sweep(self, *arguments)
        return self.held


def test_stop_closes_the_host_and_keeps_what_is_done(tmp_path):
    host = HoldingHost()
    run = explorer(host, clock=Clock(0.1)).sweep(**asked(new_tokens=60))
    explored = None
    for frame in run:
        explored = frame.explored
        running = explored.sweep.running
        if explored.sweep.races_done == 1 and running and running.lanes[-1].rounds:
            break
    run.close()
    assert host.closed == ["One", "Two"]
    *values, csv_file, json_file, _, _ = explorer().settle(explored, "bleu", tmp_path)
    frame = Frame(*values)
    assert "1 of 2 races are complete" in frame.notice
    assert frame.explored.over
    assert frame.progress == ""
    rows = list(csv.DictReader(Path(csv_file["value"]).read_text("utf-8").splitlines()))
    assert [(row["races"], row["compared"]) for row in rows] == [("1", "1")] * 4
    assert all(int(row["tokens"]) > 60 for row in rows)
    plain = json.loads(Path(json_file["value"]).read_text("utf-8"))
    assert plain["prompts"] == ["One", "Two"]
    assert plain["provenance"]["target"] == "SmolLM2-135M-Instruct"
    assert plain["best_exact"]["values"] == {"fork_width": 4, "fork_depth": 5}


def test_settling_a_finished_sweep_brings_its_files_and_leaves_its_sentence(tmp_path):
    *_, last = explorer().sweep(**asked(method="speculative", preset="Speculative, n-gram",
                                        knob1="draft_length", knob2=""))  # fmt: skip
    found = explorer().settle(last.explored, "equal_tokens", tmp_path)
    assert Frame(*found[:7])._replace(progress=SKIP) == UNCHANGED
    vllm, transformers = found[9:]
    assert '"method": "ngram", "num_speculative_tokens": 4' in vllm["value"]
    assert "prompt_lookup_num_tokens=4" in transformers["value"]
    assert "counts" in vllm["info"]
    assert set(map(str, explorer().settle(None, None, tmp_path))) == {str(SKIP)}


@pytest.mark.parametrize(
    "changes", [{"prompts": ""}, {"values1": "<b>"}, {"pair": "no such pair"}, {"knob1": None}]
)
def test_a_refusal_is_one_frame_that_keeps_the_results(changes):
    host = FakeHost()
    frames = list(explorer(host).sweep(**asked(**changes)))
    assert len(frames) == 1
    assert frames[0]._replace(notice=SKIP) == UNCHANGED
    assert "notice-refused" in frames[0].notice
    assert "<b>" not in frames[0].notice
    assert host.asked == []


def test_before_the_model_is_ready_a_sweep_says_so():
    (frame,) = explorer(FakeHost(state=Status("Fetching <the> model."))).sweep(**asked())
    assert "not ready yet" in frame.notice
    assert "&lt;the&gt;" in frame.notice


def test_what_the_host_refuses_or_breaks_is_said_and_nothing_is_lost(caplog):
    *_, frame = explorer(FakeHost(refuse="The prompt is too long.")).sweep(**asked())
    assert "The prompt is too long." in frame.notice
    host = FakeHost(break_after=150)
    *_, frame = explorer(host, clock=Clock(0.01)).sweep(**asked(new_tokens=60))
    assert "failed on the server" in frame.notice
    assert "secret" not in frame.notice
    assert frame.explored.cells[0].tokens > 0
    assert "secret" in caplog.text


def test_the_seconds_of_a_sweep_are_limited():
    limits = dataclasses.replace(LIMITS, sweep_seconds=5)
    host = FakeHost()
    *_, frame = explorer(host, limits=limits, clock=Clock(0.05)).sweep(**asked(new_tokens=60))
    assert "limit of 5 seconds" in frame.notice
    assert "0 of 2 races are complete" in frame.notice
    assert frame.explored.cells[0].tokens > 0
    assert host.closed == ["One"]


def test_time_left_is_what_is_done_carried_on():
    assert seconds_left(0.25, 10.0) == pytest.approx(30.0)
    assert seconds_left(0.0, 10.0) is None
    assert seconds_left(0.5, 0.1) is None
    assert seconds_left(1.0, 50.0) == 0.0
    assert progress() == ""


def test_the_best_is_named_with_what_it_rests_on():
    grid = [cell(1.5, fork_width=2, races=2), cell(1.2, fork_width=4, races=2)]
    told = best_sentence(grid)
    assert "output: K 2, 1.50× greedy, from 120 tokens in 40 rounds." in told
    assert "Its 2 races lay between 1.50× and 1.50×." in told
    assert "It is the best of 2" in told
    assert "fewer than" not in told
    assert "fewer than 20 rounds" in best_sentence([cell(1.5, rounds=19)])
    slow = best_sentence([cell(0.8)])
    assert "No exact setting of this sweep is faster than greedy" in slow
    assert "0.80×" in slow
    article = Settings(method="spork", rules="article", drafter="ngram")
    assert best_sentence([cell(3.0, article)]) == "No cell with exact rules has been measured."
    uneven = best_sentence([cell(1.5, races=2), cell(1.2, fork_width=9)])
    assert "Not every cell has raced as often" in uneven
    assert "speed alone" in remarks(grid)
    assert remarks([*grid, cell(2.0, article, equal=0.5)]) == ""
    sampled = Settings(method="spork", temperature=0.5)
    assert "only the perplexity ratio" in remarks([cell(1.5, sampled)])


def test_squares_stand_at_their_values_and_hold_their_cells_places():
    grid = [cell(1 + k * m / 10, fork_width=k, fork_depth=m) for k in (1, 2) for m in (3, 5, 7)]
    del grid[1]  # a combination that cannot be
    figure = sweep_charts.speed_chart(grid)
    (squares,) = figure.data
    assert [list(line) for line in squares.customdata] == [[0, 2], [None, 3], [1, 4]]
    assert squares.text[2][1] == "2.40× ★"
    assert squares.text[1][0] == ""
    assert list(figure.layout.xaxis.ticktext) == ["1", "2"]
    assert list(figure.layout.yaxis.ticktext) == ["3", "5", "7"]
    assert squares.z[0][0] == pytest.approx(0.3785, abs=1e-3)  # log2 of 1.3
    assert sweep_charts.speed_alt(grid).endswith("1.30× at K 1, M 3 to 2.40× at K 2, M 7.")


def test_one_knob_is_a_line_over_its_values_and_a_choice_is_bars():
    grid = [cell(1.5, fork_width=8), cell(0.9, fork_width=2, rounds=10)]
    (line,) = sweep_charts.speed_chart(grid).data
    assert list(line.x) == [2, 8]
    assert list(line.customdata) == [1, 0]
    assert list(line.text) == ["~0.90×", "1.50× ★"]
    grid = [cell(1.5, drafter="ngram"), cell(1.1, drafter="recycle")]
    (bars,) = sweep_charts.speed_chart(grid).data
    assert list(bars.y) == pytest.approx([1.5, 1.1])
    assert len(set(bars.marker.pattern.shape)) == 2
    assert "measured yet" in sweep_charts.speed_alt([Cell({"fork_width": 1}, Settings())])


def test_the_front_tells_exact_from_article_by_more_than_colour():
    article = Settings(method="spork", rules="article", drafter="ngram")
    grid = [cell(1.5), cell(2.5, article, equal=0.5), cell(1.0, article, equal=0.4)]
    front, exact, approximate, star = front_chart(grid, "equal_tokens").data
    assert list(front.x) == [0.5, 1.0]
    assert list(front.y) == pytest.approx([2.5, 1.5])
    assert set(exact.marker.symbol) == {"circle"}
    assert set(approximate.marker.symbol) == {"square"}
    assert list(approximate.customdata) == [1, 2]
    assert (list(star.customdata), star.name) == ([0], "fastest exact")
    assert "K 4: 2.50×, 50%; K 4: 1.50×, 100%" in front_alt(grid, "equal_tokens")
    axis = front_chart(grid, "perplexity_ratio").layout.xaxis
    assert axis.range[0] > axis.range[1]


def test_the_table_holds_what_sorts_and_what_is_read():
    article = Settings(method="spork", rules="article", drafter="ngram", temperature=0.5)
    value = table_value([cell(1.5, rounds=3), cell(2.5, article), Cell({"fork_width": 9}, article)],
                        "equal_tokens")  # fmt: skip
    assert "<" not in value
    table = json.loads(value)
    first, second, third = table["rows"]
    assert {len(row["cells"]) for row in table["rows"]} == {len(table["head"])}
    assert {len(row["keys"]) for row in table["rows"]} == {len(table["head"])}
    speed = table["head"].index("speedup")
    assert (speed, table["order"]) == (2, {"column": 2, "down": True})
    assert first["keys"][speed] == pytest.approx(1.5)
    assert first["marks"] == ["★", "◆", "~"]
    assert first["best"]
    assert second["cells"][table["head"].index("equal tokens")] == "–"
    assert third["keys"][speed] is None
    assert third["marks"] == []


def test_a_cell_loads_as_lane_two_with_the_knobs_it_ran_with():
    entry = read(preset="SPORK, n-gram forks", accept_threshold=0.55)
    picked = entry.grid[3]
    values = lane_values(entry, picked, PRESETS, [PAIR])
    assert values[:3] == ["spork", "exact", "fork_width=4 fork_depth=5"]
    assert values[3]["value"] == "exact"
    assert values[4]["value"] == "SPORK, n-gram forks"
    shared = dict(zip(SHARED_FIELDS, shared_values(picked), strict=True))
    assert shared["accept_threshold"] == 0.55
    assert shared["fork_width"] == shared["max_new_tokens"] == SKIP


def test_sampling_knobs_load_for_every_lane_and_drafters_as_presets():
    entry = read(knob1="temperature", values1="0.5", knob2="drafter", values2="ngram")
    (picked,) = entry.grid
    assert own_text(picked) == ""
    shared = dict(zip(SHARED_FIELDS, shared_values(picked), strict=True))
    assert shared["temperature"] == 0.5
    assert lane_values(entry, picked, PRESETS, [PAIR])[4]["value"] == "SPORK, n-gram forks"
    tiny = read(method="dspark", rules="article", knob1="min_threshold", values1="0.00001",
                knob2="")  # fmt: skip
    assert own_text(tiny.grid[0]) == "min_threshold=0.00001"


def test_menus_offer_what_the_method_reads_and_keep_what_still_fits():
    rules, _, _, first, values, second, _ = pick_values(
        PRESETS, [PAIR], "dspark", "exact", "automatic", "fork_width", ""
    )
    assert rules["value"] == "article"  # no drafter of its own
    assert first["value"] == "draft_length"
    assert {"min_threshold", "max_threshold"} <= {name for _, name in first["choices"]}
    assert values["value"] == "1, 2, 4, 6, 8"
    assert second["value"] == ""
    kept = pick_values(PRESETS, [DSPARK_PAIR], "dspark", "exact", "automatic", "temperature", "")
    assert (kept[0]["value"], kept[3]["value"], kept[4]) == ("exact", "temperature", SKIP)
    assert pick_values(PRESETS, [PAIR], None, "exact", None, None, None) == [SKIP] * 7
    assert usual_values(PRESETS, "spork", "exact", "drafter")["value"] == "ngram"
    assert usual_values(PRESETS, "spork", "exact", "")["visible"] is False
    assert drafter_presets(PRESETS, "spork", "article", "early_layers") == {
        "target": "SPORK as in the article"
    }


def test_prompts_are_one_a_line():
    assert prompts_text(["a\n b", None, "c"]) == "a b\n\nc"


def test_a_sweep_speaks_chinese():
    with speaking("zh"):
        grid = [cell(1.5), cell(1.2, fork_width=8)]
        assert "1.50×" in best_sentence(grid)
        assert "贪心" in best_sentence(grid)
        assert "加速比" in table_value(grid, "bleu")


def test_cells_are_named_by_symbols():
    made = cells(Settings(method="spork"), {"accept_threshold": [0.55], "drafter": ["ngram"]})
    assert cell_name(made[0]) == "τ 0.55, drafter ngram"
    assert best_exact(made) is None
    assert KNOBS["accept_threshold"].symbol == "τ"
