"""The calibration tab without a browser: what is asked, what is refused, what is shown and set."""

import json
import math
from dataclasses import replace

import pytest

from spork_demo.calibration import QUANTILE, verdict
from spork_demo.host import Status
from spork_demo.language import speaking
from spork_demo.reliability import Prediction
from spork_demo.settings import Settings
from spork_demo.spacefile import Preset
from spork_demo.ui.calibrate_handlers import (
    APPLIED,
    CalibrationDesk,
    Shown,
    read_plan,
    read_quantile,
)
from spork_demo.ui.calibration_view import cost_sentence, progress_view, views
from spork_demo.ui.entry import EntryError
from spork_demo.ui.handlers import Desk
from tests.sample_calibration import sample_calibration
from tests.sample_race import DSPARK_PAIR, LIMITS, PRESETS, FakeHost

SPORK = Settings(
    "spork", "article", drafter="target", judge="early_layers", fork_shape="forks",
    fork_width=4, fork_depth=2, verifier_layers=28,
)  # fmt: skip
ASKED = {
    "judge": "early_layers", "drafter": "target", "layers": 28, "prompts": 2, "tokens": 24,
    "quantile": 0.1, "pair": "", "fork_width": 4, "fork_depth": 2, "fork_shape": "forks",
    "node_budget": 24, "ngram_order": 5,
}  # fmt: skip
ARTICLE = (*PRESETS, Preset("Early layers judge", "spork", "article", "target", "early_layers"))


def desk(**changes) -> CalibrationDesk:
    host = replace(FakeHost(offers=(DSPARK_PAIR,)), **changes)
    return CalibrationDesk(Desk(host, LIMITS, ARTICLE, ()))


def told(update) -> bool:
    """Whether an output was given a value."""
    return not (isinstance(update, dict) and update.get("__type__") == "update" and
                "value" not in update)  # fmt: skip


def test_a_run_ends_with_everything_it_found():
    *_, (said, shown, *_rest) = frames = list(desk().run(**ASKED))
    assert "Calibrated" in said
    assert shown.ended
    assert shown.found.prompts == 2
    drawn = [frame for frame in frames if told(frame[2]) and frame[2]]
    charts = [json.loads(value) for value in drawn[-1][2:] if value and value.startswith("{")]
    assert len(charts) == 4
    assert "At τ" in charts[0]["caption"]
    shares = [frame[0] for frame in frames if "progress" in frame[0]]
    assert "Prompt 1 of 2" in shares[0]


def test_what_the_host_is_asked_is_the_lane_of_the_race_tab():
    made = desk()
    list(made.run(**ASKED | {"pair": DSPARK_PAIR.name}))
    ((plan, pair),) = made.desk.host.asked
    assert pair == DSPARK_PAIR.name
    assert plan.prompts == 2
    assert plan.settings == replace(SPORK, max_new_tokens=24)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"judge": None}, "Choose a judge"),
        ({"judge": ["early_layers"]}, "Choose a judge"),
        ({"drafter": "<img onerror>"}, "Choose a judge and a drafter"),
        ({"prompts": math.nan}, "prompts must be a whole number from 1 to 24"),
        ({"prompts": 10**400}, "prompts must be"),
        ({"prompts": True}, "prompts must be"),
        ({"tokens": 129}, "from 1 to 128"),
        ({"tokens": "24"}, "tokens of each prompt must be"),
        ({"tokens": 2}, "Forks of 3 tokens"),
        ({"layers": None}, "N must be"),
        ({"layers": 2.5}, "N must be"),
        ({"fork_width": math.inf}, "fork_width must be"),
        ({"fork_width": 10**400}, "fork_width must be"),
        ({"fork_width": 16, "fork_depth": 6}, "limit is 32"),
        ({"pair": 7}, "There is no such model pair"),
    ],
)
def test_what_cannot_run_is_refused_with_a_sentence_and_nothing_is_lost(change, words):
    made = desk()
    *_, (said, shown, *rest) = list(made.run(**ASKED | change))
    assert words in said
    assert "notice-refused" in said
    assert not any(told(each) for each in rest)
    assert made.desk.host.asked == []


def test_a_model_that_is_not_there_is_told():
    made = desk(state=Status("Fetching the model"))
    ((said, *_),) = list(made.run(**ASKED))
    assert "not ready" in said


def test_a_host_that_refuses_or_breaks_is_told_without_its_words():
    said = list(desk(refuse="The device is busy.").run(**ASKED))[-1][0]
    assert "The device is busy." in said
    *_, last = list(desk(break_after=5).run(**ASKED))
    assert "what it had found is kept" in last[0]
    assert "secret" not in last[0]
    assert last[1].found.prompts == 1


def test_stop_ends_the_host_s_run_and_says_what_is_kept():
    made = desk()
    running = made.run(**ASKED)
    shown = Shown()
    for _, shown, *_ in running:
        if shown.found is not None:
            break
    running.close()
    assert made.desk.host.closed == ["calibration"]
    said, settled = made.settle(shown)
    assert "Stopped after 1 whole prompts" in said
    assert settled.ended
    assert not any(told(each) for each in made.settle(settled))
    assert "before anything" in made.settle(Shown())[0]


@pytest.mark.parametrize("quantile", [0.05, 0.3])
@pytest.mark.parametrize("judge", ["draft_model", "first_token"])
def test_another_judge_or_quantile_is_read_off_what_is_stored(judge, quantile):
    found = sample_calibration(SPORK, 3)
    chart, table = desk().look(Shown(found), judge, quantile)
    wanted = verdict(found, judge, quantile)
    assert f"At τ {wanted.threshold:.2f}" in json.loads(chart)["caption"]
    assert f"<td>{wanted.threshold:.2f}</td>" in table
    assert table.count("aria-current") == 1
    assert not any(told(each) for each in desk().look(Shown(), judge, quantile))
    assert not any(told(each) for each in desk().look(Shown(found), "target", quantile))


@pytest.mark.parametrize("bad", [None, "x", math.nan, math.inf, True, [0.1]])
def test_a_quantile_that_is_none_is_the_usual_one(bad):
    assert read_quantile(bad) == QUANTILE
    assert read_quantile(-3) == 0.0
    assert read_quantile(9) == 0.5


def test_apply_sets_the_race_s_knobs_and_its_article_lane():
    found = sample_calibration(SPORK, 3)
    lanes = ("greedy", "exact", "", "spork", "exact", "", "spork", "article", "")
    said, *rest = desk().apply(Shown(found), "early_layers", 0.1, *lanes)
    values = dict(zip(APPLIED, rest, strict=False))
    assert values["accept_threshold"] == verdict(found, "early_layers", 0.1).threshold
    assert values["verifier_layers"] == 28
    assert values["threshold_rule"] == "fixed"
    assert (values["fork_width"], values["fork_depth"], values["fork_shape"]) == (4, 2, "forks")
    presets = rest[len(APPLIED) :]
    assert [told(each) for each in presets] == [False, False, True]
    assert "Lane 3 now drafts and judges as measured here" in said


def test_apply_says_where_no_lane_will_ask_the_judge():
    found = sample_calibration(SPORK, 3)
    said, *rest = desk().apply(Shown(found), "first_token", 0.1, "greedy", "exact", "")
    assert "No lane runs SPORK by article rules" in said
    assert told(rest[0])
    said, *rest = desk().apply(Shown(found), "first_token", 0.1, "spork", "article", "")
    assert "no preset has this drafter" in said
    said, *rest = desk().apply(Shown(), "first_token", 0.1, "spork", "article", "")
    assert "calibrate first" in said
    assert not any(told(each) for each in rest)


def test_the_sentence_names_what_passes_and_what_a_lane_would_do():
    found = sample_calibration(SPORK, 3)
    wanted = verdict(found, "draft_model", 0.1)
    text = cost_sentence(wanted)
    assert f"{wanted.passing_wrong:.0%} of the 360 that do not" in text
    assert f"{wanted.wrong:.0%} of those forks are not what greedy writes" in text
    bare = verdict(replace(found, forks=()), "draft_model", 0.1)
    assert "needs some of both" in cost_sentence(bare)


def test_everything_is_said_in_both_languages_and_few_forks_are_called_few():
    few = sample_calibration(SPORK, 1, blocks=True)
    few = replace(few, forks=few.forks[:80])
    assert "Below 100 forks" in json.loads(views(few, "draft_model", 0.1)[0])["caption"]
    with speaking("zh"):
        whole = views(sample_calibration(SPORK, 3, blocks=True), "early_layers", 0.1)
        assert "τ 为" in json.loads(whole[0])["caption"]
        assert all(whole)


def test_no_name_of_a_pair_becomes_markup():
    found = replace(sample_calibration(SPORK, 2), pair="<img src=x onerror=1>")
    assert "<img" not in "".join(filter(None, views(found, "early_layers", 0.1)))


def test_the_bar_tells_the_time_left():
    step = list(FakeHost().calibrate(read_plan(ASKED, LIMITS)))[3]
    assert "about 7 s left" in progress_view(step)
    with pytest.raises(EntryError):
        read_plan({}, LIMITS)


@pytest.mark.parametrize(("before", "after", "told"), [(0.9, 0.5, False), (0.5, 0.9, True)])
def test_where_scaling_did_not_help_it_says_so(before, after, told):
    drafts = tuple(Prediction(after, before, survived=bool(n % 2)) for n in range(20))
    given = replace(sample_calibration(Settings("dspark"), 2, blocks=True), drafts=(drafts,))
    drawn = json.dumps(views(given, "early_layers", 0.1))
    assert ("scaling did not help" in drawn) is told
