"""The prompts the target answers to make training text: our own, many templates times topics.

Held-out prompts are built from topics of their own, so that what is measured on them was never
counted.
"""

import random
import string
import tomllib
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("prompts.toml")
HELD_OUT_EVERY = 5
"""Of each list of topics every fifth entry belongs to the held-out prompts alone."""
LANGUAGES = ("Python", "Python", "Python", "JavaScript", "Java", "C", "Go", "TypeScript", "SQL")
NUMBERS = {"a": (3, 40), "b": (2, 30), "c": (2, 12), "d": (50, 400), "e": (2, 9)}
TRIES = 50


def training_prompts(count: int, seed: int) -> list[str]:
    """Up to `count` different prompts, the same for the same seed."""
    return _prompts(count, seed, held_out=False)


def held_out_prompts(count: int, seed: int) -> list[str]:
    """Up to `count` different prompts over topics that no training prompt has."""
    return _prompts(count, seed, held_out=True)


def _prompts(count: int, seed: int, *, held_out: bool) -> list[str]:
    source = tomllib.loads(SOURCE.read_text(encoding="utf-8"))
    topics = {
        name: [e for n, e in enumerate(entries) if (n % HELD_OUT_EVERY == 0) is held_out]
        for name, entries in source["topics"].items()
    }
    kinds = [[t for t in kind["templates"] if _names_topic(t, topics)] for kind in source["kinds"]]
    shares = [kind["share"] for kind in source["kinds"]]
    generator = random.Random(seed)
    seen: dict[str, None] = {}
    for _ in range(TRIES * count):
        if len(seen) == count:
            break
        (templates,) = generator.choices(kinds, shares)
        seen[_fill(generator.choice(templates), topics, generator)] = None
    return list(seen)


def _names_topic(template: str, topics: dict[str, list[str]]) -> bool:
    """Whether a template holds a topic; without one it could not be held out."""
    fields = {field for _, field, _, _ in string.Formatter().parse(template) if field}
    return any(field.rstrip("2") in topics for field in fields)


def _fill(template: str, topics: dict[str, list[str]], generator: random.Random) -> str:
    values: dict[str, Any] = {name: generator.randint(*ends) for name, ends in NUMBERS.items()}
    for name, entries in topics.items():
        values[name], values[f"{name}2"] = generator.sample(entries, 2)
    return template.format(language=generator.choice(LANGUAGES), **values)
