"""A server-sent event stream of a chat completion, from bytes to text, token counts and the end.

Everything here comes from another machine: sizes are bounded and shapes checked, and what does not
fit is a MalformedError.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

LINE_LIMIT = 1_000_000
"""Bytes of one line; a chunk is a few hundred."""

DONE = "[DONE]"


class MalformedError(ValueError):
    """The stream is not that of a chat completion."""


class RefusedInStreamError(ValueError):
    """The server reported an error inside the stream."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one event said. tokens: completion tokens so far, prompt_tokens: of the prompt; None
    where the event does not say. finish: why the text ended, "" while it goes on.
    """

    text: str = ""
    tokens: int | None = None
    prompt_tokens: int | None = None
    finish: str = ""
    done: bool = False


class EventReader:
    """Bytes in, in whatever portions they arrive; whole events out."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[str] = []

    def feed(self, received: bytes) -> Iterator[Chunk]:
        """The events that `received` completes."""
        self._rest += received
        *lines, self._rest = self._rest.split(b"\n")
        if max(len(self._rest), *(len(line) for line in lines), 0) > LINE_LIMIT:
            raise MalformedError("a line is too long")
        for line in lines:
            yield from self._line(line.rstrip(b"\r"))

    def _line(self, line: bytes) -> Iterator[Chunk]:
        if line.startswith(b"data:"):
            try:
                self._data.append(line[5:].decode("utf-8").removeprefix(" "))
            except UnicodeDecodeError as error:
                raise MalformedError("not UTF-8") from error
        elif not line and self._data:
            data, self._data = "\n".join(self._data), []
            yield read_chunk(data)
        # Comments and other fields mean nothing here.


def read_chunk(data: str) -> Chunk:
    """One event's data as a Chunk."""
    if data.strip() == DONE:
        return Chunk(done=True)
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise MalformedError("not JSON") from error
    if not isinstance(value, dict):
        raise MalformedError("not an object")
    if value.get("error"):
        raise RefusedInStreamError("the server reported an error")
    choice = _first_choice(value)
    delta = choice.get("delta") or {}
    if not isinstance(delta, dict):
        raise MalformedError("delta is not an object")
    usage = value.get("usage") or {}
    if not isinstance(usage, dict):
        raise MalformedError("usage is not an object")
    # Thinking comes apart from the answer, under one name, or the same under both.
    thought = _text(delta.get("reasoning_content")) or _text(delta.get("reasoning"))
    return Chunk(
        text=thought + _text(delta.get("content")),
        tokens=_count(usage.get("completion_tokens")),
        prompt_tokens=_count(usage.get("prompt_tokens")),
        finish=_text(choice.get("finish_reason"))[:40],
    )


def _first_choice(value: dict[str, Any]) -> dict[str, Any]:
    choices = value.get("choices")
    if choices is None and "usage" in value:
        return {}
    if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
        raise MalformedError("choices is not a list of objects")
    return choices[0] if choices else {}


def _text(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise MalformedError("text is not text")
    return value.encode("utf-8", "replace").decode()  # lone surrogates have no bytes


def _count(value: Any) -> int | None:
    if value is None:
        return None
    if type(value) is not int or not 0 <= value < 2**31:
        raise MalformedError("a count is not one")
    return value
