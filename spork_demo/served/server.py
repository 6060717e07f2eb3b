"""One server of the Spacefile: where it listens, what it serves, and what is asked of it.

Addresses and keys come from whoever deploys the page, never from a visitor. The key itself stands
in an environment variable and is read when a request is made.
"""

import re
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

from spork_demo.settings import SERVER_NAME_LIMIT, Settings

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Server:
    """An OpenAI-compatible server that can decode a lane.

    base_url: what `/chat/completions` is appended to. metrics_url: its Prometheus page, or "".
    key_variable: the environment variable that holds its key, or "" where it wants none.
    about: for the page: engine, method and machine, as whoever runs it states them.
    same_as: the model pair whose target it serves on the same device, or "": only then is its
        speed set in relation to that of the lanes here.
    """

    name: str
    base_url: str
    model: str
    metrics_url: str = ""
    key_variable: str = ""
    about: str = ""
    same_as: str = ""

    @property
    def completions_url(self) -> str:
        return self.base_url.rstrip("/") + "/chat/completions"


class Table(Protocol):
    """A table of the Spacefile, read key by key."""

    def __contains__(self, key: str) -> bool: ...
    def text(self, key: str) -> str: ...
    def refuse(self, key: str, what: str) -> Exception: ...
    def refuse_leftovers(self) -> None: ...


def read_server(table: Table) -> Server:
    """One `[[served]]` entry, checked; raises what the table raises, naming the key."""
    found = {key: table.text(key) for key in ("name", "base_url", "model")}
    optional = ("metrics_url", "key_variable", "about", "same_as")
    found |= {key: table.text(key) for key in optional if key in table}
    if len(found["name"]) > SERVER_NAME_LIMIT:
        raise table.refuse("name", f"must have at most {SERVER_NAME_LIMIT} characters")
    for key in ("base_url", "metrics_url"):
        if key in found and not _is_address(found[key]):
            raise table.refuse(key, "must be an http or https address without a password or query")
    if "key_variable" in found and not VARIABLE.fullmatch(found["key_variable"]):
        raise table.refuse("key_variable", "must be the name of an environment variable")
    table.refuse_leftovers()
    return Server(**found)


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        port_fits = parts.port is None or parts.port > 0
    except ValueError:
        return False
    bare = not (parts.username or parts.password or parts.query or parts.fragment)
    return parts.scheme in ("http", "https") and bool(parts.hostname) and bare and port_fits


def request_body(server: Server, prompt: str, settings: Settings) -> dict[str, Any]:
    """The chat completion asked for: the run's own knobs, as far as the interface has them.

    Usage with every chunk is vLLM's and SGLang's; servers that do not know it leave it out.
    """
    body: dict[str, Any] = {
        "model": server.model,
        "messages": [{"role": "user", "content": prompt}],
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "max_tokens": settings.max_new_tokens,
        "temperature": 0.0 if settings.greedy else settings.temperature,
        "seed": settings.seed,
    }
    if not settings.greedy:
        body["top_p"] = settings.top_p
        if settings.top_k:
            body["top_k"] = settings.top_k
    return body
