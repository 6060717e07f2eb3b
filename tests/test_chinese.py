"""The Chinese of generated sentences: everything the recorded races say, read for stray English."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from spork_demo.charts import acceptance, comparison, judged, rounds
from spork_demo.charts.figure import lane_name
from spork_demo.charts.fork_tree import fork_tree, fork_tree_alt
from spork_demo.charts.scheduling import (
    chances_alt,
    chances_chart,
    throughput_alt,
    throughput_chart,
)
from spork_demo.host import Status
from spork_demo.language import catalogue, later, say, speaking
from spork_demo.race import failure_sentence
from spork_demo.settings import Settings, SettingsError
from spork_demo.trace import Finished, LaneEvent, Race, Round, Trace
from spork_demo.trace_file import TraceError, loads, read_races
from spork_demo.ui.entry import EntryError, read_entry
from spork_demo.ui.explain import verdict
from spork_demo.ui.node_story import node_story
from spork_demo.ui.notices import status_strip, why_not
from spork_demo.ui.reliability_view import lane_reliability, race_reliability
from spork_demo.ui.results import chart_values
from spork_demo.ui.scheduling_story import scheduling_story
from spork_demo.ui.slower import reasons
from spork_demo.ui.token_view import event_line, head_line, summary_line
from spork_demo.ui.tree_view import tree_table
from tests import handmade_rounds as made
from tests.sample_race import LIMITS, PRESETS, dspark_race, sample_race
from tests.test_ui_entry import values

RECORDED = read_races(Path(__file__).resolve().parents[1] / "assets" / "traces")
RACES = (*RECORDED, sample_race(), dspark_race(), made.handmade_race())
NAMES = {"SPORK", "DSpark", "CPU", "ROUGE", "BLEU", "gram", "ms", "min", "max", "logit", "br", "lt"}
"""Names, symbols and units that are the same in both languages; `br`: a line break of a hover."""
QUOTED = re.compile("「[^「」]*」|#[0-9]+")


LABELS = {lane.label for race in RACES for lane in race.lanes} - {*catalogue("zh"), ""}
FOREIGN = re.compile("|".join(map(re.escape, sorted(LABELS, key=len, reverse=True))))
"""Names of lanes that are not ours, and stay as they are."""


def english(text: str) -> set[str]:
    """English words in `text`, quotations of models and names of lanes apart."""
    rest = FOREIGN.sub("", QUOTED.sub("", text))
    return set(re.findall("[A-Za-z]{2,}", rest)) - NAMES


def told(race: Race) -> Iterator[str]:
    """Every sentence a race and its rounds bring."""
    yield from (comparison.speed_alt(race), comparison.phase_alt(race))
    yield from (acceptance.acceptance_alt(race), acceptance.acceptance_caption(race))
    for lane in race.lanes:
        yield from reasons(lane, race.baseline)
        yield from words_of(lane_reliability(lane))
        for place in range(0, len(lane.rounds), max(1, len(lane.rounds) // 8)):
            round_ = lane.rounds[place]
            yield verdict(lane, place, race.baseline)
            yield rounds.rounds_alt(lane, place, race.baseline)
            yield from round_told(lane, place, round_)


def round_told(lane: Trace, place: int, round_: Round) -> Iterator[str]:
    yield from (fork_tree_alt(round_, "锚"), judged.judge_alt(round_), scheduling_story(round_))
    yield from (node_story(lane, place, node) for node in range(-1, len(round_.nodes) + 1))
    if round_.scheduling is not None and round_.nodes:
        yield chances_alt(round_)
        if round_.scheduling.throughputs:
            yield throughput_alt(round_)
    table = tree_table(round_)
    yield from table.head
    yield from (cell for row in table.rows for cell in row.cells[2:4])


def words_of(value: str | None) -> list[str]:
    """What a chart's payload says around and beside its figure, and in it but for tokens."""
    found = json.loads(value or "{}")
    said = [found.get(name, "") for name in ("alt", "title", "caption")]
    return [*said, *found.get("words", {}).values(), *figure_words(found.get("figure") or {})]


def figure_words(figure: dict) -> list[str]:
    said = [trace.get("name", "") for trace in figure.get("data", ())]
    layout = figure.get("layout", {})
    said += [layout[axis].get("title", {}).get("text", "") for axis in layout if "axis" in axis]
    return [*said, *(note["text"] for note in layout.get("annotations", ()))]


@pytest.mark.parametrize("race", RACES, ids=lambda race: race.title or "handmade")
def test_no_sentence_of_a_race_keeps_an_english_word(race):
    with speaking("zh"):
        stray = {text: found for text in told(race) if (found := english(text))}
        for value in (*chart_values(race), race_reliability(race)):
            stray |= {text: found for text in words_of(value) if (found := english(text))}
    assert not stray


@pytest.mark.parametrize("race", RECORDED, ids=lambda race: race.title)
def test_the_race_view_is_told_in_chinese(race):
    with speaking("zh"):
        head, summary = json.loads(head_line(race)), json.loads(summary_line(race))
    said = [race["verdict"] + race["note"] for race in summary["lanes"]]
    said += [name + unit for lane in summary["lanes"] for name, _, unit in lane["cells"]]
    said += [lane["name"] + lane["rules"] for lane in head["lanes"]]
    said += [*head["sources"].values(), head["title"]]
    said += [look["name"] + look["words"] for look in head["fates"].values()]
    said += [re.sub(r"\{\w+\}", "", word) for word in head["words"].values()]
    assert {word for text in said for word in english(text)} == set()


def test_the_charts_of_a_round_are_labelled_in_chinese():
    with speaking("zh"):
        for race in (dspark_race(), made.handmade_race()):
            for lane in race.lanes:
                for round_ in lane.rounds[:4]:
                    figures = [fork_tree(round_, "锚"), judged.judge_chart(round_)]
                    figures.append(rounds.rounds_chart(lane, 0, race.baseline))
                    if round_.scheduling is not None and round_.nodes:
                        figures += [chances_chart(round_), throughput_chart(round_)]
                    plain = [json.loads(figure.to_json()) for figure in figures if figure]
                    said = [text for figure in plain for text in figure_words(figure)]
                    assert {word for text in said for word in english(text)} == set()


def test_a_loading_model_speaks_to_each_reader_though_it_spoke_before_any_came():
    status = Status(
        later("Loading {label}.", label="tiny"), done_bytes=10**6, total_bytes=2 * 10**6
    )
    assert "Loading tiny." in status_strip(status)
    assert why_not(Status("So.", failed=True)) == (
        "No model can run here: So. Recorded races still replay."
    )
    with speaking("zh"):
        assert "正在加载 tiny。" in status_strip(status)
        assert "1 / 2 MB" in status_strip(status)
        assert why_not(status) == "模型尚未就绪，这次运行无法开始：正在加载 tiny。你的文字已保留。"


def test_a_sentence_inside_a_sentence_is_translated_with_it():
    ready = later("{name} is ready on {device}.", name="a", device="b")
    why = later("compiled kernels are not used, because there is no C++ compiler.")
    told = later("{ready} Slower than it could be: {why}", ready=ready, why=why)
    assert told == f"a is ready on b. Slower than it could be: {why}"
    with speaking("zh"):
        assert say(told) == "a 已在 b 上就绪。速度未达最佳：没有 C++ 编译器，因此没有使用编译内核。"


def test_why_a_lane_ended_is_told_where_it_can_be():
    full = later("The model's context of {context} tokens is full.", context=32)
    stranger = "".join(full)
    with speaking("zh"):
        assert ending("context", full) == "模型 32 个词元的上下文已满。"
        assert ending("context", stranger) == "模型的上下文已满。"
        assert ending("failed", failure_sentence(MemoryError())).startswith("设备内存不足")
        assert ending("eos", "") == "文本已完整。"
    assert ending("context", stranger) == stranger


def ending(reason, message):
    return json.loads(event_line(LaneEvent(0, Finished(reason, "", message))))["words"]


@pytest.mark.parametrize(
    ("label", "told"),
    [
        ("1 Greedy", "1 贪心"),
        ("2 SPORK exact K=8", "2 SPORK 精确 K=8"),
        ("3 Speculative article", "3 投机解码 文章规则"),
        ("SPORK, n-gram forks", "SPORK，n-gram 分叉"),
        ("my exact lane", "my exact lane"),
    ],
)
def test_a_lane_is_named_in_the_readers_language_where_its_name_is_ours(label, told):
    lane = Trace(Settings(), "p", label)
    assert lane_name(lane) == label
    with speaking("zh"):
        assert lane_name(lane) == told


def test_refusals_are_said_in_the_visitors_language():
    with speaking("zh"):
        with pytest.raises(SettingsError, match="temperature 须在 0 到 2 之间。"):
            Settings(temperature=3.0)
        with pytest.raises(EntryError, match="^赛道 2：这种方法和规则没有"):
            read_entry(values(lane2_preset="none"), LIMITS, PRESETS)
        with pytest.raises(TraceError, match="这个文件不是有效的 JSON。"):
            loads("{")


@pytest.mark.parametrize("other", ["起草器", "泳道", "旋钮", "令牌"])
def test_an_idea_has_one_word(other):
    """草稿器 a drafter, 赛道 a lane, 参数 a knob, 词元 a token, on every page."""
    assert [told for told in catalogue("zh").values() if other in told] == []


def test_sentences_in_a_row_are_not_parted_by_blanks():
    stop = re.compile("[。！？；：，] ")
    with speaking("zh"):
        for race in RECORDED:
            told = [lane["note"] for lane in json.loads(summary_line(race))["lanes"]]
            told += [story for lane in race.lanes for story in reasons(lane, race.baseline)]
            assert [text for text in told if stop.search(text)] == []
