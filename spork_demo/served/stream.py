"""A completion as it arrives, timed there: in a thread of its own, off every other clock.

The clock starts when the request is sent, so connecting, the network and the server's own queue
are on it. Events that arrive together are one arrival. Closing the stream closes the connection,
at whatever point it is.
"""

import asyncio
import contextlib
import logging
import os
import queue
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx

from spork_demo.served.counters import Reading, read_page, tokens_counted
from spork_demo.served.events import EventReader, MalformedError, RefusedInStreamError
from spork_demo.served.server import Server

LOG = logging.getLogger(__name__)

CONNECT_SECONDS = 10.0
SILENCE_SECONDS = 60.0
"""Longest wait for the next bytes of a stream that has not ended."""

METRICS_SECONDS = 5.0
METRICS_BYTES = 8_000_000
SETTLING_SECONDS = 2.0
"""Longest wait until a server's counters hold the tokens it has just sent."""

SETTLING_STEP = 0.2
STREAM_BYTES = 16_000_000
SURPLUS = 64
"""Pieces or tokens a server may send beyond the tokens it was asked for."""

REFUSES_FIELDS = (400, 422)
STATUS_KINDS = {401: "key", 403: "key", 404: "unknown", 429: "busy", 503: "busy"} | dict.fromkeys(
    REFUSES_FIELDS, "refused"
)

FAILURES = (
    (TimeoutError, "slow"),
    (httpx.ReadTimeout, "silent"),
    ((MalformedError, httpx.DecodingError), "malformed"),
    (RefusedInStreamError, "inside"),
    ((httpx.ConnectError, httpx.ConnectTimeout), "unreachable"),
    (httpx.HTTPError, "broken"),
)


class ServedError(Exception):
    """The stream could not be had, or not to its end. `kind` says why in a word."""

    def __init__(self, kind: str, status: int = 0) -> None:
        super().__init__(kind)
        self.kind = kind
        self.status = status


@dataclass(frozen=True, slots=True)
class Arrival:
    """What arrived together. seconds: since the request was sent. pieces: events with text.

    tokens: completion tokens so far, prompt_tokens, where the server said. finish: why it ended.
    """

    seconds: float
    text: str = ""
    pieces: int = 0
    tokens: int | None = None
    prompt_tokens: int | None = None
    finish: str = ""


@dataclass(frozen=True, slots=True)
class End:
    """The stream is over. before, after: the server's counters, None where they were not read."""

    before: Reading | None = None
    after: Reading | None = None


class Stream:
    """One completion being read by a thread of its own. `next` hands over what has arrived."""

    def __init__(self, server: Server, body: dict[str, Any], seconds: float) -> None:
        self._server = server
        self._body = body
        self._seconds = seconds
        self._arrived: queue.SimpleQueue[Arrival | End | ServedError] = queue.SimpleQueue()
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Task[None] | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="served-lane", daemon=True)
        self._thread.start()

    def next(self, timeout: float) -> Arrival | End | None:
        """The next arrival or the end; None when nothing came in `timeout` seconds.

        Raises ServedError where the stream failed.
        """
        try:
            item = self._arrived.get(timeout=timeout)
        except queue.Empty:
            return None
        if isinstance(item, ServedError):
            raise item
        return item

    def close(self) -> None:
        """Close the connection and wait until that is done."""
        self._closed.set()
        with contextlib.suppress(RuntimeError):  # the thread has just ended, and its loop with it
            self._loop.call_soon_threadsafe(self._cancel)
        self._thread.join(CONNECT_SECONDS)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._guarded())
        finally:
            self._loop.close()

    async def _guarded(self) -> None:
        """Read all of it; whatever goes wrong becomes a ServedError in the queue."""
        self._task = asyncio.current_task()
        if self._closed.is_set():
            return
        try:
            async with asyncio.timeout(self._seconds):
                await self._read()
        except asyncio.CancelledError:
            return
        except ServedError as error:
            self._arrived.put(error)
        except Exception as error:
            kind = next(
                (kind for kinds, kind in FAILURES if isinstance(error, kinds)), "unexpected"
            )
            if kind == "unexpected":
                LOG.exception("a served lane failed")
            self._arrived.put(ServedError(kind))

    async def _read(self) -> None:
        timeout = httpx.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS)
        headers = {"Accept-Encoding": "identity"}
        if self._server.key_variable:
            headers["Authorization"] = f"Bearer {self._key()}"
        # Only the address of the Spacefile is spoken to: no redirects, no proxies of the machine's.
        async with httpx.AsyncClient(
            timeout=timeout, headers=headers, trust_env=False, follow_redirects=False
        ) as client:
            before = await self._reading(client)
            tokens = None
            async for arrival in self._arrivals(client):
                tokens = arrival.tokens if arrival.tokens is not None else tokens
                self._arrived.put(arrival)
            after = None if before is None else await self._settled(client, before, tokens)
        self._arrived.put(End(before, after))

    def _key(self) -> str:
        key = os.environ.get(self._server.key_variable, "").strip()
        if not key or not key.isascii() or not key.isprintable():
            raise ServedError("no_key")
        return key

    async def _arrivals(self, client: httpx.AsyncClient) -> AsyncIterator[Arrival]:
        """What the server sends, asked once more in plainer words where it refuses a field."""
        plain = {key: value for key, value in self._body.items() if key != "stream_options"}
        for body in (self._body, plain):
            begun = time.perf_counter()
            url = self._server.completions_url
            async with client.stream("POST", url, json=body) as response:
                if response.status_code in REFUSES_FIELDS and body is not plain:
                    continue
                if response.status_code != httpx.codes.OK:
                    kind = STATUS_KINDS.get(response.status_code, "status")
                    raise ServedError(kind, response.status_code)
                if "text/event-stream" not in response.headers.get("content-type", ""):
                    raise ServedError("malformed")
                async for arrival in self._timed(response, begun):
                    yield arrival
            return

    async def _timed(self, response: httpx.Response, begun: float) -> AsyncIterator[Arrival]:
        events, size, pieces, finish = EventReader(), 0, 0, ""
        async for received in response.aiter_bytes():
            seconds = time.perf_counter() - begun
            size += len(received)
            chunks = list(events.feed(received))
            arrival = Arrival(
                seconds,
                "".join(chunk.text for chunk in chunks),
                sum(bool(chunk.text) for chunk in chunks),
                max((c.tokens for c in chunks if c.tokens is not None), default=None),
                max((c.prompt_tokens for c in chunks if c.prompt_tokens is not None), default=None),
                next((chunk.finish for chunk in chunks if chunk.finish), ""),
            )
            pieces += arrival.pieces
            finish = finish or arrival.finish
            counted = max(pieces, arrival.tokens or 0)
            if size > STREAM_BYTES or counted > self._body["max_tokens"] + SURPLUS:
                raise ServedError("huge")
            yield arrival
            if any(chunk.done for chunk in chunks):
                break
        if not finish:
            raise ServedError("broken")

    async def _reading(self, client: httpx.AsyncClient) -> Reading | None:
        """The server's counters now; None where it has no such page or the page fails."""
        if not self._server.metrics_url:
            return None
        page = b""
        try:
            async with client.stream(
                "GET", self._server.metrics_url, timeout=METRICS_SECONDS
            ) as response:
                if response.status_code != httpx.codes.OK:
                    return None
                async for received in response.aiter_bytes():
                    page += received
                    if len(page) > METRICS_BYTES:
                        return None
        except httpx.HTTPError:
            return None
        return read_page(page.decode("utf-8", "replace"))

    async def _settled(
        self, client: httpx.AsyncClient, before: Reading, tokens: int | None
    ) -> Reading | None:
        """The counters once they hold the tokens of this run: they come a moment later."""
        begun = time.perf_counter()
        while True:
            after = await self._reading(client)
            grown = None if after is None else tokens_counted(before, after)
            settled = grown is None or tokens is None or grown >= tokens
            if settled or time.perf_counter() - begun > SETTLING_SECONDS:
                return after
            await asyncio.sleep(SETTLING_STEP)
