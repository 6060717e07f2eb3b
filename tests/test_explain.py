"""Verdicts in words: one round of every method and rule, read against numbers written by hand."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spork_demo.settings import Settings
from spork_demo.trace import Change, Node, Round, Token, Trace
from spork_demo.ui.explain import NO_ROUND, cost_sentence, verdict
from spork_demo.ui.node_story import node_story
from spork_demo.ui.slower import reasons
from tests import handmade_rounds as made

GREEDY = made.greedy_lane()


def lane(settings_: Settings, *rounds: Round, stop: str | None = None) -> Trace:
    return Trace(settings_, "p", "lane", 5, 0.1, rounds, stop)


def chain_lane(accepted: int, settings_: Settings, own: str = " own", **fields) -> Trace:
    nodes = made.chain([" a", " b", " c"], accepted, **fields)
    fate = "bonus" if accepted == 3 else "correction"
    return lane(settings_, made.make_round(0, nodes, made.taken(nodes, own, fate)))


def test_greedy_is_one_call_with_nothing_drafted():
    assert verdict(GREEDY, 0) == (
        "One target call gave «␣the» (p 0.80); nothing was drafted. "
        "It committed 1 token in 40 ms with 1 target call."
    )


def test_greedy_at_a_temperature_says_it_drew():
    drawn = replace(GREEDY, settings=Settings(temperature=0.8))
    assert "drawn at temperature 0.8; nothing was drafted" in verdict(drawn, 0)


def test_exact_tree_names_forks_kept_path_and_correction():
    text = verdict(made.tree_lane(), 0, GREEDY)
    assert text.startswith(
        "The n-gram drafter proposed 7 forks, 12 tokens in all; 11 were sent to be judged and 1 "
        "cut. The target checked them all in one pass against its own most probable tokens and "
        "kept the first 3 tokens of a fork, «␣fox jumps over»; where «␣a» or «␣its» stood it "
        "wrote «␣the» (correction, p 0.61)."
    )
    assert text.endswith("the greedy lane pays 160 ms for as many: 2.91× as fast.")


def test_a_mixed_tree_says_how_much_came_from_where():
    merged = lane(Settings("spork", drafter="merged"), made.mixed_round())
    assert verdict(merged, 0).startswith(
        "All drafters together proposed 7 forks, 12 tokens in all: 4 from the table, 4 from this "
        "text, 3 from recycled tokens, 1 from the DSpark drafter; 11 were sent"
    )
    assert node_story(merged, 0, 2).startswith(
        "«␣cat», drafted token 1 of its fork, recycled: the target thought it likely after this "
        "token earlier in this run (draft probability 0.08,"
    )


@pytest.mark.parametrize(
    ("drafter", "told"), [("recycle", "Token recycling"), ("dspark", "The DSpark drafter")]
)
def test_every_drafter_is_named(drafter, told):
    assert verdict(lane(Settings("spork", drafter=drafter), made.mixed_round()), 0).startswith(told)


def test_exact_chain_kept_whole_ends_in_a_bonus():
    text = verdict(chain_lane(3, Settings("speculative", drafter="draft_model")), 0)
    assert "The draft model proposed a chain of 3 tokens, «␣a b c»." in text
    assert "kept «␣a b c», every drafted token, then added «␣own» (bonus, p 0.61)." in text


def test_exact_chain_refused_at_once_keeps_none():
    text = verdict(chain_lane(0, Settings("speculative", drafter="draft_model")), 0)
    assert "kept none; where «␣a» stood (p 0.95) it wrote «␣own» (correction, p 0.61)." in text


def test_sampled_chain_names_the_ratio_rule_and_sampled_forks_the_draw():
    chained = Settings("speculative", drafter="draft_model", temperature=1.0)
    assert "(a token stays with probability min(1, p/q))" in verdict(chain_lane(1, chained), 0)
    block = Settings("dspark", drafter="dspark", temperature=1.0)
    assert "(a token stays with probability min(1, p/q))" in verdict(chain_lane(1, block), 0)
    forked = Settings("spork", drafter="ngram", temperature=1.0)
    assert "by drawing from its own distribution" in verdict(chain_lane(1, forked), 0)


def test_article_speculative_names_its_rule():
    article = Settings("speculative", "article", drafter="draft_model", temperature=1.0)
    assert "(a token stays when a random number falls below p)" in verdict(
        chain_lane(1, article), 0
    )


def test_article_dspark_gives_the_threshold_that_was_missed():
    text = verdict(made.threshold_lane(), 1)
    assert "(a token needs p above its threshold and a random number below p)" in text
    assert "where «␣is» stood (p 0.12, not above its threshold 0.20) it wrote «␣made»" in text


def test_a_refusal_above_the_threshold_was_the_draws():
    dspark = Settings("dspark", "article", drafter="draft_model", temperature=1.0)
    text = verdict(chain_lane(1, dspark, threshold=0.3), 0)
    assert "stood (p 0.83 passed its threshold 0.30, but the draw did not) it wrote" in text


def test_no_reason_is_claimed_from_probabilities_that_were_not_the_judged_ones():
    for other in ({"temperature": 0.5}, {"temperature": 1.0, "top_p": 0.9}):
        dspark = Settings("dspark", "article", drafter="draft_model", **other)
        text = verdict(chain_lane(1, dspark, threshold=0.9), 0)
        assert "stood (p 0.83) it wrote" in text
    cold = verdict(made.threshold_lane(temperature=0.0), 1)
    assert "threshold" not in cold and "against its own most probable tokens" in cold


def test_a_fork_that_reaches_tau_is_kept_whole_without_the_target():
    text = verdict(made.scored_lane(), 1, GREEDY)
    assert "The target itself proposed 3 forks, 12 tokens in all." in text
    assert "The target's first 28 layers scored every fork; the best, «␣plan is simple:»," in text
    assert "got 0.82, at least τ 0.70, so it was kept whole; the target had no say." in text
    assert "in 190 ms with 4 target calls" in text and "slower, 0.84× its speed" in text


def test_no_fork_reaching_tau_is_a_fallback():
    text = verdict(made.scored_lane(), 0)
    assert (
        "got 0.55, below τ 0.70, so no fork was kept and the target's top-1 token «␣the» was"
        in text
    )
    assert "taken instead (fallback)." in text


@pytest.mark.parametrize(
    ("judge", "told"),
    [
        ("draft_model", "The draft model scored"),
        ("first_token", "The drafter's probability of the first token scored"),
    ],
)
def test_every_score_judge_is_named(judge, told):
    settings_ = Settings("spork", "article", drafter="ngram", judge=judge)
    assert told in verdict(lane(settings_, made.scored_round(0, None, (0.5, 0.4))), 0)


def test_a_round_with_nothing_to_propose_is_a_plain_call():
    text = verdict(made.tree_lane(), 5)
    assert text.startswith(
        "The n-gram drafter had nothing to propose, so one plain target call gave «␣alone»"
    )


def test_a_stop_token_inside_the_draft_leaves_the_target_nothing_to_add():
    nodes = made.chain([" a", ""], 2)
    ended = lane(Settings("speculative"), made.make_round(0, nodes, made.taken(nodes)), stop="eos")
    assert "a stop token inside the draft ended the run, so the target added none" in verdict(
        ended, 0
    )
    cut = replace(ended, stop_reason="length")
    assert "the run reached its limit inside the draft" in verdict(cut, 0)


def test_the_targets_own_stop_token_is_called_one():
    round_ = made.make_round(0, (), (Token(2, "", "plain", 0.9),))
    ended = lane(Settings(), round_, stop="eos")
    assert "gave the stop token «#2» (p 0.90)" in verdict(ended, 0)


def test_the_greedy_lane_is_not_compared_with_itself():
    assert "pays" not in cost_sentence(GREEDY, 0, GREEDY)


@pytest.mark.parametrize(
    ("method", "change", "told"),
    [
        (
            "spork",
            Change("misses", 3, 2),
            "Too many of the last rounds kept no draft: from here on rounds draft at most 3 forks "
            "of 2 tokens.",
        ),
        (
            "speculative",
            Change("streak", 1, 5),
            "The last rounds kept a fork whole: from here on rounds draft at most 5 tokens.",
        ),
        (
            "dspark",
            Change("memory", 1, 0),
            "Memory did not suffice, and the round was done again with less: from here on rounds "
            "draft nothing.",
        ),
    ],
)
def test_a_change_of_size_is_told_with_its_cause(method, change, told):
    nodes = made.chain([" a", " b", " c"], 1)
    round_ = made.make_round(0, nodes, made.taken(nodes, " own", "correction"))
    text = verdict(lane(Settings(method), replace(round_, change=change)), 0)
    assert told in text


def test_markup_stays_literal_and_breaks_are_made_visible():
    text = verdict(made.hostile_lane(), 0)
    assert "«<img src=x onerror=alert(1)>»" in text
    assert "\n" not in verdict(GREEDY, 5) and "«⏎»" in verdict(GREEDY, 5)


def test_a_round_that_is_not_there_says_so():
    for place in (-1, 99):
        assert verdict(GREEDY, place) == cost_sentence(GREEDY, place) == NO_ROUND
        assert node_story(GREEDY, place, 0) == NO_ROUND


def test_stories_of_a_tree_tell_why_each_token_fared_as_it_did():
    def story(node: int) -> str:
        return node_story(made.tree_lane(), 0, node)

    told = "«␣jumps», drafted token 2 of its fork, from n-gram counts (draft probability 0.66,"
    assert story(3).startswith(told)
    assert story(0).endswith("Accepted: the target kept it and every token before it.")
    assert story(1).endswith("Rejected: the target went on with «␣fox» at this place.")
    assert "a token before it in its fork was not kept" in story(5)
    assert story(9).endswith("the target did not take it (p 0.11) and wrote «␣the» instead.")
    assert story(11).endswith("Cut: it was drafted but not sent to be judged.")
    assert "the correction, the target's own token" in story(12)
    assert story(-1).startswith("The anchor: the last committed token.")


def test_stories_of_scored_forks_give_their_score():
    fell = made.scored_lane()
    assert "its fork scored 0.55, which stayed below τ 0.70" in node_story(fell, 0, 3)
    assert "had the best score and reached τ" in node_story(fell, 1, 0)
    both = lane(fell.settings, made.scored_round(0, 0, (0.9, 0.8)))
    assert "reached τ but another fork scored higher" in node_story(both, 0, 7)


def test_a_target_that_drafts_its_own_forks_is_told_it_cannot_win():
    told = reasons(made.scored_lane(), GREEDY)
    assert told[0] == (
        "A round costs 190 ms, as much as 4.75 greedy tokens, but commits only 3.00."
    )
    assert "This variant cannot beat greedy." in told[1]
    assert "Drafting takes 84% of the time, 160 ms a round" in told[2]


def test_a_faster_lane_and_the_greedy_lane_need_no_reasons():
    assert reasons(made.tree_lane(), GREEDY) == ()
    assert reasons(GREEDY, GREEDY) == reasons(made.scored_lane(), None) == ()


def test_fallbacks_and_empty_drafts_are_given_as_reasons():
    article = made.scored_lane().settings
    fell = lane(article, *(made.scored_round(i, None, (0.1,)) for i in range(4)))
    assert any("In 4 of 4 rounds no fork reached τ" in reason for reason in reasons(fell, GREEDY))
    bare = made.make_round(0, (), (Token(1, "x", "bonus"),))
    idle = lane(Settings("spork", drafter="ngram"), bare)
    assert any("In 1 of 1 rounds the drafter had nothing" in told for told in reasons(idle, GREEDY))


share = st.none() | st.floats(0, 1)
text = st.text(alphabet="ab <&\n水", max_size=4)
drafted_token = st.tuples(
    text, st.sampled_from(["accepted", "rejected", "cut"]), share, st.integers(-1, 8)
)
METHODS = [(m, r) for m in ("speculative", "spork", "dspark") for r in ("exact", "article")]


@settings(max_examples=80, deadline=None)
@given(
    st.lists(drafted_token, max_size=9),
    st.sampled_from(METHODS),
    st.floats(0, 2),
    st.integers(-3, 12),
)
def test_any_round_of_any_method_is_told_in_whole_sentences(drafted, method, temperature, picked):
    nodes = tuple(
        Node(index, text, min(parent, index - 1), fate, p, p, p, p)
        for index, (text, fate, p, parent) in enumerate(drafted)
    )
    round_ = made.make_round(0, nodes, made.taken(nodes, "x", "correction"))
    trace = lane(Settings(*method, temperature=temperature), round_)
    for told in (verdict(trace, 0, GREEDY), node_story(trace, 0, picked)):
        assert told.endswith(".") and ".." not in told and "None" not in told
