"""One visitor's browser, without a screen: it sends what the page's script would send.

It keeps what the widgets hold, answers an event with those that follow it, keeps the two streams
open that tell the server a page is there, and times every light event.
"""

import asyncio
import contextlib
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
from gradio_client.utils import apply_diff

from spork_demo.crowd.page import Event, Page

API = "/gradio_api"
SILENCE = 180.0
"""Seconds without a word after which a run counts as lost."""

Noted = Callable[[str, float], None]
"""Told the name of a light event and its seconds."""


class ServerFaultError(Exception):
    """The server did not do what a page may expect of it."""


@dataclass(slots=True)
class Frame:
    """One step of a queued event: the outputs it has so far. over: nothing more will come."""

    values: list[Any]
    over: bool = False


class Browser:
    """A page opened by one visitor. Closing it is closing the tab."""

    def __init__(self, client: httpx.AsyncClient, page: Page, noted: Noted) -> None:
        self._client, self._page, self._noted = client, page, noted
        self._values: dict[int, Any] = {}
        self._session = secrets.token_hex(6)
        self._heart: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Fetch the page and do what it does on arrival."""
        begun = time.perf_counter()
        (await self._client.get("/")).raise_for_status()
        self._noted("open the page", time.perf_counter() - begun)
        self._heart = asyncio.create_task(self._beat())
        for event in self._page.at_opening():
            await self.send(event.name)

    async def close(self) -> None:
        """The tab is closed: its streams end, wherever the server is."""
        if self._heart is not None:
            self._heart.cancel()
            await asyncio.gather(self._heart, return_exceptions=True)

    def fill(self, widget: str, value: Any) -> None:
        """Put a value into a widget, by its name on the page."""
        self._values[self._page.places[widget]] = value

    def held(self, widget: str) -> Any:
        """What a widget holds."""
        return self._held(self._page.places[widget])

    async def send(self, name: str) -> None:
        """A light event, timed, and those that follow."""
        event = self._page.events[name]
        begun = time.perf_counter()
        answer = await self._client.post(f"{API}/run/predict", json=self._body(event))
        self._noted(name, time.perf_counter() - begun)
        if answer.status_code != 200:
            raise ServerFaultError(f"{name}: status {answer.status_code}")
        self._take(event, answer.json()["data"])
        await self.follow(event)

    async def follow(self, event: Event) -> None:
        """What the browser sends once `event` is over."""
        for each in self._page.after(event):
            await self.send(each.name)

    @contextlib.asynccontextmanager
    async def run(self, name: str) -> AsyncIterator["Run"]:
        """A queued event. Leaving the context closes its stream, as closing the tab does."""
        event = self._page.events[name]
        joined = await self._client.post(f"{API}/queue/join", json=self._body(event))
        if joined.status_code != 200:
            raise ServerFaultError(f"{name}: status {joined.status_code}")
        number = joined.json()["event_id"]
        params = {"session_hash": self._session}
        async with self._client.stream(
            "GET", f"{API}/queue/data", params=params, timeout=httpx.Timeout(30, read=SILENCE)
        ) as stream:
            yield Run(self, event, number, stream.aiter_lines())

    async def stop(self, run: "Run") -> None:
        """The Stop button: cancel on the server; the page then sends what follows the run."""
        body = {
            "session_hash": self._session, "fn_index": run.event.number, "event_id": run.number
        }  # fmt: skip
        (await self._client.post(f"{API}/cancel", json=body, timeout=SILENCE)).raise_for_status()

    def take(self, event: Event, values: list[Any]) -> None:
        """The outputs of a queued event have come."""
        self._take(event, values)

    def _body(self, event: Event) -> dict[str, Any]:
        return {
            "data": [self._held(number) for number in event.inputs],
            "event_data": None,
            "fn_index": event.number,
            "session_hash": self._session,
        }

    def _held(self, number: int) -> Any:
        if number in self._page.states:
            return None
        return self._values.get(number, self._page.values[number])

    def _take(self, event: Event, values: list[Any]) -> None:
        for number, value in zip(event.outputs, values, strict=False):
            if isinstance(value, dict) and value.get("__type__") == "update":
                if "value" not in value:
                    continue
                value = value["value"]
            self._values[number] = value

    async def _beat(self) -> None:
        path = f"{API}/heartbeat/{self._session}"
        with contextlib.suppress(httpx.HTTPError):
            async with self._client.stream("GET", path, timeout=None) as stream:
                async for _ in stream.aiter_lines():
                    pass


class Run:
    """A queued event that goes on."""

    def __init__(
        self, browser: Browser, event: Event, number: str, lines: AsyncIterator[str]
    ) -> None:
        self._browser, self.event, self.number = browser, event, number
        self._lines = lines
        self._values: list[Any] | None = None

    async def frames(self) -> AsyncIterator[Frame]:
        """Its outputs as they grow, the last ones marked."""
        async for line in self._lines:
            if not line.startswith("data:"):
                continue
            message = json.loads(line[5:])
            kind = message["msg"]
            if kind in ("process_generating", "process_completed"):
                frame = self._taken(message, over=kind == "process_completed")
                self._browser.take(self.event, frame.values)
                yield frame
                if frame.over:
                    return
            elif kind == "unexpected_error":
                raise ServerFaultError(f"{self.event.name}: {message.get('message')}")
        raise ServerFaultError(f"{self.event.name}: its stream ended before it did")

    def _taken(self, message: Mapping[str, Any], *, over: bool) -> Frame:
        if not message["success"]:
            raise ServerFaultError(f"{self.event.name}: {message['output'].get('error')}")
        data = message["output"].get("data")
        if data is None:  # it was stopped
            return Frame(self._values or [], over)
        if self._values is None or over:
            self._values = list(data)
        else:
            self._values = [apply_diff(*pair) for pair in zip(self._values, data, strict=True)]
        return Frame(self._values, over)
