"""What-if verdicts: the recorded settings give the recorded verdict, others what the rule says."""

from dataclasses import replace
from pathlib import Path

import pytest

from spork_demo.settings import Settings
from spork_demo.trace import ForkScore, Node, Token
from spork_demo.trace_file import read_races
from spork_demo.what_if import (
    fallen,
    own_token,
    question,
    recorded,
    supposed_round,
    with_length,
    with_score_limit,
    with_thresholds,
)
from tests.dspark_rounds import dspark_lane
from tests.handmade_rounds import (
    chain,
    fork_nodes,
    greedy_lane,
    handmade_race,
    make_round,
    scored_lane,
    taken,
    threshold_lane,
    threshold_round,
    tree_lane,
)

RACES = read_races(Path(__file__).parent.parent / "assets" / "traces")
LANES = [
    *(lane for race in RACES for lane in race.lanes),
    *handmade_race().lanes,
    dspark_lane(Settings("dspark", drafter="dspark")),
    dspark_lane(Settings("dspark", drafter="dspark", schedule="threshold", temperature=1.0)),
]


def asked(kind: str):
    """Every lane and round of that question, recorded and handmade."""
    found = [
        (lane, place)
        for lane in LANES
        for place in range(len(lane.rounds))
        if question(lane, place) == kind
    ]
    assert found
    return found


def same_text(one: Token | None, other: Token | None) -> bool:
    return (one and one.token) == (other and other.token)


def test_the_recorded_settings_give_the_recorded_verdict_in_every_round():
    for lane, place in asked("score"):
        round_ = lane.rounds[place]
        assert with_score_limit(lane, place, round_.accept_threshold) == recorded(round_)
    for lane, place in asked("thresholds"):
        low, high = lane.settings.min_threshold, lane.settings.max_threshold
        round_, given = lane.rounds[place], lane
        for k, node in enumerate(round_.nodes):
            if node.threshold != pytest.approx(fallen(node.confidence, low, high)):
                given = None  # a handmade one, its thresholds are not of its settings
                break
            assert k == node.parent + 1
        if given:
            assert with_thresholds(lane, place, low, high) == recorded(round_)
    for lane, place in asked("length"):
        round_ = lane.rounds[place]
        assert with_length(lane, place, round_.scheduled) == recorded(round_)


def test_every_recorded_round_that_a_number_decided_is_asked_about():
    kinds = [[question(lane, p) for p in range(len(lane.rounds))] for lane in RACES[1].lanes]
    assert set(kinds[0]) == set(kinds[1]) == {None}, "greedy and trees judged by the target"
    assert set(kinds[2]) == {"score"} and set(kinds[3]) == {"thresholds"}
    drafted = [bool(round_.nodes) for round_ in RACES[0].lanes[2].rounds]
    asked_about = [question(RACES[0].lanes[2], place) for place in range(len(drafted))]
    assert asked_about == ["length" if some else None for some in drafted]


@pytest.mark.parametrize("limit", [0.0, 0.2, 0.45, 0.7, 0.95, 1.0])
def test_a_fork_is_kept_whole_when_the_best_score_reaches_tau(limit):
    for lane, place in asked("score"):
        round_ = lane.rounds[place]
        scores = [score.score for score in round_.scores]
        leaf = round_.scores[scores.index(max(scores))].leaf
        told = with_score_limit(lane, place, limit)
        if max(scores) < limit:
            assert (told.kept, told.fate, told.committed) == ((), "fallback", 1)
            continue
        path = [leaf]
        while round_.nodes[path[0]].parent >= 0:
            path.insert(0, round_.nodes[path[0]].parent)
        room = lane.settings.max_new_tokens - sum(len(r.committed) for r in lane.rounds[:place])
        assert told.kept == tuple(path)[:room]
        assert told.fate is None and told.own is None


def test_the_fallback_that_was_never_taken_is_named_only_where_the_trace_tells():
    lane = scored_lane()
    kept = with_score_limit(lane, 1, 0.99)
    assert kept.own.token == lane.rounds[1].nodes[0].token, "the target's own likeliest fork"
    unsure = replace(lane.rounds[1], nodes=tuple(
        replace(node, source="ngram") for node in lane.rounds[1].nodes), committed=tuple(
        replace(token, target_probability=0.5) for token in lane.rounds[1].committed))  # fmt: skip
    hidden = replace(lane, rounds=(lane.rounds[0], unsure))
    assert with_score_limit(hidden, 1, 0.99).own is None
    sure = replace(unsure, committed=(replace(unsure.committed[0], target_probability=0.51),))
    told = with_score_limit(replace(lane, rounds=(lane.rounds[0], sure)), 1, 0.99)
    assert told.own.token == unsure.committed[0].token


def test_the_recorded_article_lane_knows_its_fallback_in_every_round():
    lane = RACES[1].lanes[2]
    for place, round_ in enumerate(lane.rounds):
        told = with_score_limit(lane, place, 1.0)
        roots = [node for node in round_.nodes if node.parent == -1]
        assert told.own.token == max(roots, key=lambda node: node.draft_probability).token


def test_a_fork_that_would_be_kept_ends_at_the_stop_token_and_at_the_asked_length():
    lane = scored_lane()
    before = sum(len(round_.committed) for round_ in lane.rounds[:3])
    short = replace(lane, settings=replace(lane.settings, max_new_tokens=before + 2))
    assert with_score_limit(short, 3, 0.1).kept == (0, 1)
    stop = lane.rounds[3].nodes[2].token
    ended = replace(lane, stop_reason="eos", rounds=(*lane.rounds[:4], make_round(
        4, (), (Token(stop, "", "plain"),))))  # fmt: skip
    assert with_score_limit(ended, 3, 0.1).kept == (0, 1, 2)


def test_equal_scores_keep_the_first_fork_as_the_decoder_does():
    nodes = fork_nodes(None, 2)
    round_ = make_round(
        0, nodes, taken((), " x", "fallback"), accept_threshold=0.7,
        scores=(ForkScore(3, 0.5), ForkScore(7, 0.5)),
    )  # fmt: skip
    lane = replace(scored_lane(), rounds=(round_,))
    assert with_score_limit(lane, 0, 0.5).kept == (0, 1, 2, 3)


def test_thresholds_fall_with_confidence_between_their_bounds():
    assert [fallen(c, 0.1, 0.5) for c in (0.0, 0.5, 1.0)] == [0.5, 0.3, pytest.approx(0.1)]
    assert fallen(0.7, 0.4, 0.4) == 0.4


def test_at_temperature_0_only_a_threshold_of_1_refuses_what_the_target_says():
    lane = RACES[1].lanes[3]
    for place, round_ in enumerate(lane.rounds):
        for low, high in ((0, 0), (0.2, 0.3), (0.0, 0.999), (0.9, 0.99)):
            assert with_thresholds(lane, place, low, high) == recorded(round_)
        told = with_thresholds(lane, place, 1.0, 1.0)
        assert told.kept == () and told.refused == 0
        assert told.own.token == round_.committed[0].token, "p itself draws its argmax"


def sampled(place: int, low: float, high: float):
    return with_thresholds(threshold_lane(), place, low, high)


def test_a_higher_threshold_refuses_a_token_whose_draw_had_passed():
    # round 0: four kept, target p 0.8, 0.7, 0.6, 0.5
    told = sampled(0, 0.65, 0.65)
    assert (told.kept, told.refused, told.own, told.fate) == ((0, 1), 2, None, "correction")
    assert told.committed == 3
    assert sampled(0, 0.0, 0.0) == recorded(threshold_lane().rounds[0])


def test_a_lower_threshold_leaves_a_draw_that_was_never_made_open():
    # round 1: one kept, then p 0.12 under its threshold 0.2
    told = sampled(1, 0.05, 0.05)
    assert (told.kept, told.open, told.chance, told.committed) == ((0,), 1, 0.12, None)


def test_a_draw_that_failed_fails_at_any_lower_threshold():
    round_ = threshold_round(0, 1)
    nodes = [*round_.nodes[:1], replace(round_.nodes[1], threshold=0.05), *round_.nodes[2:]]
    lane = replace(threshold_lane(), rounds=(replace(round_, nodes=tuple(nodes)),))
    for limit in (0.0, 0.04, 0.11):
        told = with_thresholds(lane, 0, limit, limit)
        assert (told.kept, told.refused, told.own) == ((0,), 1, own_token(round_))
    told = with_thresholds(lane, 0, 0.12, 0.12)
    assert (told.refused, told.own) == (1, None), "refused before the draw, so the next differs"


def test_other_temperatures_are_told_only_where_the_judged_probability_is_not_needed():
    warm = threshold_lane(temperature=0.7)
    assert with_thresholds(warm, 0, 0.0, 0.0).kept == (0, 1, 2, 3)
    raised = with_thresholds(warm, 0, 0.3, 0.3)
    assert (raised.kept, raised.open, raised.chance) == ((), 0, None)
    assert with_thresholds(warm, 1, 0.0, 0.0).open == 1
    assert with_thresholds(warm, 2, 0.9, 0.9).refused == 0


def test_every_length_of_a_recorded_block_agrees_with_the_text_that_followed():
    lengths = longer = 0
    for race in RACES:
        lane, place = race.lanes[2], 0
        if lane.settings.method != "dspark":
            continue
        ids = lane.ids
        for index, round_ in enumerate(lane.rounds):
            text = ids[place : place + len(round_.nodes) + 1]
            for length in range(len(round_.nodes) + 1) if round_.nodes else ():
                told = with_length(lane, index, length)
                drafts = [node.token for node in round_.nodes[:length]]
                same = next((k for k, t in enumerate(drafts) if text[k : k + 1] != (t,)), length)
                if told.open is not None:
                    assert len(text) <= len(told.kept), "open only where the text ends"
                    continue
                assert len(told.kept) == same
                if told.own is not None:
                    assert told.own.token == text[same]
                assert (told.own is None) == (len(text) == same or told.fate is None)
                lengths += 1
                longer += length > round_.scheduled
            place += len(round_.committed)
    assert lengths > 800 and longer > 60


def block(sent: int, accepted: int, **settings) -> tuple:
    """A lane of one round, six drafts, and the round's place."""
    nodes = list(chain([" a", " b", " c", " d", " e", " f"], accepted))
    nodes[sent:] = [replace(n, fate="cut", target_probability=None) for n in nodes[sent:]]
    fate = "bonus" if accepted == sent else "correction"
    round_ = make_round(0, tuple(nodes), taken(tuple(nodes), " x", fate), scheduled=sent)
    lane = replace(tree_lane(), rounds=(round_,), stop_reason="length")
    return replace(lane, settings=Settings("dspark", drafter="dspark", **settings))


def test_sending_less_keeps_no_more_and_the_target_goes_on_by_itself():
    told = with_length(block(4, 3), 0, 2)
    assert (told.kept, told.fate, told.own.text) == ((0, 1), "bonus", " c")
    exactly = with_length(block(4, 3), 0, 3)
    assert (exactly.kept, exactly.fate, exactly.own.text) == ((0, 1, 2), "bonus", " x")
    assert with_length(block(4, 1), 0, 2) == recorded(block(4, 1).rounds[0])
    warm = with_length(block(4, 3, temperature=1.0), 0, 2)
    assert (warm.kept, warm.fate, warm.own) == ((0, 1), "bonus", None)


def test_sending_more_changes_nothing_behind_a_refusal_and_is_open_behind_a_whole_block():
    assert with_length(block(4, 2), 0, 6) == recorded(block(4, 2).rounds[0])
    warm = with_length(block(4, 4, temperature=1.0), 0, 6)
    assert (warm.kept, warm.open, warm.committed) == ((0, 1, 2, 3), 4, None)
    cold = with_length(block(4, 4), 0, 6)
    assert (cold.refused, cold.own.text, cold.fate) == (4, " x", "correction")


def test_a_stop_token_inside_the_draft_ends_the_round_whatever_is_asked():
    nodes = chain([" a", " b", " c"], 2)
    round_ = make_round(0, nodes, taken(nodes), scheduled=3)
    lane = replace(block(3, 2), rounds=(round_,), stop_reason="eos")
    assert with_length(lane, 0, 3).fate is None and with_length(lane, 0, 2).fate is None
    assert with_length(lane, 0, 1).own.text == " b"
    article = threshold_round(0, 2)
    stopped = replace(article, committed=article.committed[:2])
    told = with_thresholds(replace(threshold_lane(), rounds=(stopped,)), 0, 0.0, 0.0)
    assert (told.kept, told.fate, told.open) == ((0, 1), None, None)


@pytest.mark.parametrize("length", [-3, 0, 99])
def test_lengths_out_of_range_are_brought_into_it(length):
    assert with_length(block(4, 2), 0, length) == with_length(
        block(4, 2), 0, max(0, min(length, 6))
    )


def test_what_no_number_decided_is_not_asked():
    assert question(greedy_lane(), 0) is question(tree_lane(), 0) is None
    odd = replace(threshold_round(0, 1), nodes=(
        Node(1, " a", -1, "accepted", threshold=0.2), Node(2, " b", -1, "rejected", threshold=0.2),
    ), scheduled=2)  # fmt: skip
    assert question(replace(threshold_lane(), rounds=(odd,)), 0) is None
    lost = replace(threshold_round(0, 1), nodes=chain([" a"], 1, threshold=0.2), scheduled=1)
    assert question(replace(threshold_lane(), rounds=(lost,)), 0) is None


def test_the_supposed_round_is_drawn_with_its_own_fates_and_limits():
    round_ = threshold_lane().rounds[1]
    drawn = supposed_round(round_, sampled(1, 0.05, 0.05), thresholds=(0.05,) * 4)
    assert [node.fate for node in drawn.nodes] == ["accepted", "cut", "cut", "cut"]
    assert [node.threshold for node in drawn.nodes] == [0.05] * 4
    scored = scored_lane()
    low = supposed_round(scored.rounds[0], with_score_limit(scored, 0, 0.2), accept_threshold=0.2)
    assert low.accept_threshold == 0.2
    assert [node.fate for node in low.nodes[:4]] == ["accepted"] * 4
