"""The Spacefile: ours is valid, and whatever is wrong with one is said with the key's name."""

import dataclasses
from pathlib import Path

import pytest

from spork_demo.settings import Settings, resolve
from spork_demo.spacefile import (
    Hardware,
    ModelRef,
    PairSpec,
    Preset,
    SpacefileError,
    parse_spacefile,
    read_spacefile,
)

ROOT = Path(__file__).parent.parent
OURS = (ROOT / "Spacefile").read_text(encoding="utf-8")

SMALL = """
spork_demo = 1
[hardware]
profile = "t4-small"
python = "3.12"
gradio = "6.31.0"
[limits]
prompt_characters = 100
prompt_tokens = 50
new_tokens = 20
fork_nodes = 8
lanes = 2
seconds_per_run = 10
queue_races = 3
queue_sweeps = 1
queue_calibrations = 1
queue_lessons = 2
queue_calls = 4
upload_mb = 1
visitors = 5
sweep_cells = 9
sweep_prompts = 2
sweep_seconds = 30
[[pairs]]
name = "mine"
target = { source = "hub", id = "someone/big", revision = "abc" }
draft = { source = "folder", id = "models/small" }
dtype = "bfloat16"
device_map = "auto"
memory_gb = 3
licence = "MIT"
languages = ["en", "zh"]
needs = "gpu"
[[presets]]
name = "plain"
method = "greedy"
"""


def refusal(old: str, new: str) -> str:
    assert SMALL.count(old) == 1
    with pytest.raises(SpacefileError) as caught:
        parse_spacefile(SMALL.replace(old, new))
    sentence = str(caught.value)
    assert sentence.endswith(".") and "\n" not in sentence
    return sentence


def test_tools_are_offered_only_where_the_file_says_so():
    assert not parse_spacefile(SMALL).mcp
    assert parse_spacefile(SMALL.replace("spork_demo = 1", "spork_demo = 1\nmcp = true")).mcp
    assert "mcp in the Spacefile" in refusal("spork_demo = 1", 'spork_demo = 1\nmcp = "yes"')


def test_every_part_of_a_small_file_is_read():
    spacefile = parse_spacefile(SMALL)
    assert spacefile.hardware == Hardware("t4-small", "3.12", "6.31.0")
    assert spacefile.limits.prompt_characters == 100
    assert spacefile.limits.visitors == 5
    assert spacefile.limits.queues == dict(races=3, sweeps=1, calibrations=1, lessons=2, calls=4)
    assert spacefile.pairs == (
        PairSpec(
            name="mine",
            target=ModelRef("hub", "someone/big", "abc"),
            draft=ModelRef("folder", "models/small"),
            dtype="bfloat16",
            device_map="auto",
            memory_gb=3.0,
            licence="MIT",
            languages=("en", "zh"),
            needs="gpu",
        ),
    )
    assert spacefile.presets == (Preset("plain", "greedy", "exact", "auto", "auto"),)


def test_model_folders_are_taken_relative_to_the_file(tmp_path):
    (tmp_path / "Spacefile").write_text(SMALL, encoding="utf-8")
    (pair,) = read_spacefile(tmp_path / "Spacefile").pairs
    assert pair.draft.id == str(tmp_path / "models" / "small")
    assert pair.target.id == "someone/big"


def test_our_file_offers_the_embedded_model_first_and_both_gpu_pairs():
    first, half, eighth, *others = read_spacefile(ROOT / "Spacefile").pairs
    assert (first.target.source, first.needs, first.dtype) == ("embedded", "cpu", "auto")
    for pair, dtype in ((half, "bfloat16"), (eighth, "int8")):
        same = {"name": first.name, "dtype": "auto", "about": first.about}
        assert dataclasses.replace(pair, **same, memory_gb=first.memory_gb) == first
        assert pair.dtype == dtype
        assert "equal tokens" in pair.about  # what the narrower weights cost
    assert [(pair.target.id, pair.draft.id, pair.needs) for pair in others] == [
        ("Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct", "gpu"),
        ("Qwen/Qwen3-4B", "Qwen/Qwen3-0.6B", "gpu"),
    ]


def test_our_file_says_first_that_it_is_ours():
    lines = [line for line in OURS.splitlines() if line and not line.startswith("#")]
    assert lines[0] == "spork_demo = 1"
    assert "nothing to do" in OURS.split("spork_demo = 1")[0]


def test_our_file_and_requirements_name_the_same_gradio():
    version = parse_spacefile(OURS).hardware.gradio
    requirements = (ROOT / "requirements.txt").read_text().splitlines()
    assert f"gradio=={version}" in requirements


@pytest.mark.parametrize("preset", parse_spacefile(OURS).presets, ids=lambda preset: preset.name)
def test_our_presets_are_settings_that_some_pair_can_run(preset):
    settings = Settings(
        method=preset.method, rules=preset.rules, drafter=preset.drafter, judge=preset.judge
    )
    resolved = resolve(settings, has_draft_model=True, has_dspark=True, layers=30)
    assert resolved.method == preset.method


@pytest.mark.parametrize(
    ("where", "old"),
    [
        ("colour", "spork_demo = 1"),
        ("hardware.colour", '[hardware]\nprofile = "t4-small"'),
        ("limits.colour", "[limits]\nprompt_characters = 100"),
        ("pairs[0].colour", 'name = "mine"'),
        ("presets[0].colour", 'name = "plain"'),
    ],
)
def test_unknown_keys_are_refused_at_every_level(where, old):
    sentence = refusal(old, f'{old}\ncolour = "red"')
    assert sentence == f"{where} in the Spacefile is not a key this version knows."


def test_unknown_keys_of_a_model_are_refused():
    assert "pairs[0].draft.size" in refusal('id = "models/small"', 'id = "models/small", size = 1')


def test_a_revision_is_only_for_the_hub():
    assert "pairs[0].draft.revision" in refusal('id = "models/small"', 'id = "m", revision = "x"')


@pytest.mark.parametrize(
    ("old", "where"),
    [
        ("spork_demo = 1", "spork_demo"),
        ("visitors = 5", "limits.visitors"),
        ('python = "3.12"', "hardware.python"),
        ('licence = "MIT"', "pairs[0].licence"),
        ('id = "models/small"', "pairs[0].draft.id"),
        ('method = "greedy"', "presets[0].method"),
    ],
)
def test_missing_keys_are_named(old, where):
    new = "" if not old.startswith("id") else 'revision = "x"'
    assert refusal(old, new) == f"{where} in the Spacefile is missing."


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("spork_demo = 1", "spork_demo = 2", "spork_demo"),
        ("spork_demo = 1", "spork_demo = true", "spork_demo"),
        ("queue_races = 3", "queue_races = 0", "limits.queue_races"),
        ("queue_races = 3", "queue_races = 1.5", "limits.queue_races"),
        ("queue_races = 3", 'queue_races = "3"', "limits.queue_races"),
        ("queue_races = 3", "queue_races = true", "limits.queue_races"),
        ("fork_nodes = 8", "fork_nodes = 87380", "limits.fork_nodes"),
        ("memory_gb = 3", "memory_gb = nan", "pairs[0].memory_gb"),
        ("memory_gb = 3", "memory_gb = -1", "pairs[0].memory_gb"),
        ("memory_gb = 3", "memory_gb = false", "pairs[0].memory_gb"),
        ('"bfloat16"', '"int7"', "pairs[0].dtype"),
        ('device_map = "auto"', 'device_map = "cuda"', "pairs[0].device_map"),
        ('needs = "gpu"', 'needs = ["gpu"]', "pairs[0].needs"),
        ('["en", "zh"]', '"en"', "pairs[0].languages"),
        ('["en", "zh"]', '["en", 1]', "pairs[0].languages"),
        ('name = "mine"', 'name = " "', "pairs[0].name"),
        ('source = "hub"', 'source = "web"', "pairs[0].target.source"),
        ('{ source = "folder", id = "models/small" }', '"models/small"', "pairs[0].draft"),
        ('method = "greedy"', 'method = "beam"', "presets[0].method"),
        ('method = "greedy"', 'method = "greedy"\njudge = "me"', "presets[0].judge"),
        ("[[presets]]", "[presets]", "presets"),
        ("[hardware]", "[[hardware]]", "hardware"),
    ],
)
def test_wrong_types_and_values_out_of_range_are_named(old, new, where):
    assert refusal(old, new).startswith(f"{where} in the Spacefile must be ")


def test_a_file_without_pairs_is_refused():
    start, end = SMALL.index("[[pairs]]"), SMALL.index("[[presets]]")
    with pytest.raises(SpacefileError, match=r"^pairs in the Spacefile is missing\.$"):
        parse_spacefile(SMALL[:start] + SMALL[end:])


def test_two_pairs_of_one_name_are_refused():
    pair = SMALL[SMALL.index("[[pairs]]") : SMALL.index("[[presets]]")]
    with pytest.raises(SpacefileError, match="holds the name 'mine' twice"):
        parse_spacefile(SMALL + pair)


def test_text_that_is_not_toml_is_refused_with_its_line():
    with pytest.raises(SpacefileError, match="not valid TOML: .*line 1"):
        parse_spacefile("spork_demo: 1")


def test_a_missing_or_binary_file_is_refused(tmp_path):
    with pytest.raises(SpacefileError, match="missing or cannot be read"):
        read_spacefile(tmp_path / "Spacefile")
    (tmp_path / "Spacefile").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpacefileError, match="missing or cannot be read"):
        read_spacefile(tmp_path / "Spacefile")
