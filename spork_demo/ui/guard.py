"""What a request meets before and after a handler: checks that widgets do not make, one sentence.

Left to itself Gradio fetches whatever address stands where a file could, echoes a value it cannot
read, and prints it with a traceback. Here such a request is refused with a sentence, and what a
visitor sent is never logged.
"""

import contextlib
import functools
import inspect
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any

import gradio as gr

from spork_demo.language import ENGLISH, later, say, speaking

LOG = logging.getLogger(__name__)

DEEPEST = 32
"""Lists and objects inside one another; the page's own requests have four."""

FILE_KEYS = {"path", "url", "meta"}
"""Two of these make an object one that Gradio may take for a file."""

MISFIT = later("What was sent does not fit this page; load the page again and retry.")
BROKE = later("The server met an unexpected error; what is on the page is kept.")


class MisfitError(ValueError):
    """A request no page of ours would send."""


def guard(page: gr.Blocks) -> None:
    """Check what is sent to any event of the page before a widget or a handler reads it."""
    process, read = page.process_api, page.preprocess_data

    async def processed(block_fn: Any, *rest: Any, **options: Any) -> Any:
        with speaking(block_fn.page or ENGLISH), _fitting(block_fn):
            _check((), [getattr(options.get("event_data"), "_data", None)])
        return await process(block_fn, *rest, **options)

    async def checked(block_fn: Any, inputs: list[Any], *rest: Any, **options: Any) -> Any:
        with speaking(block_fn.page or ENGLISH), _fitting(block_fn):
            _check(block_fn.inputs, inputs)
            return await read(block_fn, inputs, *rest, **options)

    page.process_api, page.preprocess_data = processed, checked


def answering(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, plain or a generator of either kind: an error nobody foresaw is logged, and one
    sentence to the visitor. Its signature is kept.
    """

    @functools.wraps(function)
    def once(*args: Any, **options: Any) -> Any:
        with _foreseen(function):
            return function(*args, **options)

    @functools.wraps(function)
    def stepwise(*args: Any, **options: Any) -> Iterator[Any]:
        with _foreseen(function):
            yield from function(*args, **options)

    @functools.wraps(function)
    async def awaited(*args: Any, **options: Any) -> AsyncIterator[Any]:
        with _foreseen(function):
            async with contextlib.aclosing(function(*args, **options)) as steps:
                async for step in steps:
                    yield step

    if inspect.isasyncgenfunction(function):
        return awaited
    return stepwise if inspect.isgeneratorfunction(function) else once


def sent(event: gr.EventData, name: str, otherwise: int = 0) -> int:
    """A whole number the browser sent with an event, or `otherwise` where it sent something else.

    The data of an event may be anything, also nothing.
    """
    data = getattr(event, "_data", None)
    value = data.get(name) if isinstance(data, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise


@contextlib.contextmanager
def _fitting(event: Any) -> Iterator[None]:
    """Any error inside is the request's: it is refused, and no word of it is logged."""
    try:
        yield
    except Exception as error:
        told = {"event": event.api_name, "kind": type(error).__name__}
        LOG.warning("a request was refused", extra={"fields": told})
        raise gr.Error(say(MISFIT), print_exception=False) from None


@contextlib.contextmanager
def _foreseen(function: Callable[..., Any]) -> Iterator[None]:
    """Lets through what a handler refuses, and turns any other error into BROKE."""
    try:
        yield
    except gr.Error:
        raise
    except Exception:
        told = {"handler": function.__qualname__}
        LOG.exception("an event met an unexpected error", extra={"fields": told})
        raise gr.Error(say(BROKE), print_exception=False) from None


def _check(widgets: Sequence[gr.blocks.Block], values: Sequence[Any]) -> None:
    """Raises MisfitError where there are too few values or one of them is out of the question."""
    if len(values) < len(widgets):
        raise MisfitError
    for place, value in enumerate(values):
        takes_files = place < len(widgets) and isinstance(widgets[place], gr.UploadButton)
        for item in _objects(value):
            if len(FILE_KEYS & item.keys()) > 1 and not (takes_files and _uploaded(item)):
                raise MisfitError


def _objects(value: Any) -> Iterator[dict[Any, Any]]:
    """Every object in a value, from the outside in."""
    layer, depth = [value], 0
    while layer:
        depth += 1
        if depth > DEEPEST:
            raise MisfitError
        yield from (item for item in layer if isinstance(item, dict))
        layer = [inner for item in layer for inner in _inside(item)]


def _inside(item: Any) -> Iterable[Any]:
    if isinstance(item, dict):
        return item.values()
    return item if isinstance(item, list | tuple) else ()


def _uploaded(item: dict[Any, Any]) -> bool:
    """Whether a file is one on this server, by its path; Gradio checks that it was uploaded."""
    path = item.get("path")
    return isinstance(path, str) and "\0" not in path and "://" not in path
