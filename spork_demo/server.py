"""What stands around the page on a server: health and metrics, logs, a stop that loses nothing."""

import datetime
import json
import logging
import signal
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    ProcessCollector,
    generate_latest,
)
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from spork_demo.language import ENGLISH, LANGUAGES
from spork_demo.line import Line
from spork_demo.observed import ObservedHost

PATIENCE = 20.0
"""Seconds the rounds that go on may take to end once the server stops."""

FAREWELL = 5.0
"""Seconds within which all who wait are told."""

LAST_WORD = 0.5
"""Seconds for the last sentence to be sent."""

logger = logging.getLogger(__name__)


class Page(Protocol):
    """What is served: a gr.Blocks, which this file need not know."""

    def launch(self, **options: Any) -> Any: ...

    def close(self) -> None: ...


class JsonLines(logging.Formatter):
    """One JSON object a record: time, level, logger, message, and the fields it was given.

    ASCII only, so that a line is one line and can be written wherever it goes.
    """

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        line: dict[str, Any] = {
            "time": moment.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=repr)


def log_json_lines() -> None:
    """Log to standard error, a JSON object a line."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # gradio asks itself at every start


def routes(host: ObservedHost, registry: CollectorRegistry) -> list[Route]:
    """`/health`: 200 while the server is of use, 503 when it stops or no model can run; `/metrics`
    for Prometheus; and each language's path with a slash after it.
    """
    ProcessCollector(registry=registry)

    def health(_request: Request) -> Response:
        status = host.status()
        state = "loading"
        if host.stopping:
            state = "stopping"
        elif status.ready or status.failed:
            state = "ready" if status.ready else "failed"
        code = 503 if state in ("stopping", "failed") else 200
        said = {"state": state, "message": status.message, "running": host.running}
        return JSONResponse(said, status_code=code)

    def metrics(_request: Request) -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    slashed = [Route(f"/{code}/", unslashed) for code in LANGUAGES if code != ENGLISH]
    return [Route("/health", health), Route("/metrics", metrics), *slashed]


def unslashed(request: Request) -> Response:
    """To the same path without its last slash, the query kept; relative, for any root path."""
    name = request.url.path.rstrip("/").rsplit("/", 1)[-1]
    return RedirectResponse(f"../{name}?{request.url.query}".rstrip("?"), 301)


def serve(page: Page, host: ObservedHost, options: dict[str, Any], line: Line) -> None:
    """Launch and stay until told to end; then let the rounds that go on end, tell whoever waits
    in `line`, and close.
    """
    told = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: told.set())
    page.launch(prevent_thread_lock=True, **options)
    told.wait()
    if hasattr(signal, "alarm"):
        signal.alarm(0)  # Ray's handler of the same signal aborts the process after 3 seconds
    stop(host, page.close, line)


def stop(host: ObservedHost, close: Callable[[], None], line: Line) -> None:
    """End what runs at its next round, log what did not end, close.

    Whoever waits is called then, refused by the host with a sentence, and heard before the end.
    """
    logger.info("stopping", extra={"fields": {"running": host.running}})
    if not host.stop(PATIENCE):
        logger.warning("a run did not end in time", extra={"fields": {"running": host.running}})
    end = time.monotonic() + FAREWELL
    while not line.empty and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(LAST_WORD)
    close()
