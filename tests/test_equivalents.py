"""Settings as vLLM and transformers take them: the right numbers, and what is lost is said."""

import json
import re
import shlex

import pytest
from transformers import GenerationConfig

from spork_demo.equivalents import equivalents
from spork_demo.settings import Settings
from spork_demo.trace import Provenance

PLACE = Provenance(target="some/target", draft="it's a/draft", dspark="some/dspark_block7")


def both(**settings):
    return equivalents(Settings(**settings), PLACE)


def config_of(equivalent):
    """The JSON of the command line, as a shell would hand it over."""
    words = shlex.split(equivalent.text)
    assert words[:3] == ["vllm", "serve", "some/target"]
    assert words[3] == "--speculative-config"
    return json.loads(words[4])


def test_ngram_chains_match_one_token_less_than_the_order():
    vllm, transformers = both(
        method="speculative", drafter="ngram", draft_length=6, ngram_order=4, max_new_tokens=32
    )
    assert config_of(vllm) == {
        "method": "ngram",
        "num_speculative_tokens": 6,
        "prompt_lookup_min": 1,
        "prompt_lookup_max": 3,
    }
    assert transformers.text == (
        "target.generate(**inputs, max_new_tokens=32, do_sample=False, "
        "prompt_lookup_num_tokens=6, max_matching_ngram_size=3)"
    )
    assert any("counts" in note for note in vllm.notes)


def test_a_draft_model_is_told_its_length_in_its_own_config():
    vllm, transformers = both(
        method="speculative", drafter="draft_model", draft_length=3, temperature=0.7
    )
    assert config_of(vllm) == {
        "method": "draft_model",
        "model": "it's a/draft",
        "num_speculative_tokens": 3,
    }
    first, second, third = transformers.text.split("\n")
    assert '"it\'s a/draft"' in first
    assert second == (
        "draft.generation_config.update(num_assistant_tokens=3, "
        "num_assistant_tokens_schedule='constant', assistant_confidence_threshold=0)"
    )
    assert "do_sample=True, temperature=0.7, top_p=1.0, top_k=0" in third


def test_dspark_asks_vllm_for_adaptive_verification_only_where_ours_schedules_by_cost():
    for schedule, adaptive in (("hardware", True), ("full", False)):
        vllm, transformers = both(
            method="dspark", drafter="dspark", draft_length=7, schedule=schedule
        )
        assert config_of(vllm) == {
            "method": "dspark",
            "model": "some/dspark_block7",
            "num_speculative_tokens": 7,
            "enable_adaptive_verification": adaptive,
        }
        assert transformers.text == ""
        assert transformers.notes == ("transformers has no drafter like this one.",)


def test_forks_say_that_they_are_not_what_is_exported():
    for found in both(method="spork", drafter="ngram", judge="target", fork_depth=4):
        assert "no SPORK forks" in found.notes[0]
        assert "=5" in found.text or '"num_speculative_tokens": 5' in found.text


@pytest.mark.parametrize("drafter", ["recycle", "target"])
def test_drafters_without_a_counterpart_have_none(drafter):
    for found in both(method="spork", drafter=drafter, judge="target"):
        assert found.text == ""
        assert "no drafter like this one" in found.notes[0]


def test_article_rules_have_no_counterpart():
    for found in both(method="speculative", rules="article", drafter="ngram"):
        assert found.text == ""
        assert "article rules have no" in found.notes[0]


@pytest.mark.parametrize("drafter", ["ngram", "draft_model", "early_exit"])
def test_transformers_knows_every_argument(drafter):
    _, found = both(method="speculative", drafter=drafter, temperature=0.5)
    names = set(re.findall(r"(\w+)=", found.text)) - {"assistant_model"}
    config = GenerationConfig()
    assert {name for name in names if not hasattr(config, name)} == set()
    compile(found.text, "snippet", "exec")
