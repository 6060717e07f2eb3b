"""What the server says of itself: whether it is ready, and what it holds."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import httpx

from spork_demo.crowd.page import Page

READY_SECONDS = 300.0
KEPT_OPEN_SECONDS = 2.0
"""The server closes an idle connection after 5 seconds; ours must be gone by then."""

AT_REST = ("spork_running", "spork_events", "spork_generators", "spork_waiting")
"""Gauges that are 0 once everybody has left."""

MEGABYTE = 1_000_000


class NoServerError(Exception):
    """There is no server to visit. The message is one sentence."""


@contextlib.asynccontextmanager
async def client(url: str) -> AsyncIterator[httpx.AsyncClient]:
    """Connections without limit: every open page holds two."""
    limits = httpx.Limits(max_connections=None, keepalive_expiry=KEPT_OPEN_SECONDS)
    async with httpx.AsyncClient(base_url=url, timeout=60, limits=limits) as made:
        yield made


async def page_of(made: httpx.AsyncClient, patience: float = READY_SECONDS) -> Page:
    """The page, once lanes can run live on it. Raises NoServerError."""
    try:
        for _ in range(max(1, round(patience))):
            health = (await made.get("/health")).json()
            if health["state"] in ("ready", "failed"):
                break
            await asyncio.sleep(1)
        if health["state"] != "ready":
            raise NoServerError(f"No lane can run live on that server: {health['message']}")
        return Page.read((await made.get("/config")).json())
    except (httpx.HTTPError, ValueError, KeyError) as error:
        raise NoServerError("There is no server of this program at that address.") from error


async def gauges(made: httpx.AsyncClient) -> dict[str, float]:
    """Gauges of `/metrics` by name; those with labels are summed."""
    found: dict[str, float] = {}
    answer = (await made.get("/metrics")).raise_for_status()
    for line in answer.text.splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            name = name.partition("{")[0]
            found[name] = found.get(name, 0.0) + float(value)
    return found


async def at_rest(made: httpx.AsyncClient, patience: float = 60.0) -> dict[str, float]:
    """The gauges once nothing goes on any more, or as they are after so many seconds."""
    for _ in range(max(1, round(patience))):
        found = await gauges(made)
        if not any(found.get(name) for name in AT_REST):
            break
        await asyncio.sleep(1)
    return found


async def visitors(made: httpx.AsyncClient) -> int:
    """How many visitors' values and files the server keeps."""
    answer = await made.post("/gradio_api/run/settings", json={"data": []})
    return answer.raise_for_status().json()["data"][0]["limits"]["visitors"]


def memory_mb(found: dict[str, float]) -> float:
    """Resident memory."""
    return found.get("process_resident_memory_bytes", 0.0) / MEGABYTE
