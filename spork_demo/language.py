"""What the product says, in the language it is read in.

English sentences stand in the code, where they are used; `catalogue/<language>/*.json` maps each
to its translation. Both may hold named places in braces: `say("{count} rounds", count=3)`.
"""

import contextlib
import functools
import inspect
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)

LANGUAGES = {"en": "English", "zh": "中文"}
"""Code, as in a link and in the lang attribute, to the language's own name."""

ENGLISH = "en"
CATALOGUE = Path(__file__).parent / "catalogue"
_current: ContextVar[str] = ContextVar("language", default=ENGLISH)


class Filled(str):
    """A finished English sentence that remembers what it was made of."""

    template: str
    values: dict[str, Any]

    def __str__(self) -> str:
        return self  # so that str(error) still knows


def say(text: str, /, **values: Any) -> str:
    """`text`, an English sentence, in the current language, its places filled in.

    A sentence the catalogue lacks stays English; a test keeps that from happening.
    """
    if isinstance(text, Filled):
        values = {n: known(v) if isinstance(v, str) else v for n, v in text.values.items()}
        text = text.template
    told = text if current() == ENGLISH else _translated(text, current())
    return told.format(**values) if values else told


def later(text: str, /, **values: Any) -> str:
    """Marks an English sentence that is translated when it is shown, with `say`.

    For tables, and with `values` for what is said where nobody knows yet who will read it; a value
    may be such a sentence itself.
    """
    if not values:
        return text
    filled = Filled(text.format(**values))
    filled.template, filled.values = text, values
    return filled


def known(text: str) -> str:
    """`text` in the current language if it is a sentence of ours, else as it is.

    For titles and names that may be ours or a stranger's.
    """
    if isinstance(text, Filled):
        return say(text)
    return text if current() == ENGLISH else catalogue(current()).get(text, text)


def current() -> str:
    """The language of whatever runs now."""
    return _current.get()


@contextlib.contextmanager
def speaking(language: str) -> Iterator[None]:
    """Everything said inside is said in `language`. Raises ValueError for one we do not have."""
    if language not in LANGUAGES:
        raise ValueError(f"There is no catalogue for {language!r}.")
    token = _current.set(language)
    try:
        yield
    finally:
        _current.reset(token)


def spoken(language: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, plain or a generator of either kind, always speaking `language`; its signature
    is kept.
    """

    @functools.wraps(function)
    def once(*args: Any, **options: Any) -> Any:
        with speaking(language):
            return function(*args, **options)

    @functools.wraps(function)
    def stepwise(*args: Any, **options: Any) -> Iterator[Any]:
        # Each step may run in another thread, so the language is set for a step at a time.
        with contextlib.closing(function(*args, **options)) as steps:
            while True:
                with speaking(language):
                    try:
                        step = next(steps)
                    except StopIteration:
                        return
                yield step

    @functools.wraps(function)
    async def awaited(*args: Any, **options: Any) -> AsyncIterator[Any]:
        async with contextlib.aclosing(function(*args, **options)) as steps:
            while True:
                with speaking(language):
                    try:
                        step = await anext(steps)
                    except StopAsyncIteration:
                        return
                yield step

    if inspect.isasyncgenfunction(function):
        return awaited
    return stepwise if inspect.isgeneratorfunction(function) else once


@functools.cache
def catalogue(language: str) -> dict[str, str]:
    """English sentence to its translation. Raises ValueError where two files hold one sentence."""
    found: dict[str, str] = {}
    for file in sorted((CATALOGUE / language).glob("*.json")):
        part = json.loads(file.read_text(encoding="utf-8"))
        twice = found.keys() & part.keys()
        if twice:
            raise ValueError(f"{file.name} translates again: {sorted(twice)[0]!r}")
        found |= part
    return found


@functools.cache
def _translated(text: str, language: str) -> str:
    told = catalogue(language).get(text)
    if told is None:
        missing(text, language)
    return text if told is None else told


def missing(text: str, language: str) -> None:
    """What happens where a sentence has no translation. Tests replace it."""
    logger.warning("nothing in %s for %r", language, text)
