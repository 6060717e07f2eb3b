"""Record the races the page opens on: real runs on this machine, written as traces."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from spork_demo import trace_file
from spork_demo.engine import Engine, empty_race, run_lanes
from spork_demo.settings import Settings
from spork_demo.trace import Race, advance

GREEDY = ("Greedy", Settings())
SPORK = ("SPORK, n-gram forks", Settings(method="spork", drafter="ngram"))
DSPARK = ("DSpark", Settings(method="dspark"))
DSPARK_ARTICLE = (
    "DSpark, article",
    Settings(method="dspark", rules="article", drafter="draft_model"),
)
SPORK_ARTICLE = (
    "SPORK, article",
    Settings(
        method="spork", rules="article", drafter="target", judge="early_layers", fork_shape="forks"
    ),
)


@dataclass(frozen=True, slots=True)
class Script:
    """One race to record: file name, title, prompt, lanes."""

    name: str
    title: str
    prompt: str
    lanes: tuple[tuple[str, Settings], ...] = (GREEDY, SPORK, DSPARK)
    max_new_tokens: int = 96


SCRIPTS = (
    Script(
        "1-code",
        "A class with much repetition",
        "Write a Python class Matrix with methods add, subtract, multiply and transpose.",
        max_new_tokens=160,
    ),
    Script(
        "2-article",
        "What article rules cost",
        "List the days of the week and say one short sentence about each.",
        lanes=(GREEDY, SPORK, SPORK_ARTICLE, DSPARK_ARTICLE),
    ),
    Script("3-prose", "Free prose", "Describe a storm at sea at night."),
    Script("4-chinese", "A question in Chinese", "请用中文介绍一下长城。", max_new_tokens=80),
)


def record_races(
    engine: Engine, folder: Path, done: Callable[[Race, Path], None] = lambda _race, _path: None
) -> None:
    """Run every script and replace the traces in `folder`, each file whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    written = set()
    for script in SCRIPTS:
        race = record_race(engine, script)
        path = folder / f"{script.name}.json"
        fresh = path.with_suffix(".new")
        fresh.write_text(trace_file.dumps(race), encoding="utf-8")
        fresh.replace(path)
        written.add(path)
        done(race, path)
    for old in set(folder.glob("*.json")) - written:
        old.unlink()


def record_race(engine: Engine, script: Script) -> Race:
    """Run one script to its end."""
    settings = [
        engine.resolve(dataclasses.replace(lane, max_new_tokens=script.max_new_tokens))
        for _, lane in script.lanes
    ]
    labels = [label for label, _ in script.lanes]
    ids = engine.encode(script.prompt, engine.pair.context_length)
    race = empty_race(engine, script.prompt, settings, labels)
    for news in run_lanes(engine, race, ids):
        race = advance(race, news)
    return dataclasses.replace(race, title=script.title, recorded=True)
