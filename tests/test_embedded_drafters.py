"""The drafters in assets/, beside the model they were trained for.

A drafter that is loaded or fed wrongly fails silently: the target corrects whatever it says. So
it is not enough that the ids are greedy's; what it was trained for must be seen to happen.
"""

import dataclasses
import json
from pathlib import Path

import pytest

from spork_demo.engine import Engine
from spork_demo.metrics import measure
from spork_demo.models.pair import load_pair
from spork_demo.settings import Settings
from spork_demo.spacefile import ModelRef, read_spacefile
from spork_demo.trace import Trace, fold

ROOT = Path(__file__).resolve().parents[1]
ASSETS = ROOT / "assets"
LARGEST, ALL_TOGETHER = 10_000_000, 50_000_000
PROMPTS = (
    "Explain photosynthesis to a beginner.",
    "Write a Python function that reverses a string.",
)
NEW = 48

LANES = {
    "n-gram forks": (Settings(method="spork", drafter="ngram"), 1.6),
    "recycled forks": (Settings(method="spork", drafter="recycle"), 1.05),
    "DSpark forks": (Settings(method="spork", drafter="dspark"), 1.5),
    "merged forks": (Settings(method="spork", drafter="merged"), 1.8),
    "DSpark, whole blocks": (Settings(method="dspark", drafter="dspark", schedule="full"), 1.4),
    "DSpark, scheduled": (Settings(method="dspark", schedule="hardware"), 1.4),
    "student": (Settings(method="speculative", drafter="draft_model"), 1.3),
}


@pytest.fixture(scope="module")
def pair_engine(embedded_folder) -> Engine:
    spec = read_spacefile(ROOT / "Spacefile").pairs[0]
    target = ModelRef("folder", str(embedded_folder))
    return Engine(load_pair(dataclasses.replace(spec, target=target), device="cpu"))


def run(engine: Engine, settings: Settings, prompt: str) -> Trace:
    settings = engine.resolve(dataclasses.replace(settings, max_new_tokens=NEW))
    ids = engine.encode(prompt, engine.pair.context_length)
    return fold(Trace(settings, prompt), engine.lane(settings, ids).events())


@pytest.fixture(scope="module")
def greedy(pair_engine) -> list[tuple[int, ...]]:
    return [run(pair_engine, Settings(), prompt).ids for prompt in PROMPTS]


@pytest.mark.parametrize("name", LANES)
def test_every_drafter_is_exact_and_of_use(pair_engine, greedy, name):
    settings, least = LANES[name]
    traces = [run(pair_engine, settings, prompt) for prompt in PROMPTS]
    assert [trace.ids for trace in traces] == greedy
    figures = [measure(trace) for trace in traces]
    accepted_length = sum(f.committed for f in figures) / sum(f.rounds for f in figures)
    assert accepted_length > least


def test_defaults_use_what_was_made_for_this_model(pair_engine):
    chosen = {
        method: pair_engine.resolve(Settings(method=method)).drafter
        for method in ("spork", "dspark", "speculative")
    }
    assert chosen == {"spork": "ngram", "dspark": "merged", "speculative": "ngram"}


def test_a_scheduled_block_tells_why(pair_engine):
    trace = run(pair_engine, Settings(method="dspark", schedule="hardware"), PROMPTS[0])
    scheduled = [round_ for round_ in trace.rounds if round_.scheduling]
    assert len(scheduled) > 5
    for round_ in scheduled:
        assert all(0 < node.confidence < 1 and 0 < node.raw_confidence < 1 for node in round_.nodes)
        assert len(round_.scheduling.call_seconds) == len(round_.nodes) + 1
    assert any(node.fate == "cut" for round_ in scheduled for node in round_.nodes)
    sources = {node.source for round_ in trace.rounds for node in round_.nodes}
    assert {"dspark", "table"} <= sources


def test_artefacts_fit_into_a_repository_and_name_no_machine():
    files = [
        path
        for folder in ("dspark", "student", "ngram")
        for path in (ASSETS / folder).rglob("*")
        if path.is_file()
    ]
    sizes = [path.stat().st_size for path in files]
    assert max(sizes) < LARGEST
    assert sum(sizes) < ALL_TOGETHER
    for folder in ("dspark", "student"):
        config = json.loads(
            (ASSETS / folder / f"smollm2-135m-{folder}" / "config.json").read_text()
        )
        assert not any(key.startswith("_") for key in config)
        assert config["training"]["answer_tokens"] > 100_000
        assert (ASSETS / folder / "README.md").is_file()
