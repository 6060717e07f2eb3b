"""What requests meet before the page: doors of Gradio's that nothing here uses, and a size limit.

Behind those doors the server would fetch any address for anybody, write files no limit counts, or
run tools of its own. A plain ASGI layer, so that streams pass through it untouched.
"""

import logging
import re

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOG = logging.getLogger(__name__)

BODY_BYTES = 4_000_000
"""What a request may bring that uploads no file; the longest prompts take a quarter."""

FORM_BYTES = 100_000
"""What a form may hold around the file it uploads."""

CLOSED = re.compile(
    r"/gradio_api/(?:file[=/]\s*[a-z][a-z0-9+.-]*:/"  # an address instead of a file
    r"|proxy=|deep_link|component_server|custom_component|process_recording|stream/"
    r"|vibe|undo-vibe|run-history|runs\b|profiling|dev/)"
    r"|/monitoring\b|/login\b|/logout\b|/svelte/",
    re.IGNORECASE,
)
UPLOAD = "/gradio_api/upload"

GONE = {"detail": "There is nothing at this address."}
HUGE = {"detail": "The request is larger than this page takes."}
BROKE = {"detail": "The server met an unexpected error."}


NOSNIFF = {"x-content-type-options": "nosniff"}
"""A browser takes an answer for what it says it is."""


class TooLargeError(Exception):
    """A body that went on beyond its limit."""


class Gate:
    """`app` behind the gate. upload_bytes: of one request that brings files."""

    def __init__(self, app: ASGIApp, upload_bytes: int) -> None:
        self._app = app
        self._upload_bytes = upload_bytes + FORM_BYTES

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif CLOSED.search(scope["path"]):
            await _said(GONE, 404)(scope, receive, send)
        elif _declared(scope) > self._limit(scope):
            await _said(HUGE, 413)(scope, receive, send)
        else:
            await self._pass(scope, receive, send)

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request on, count its bytes, and answer what nobody else did."""
        passage = _Passage(receive, send, self._limit(scope))
        answer = None
        try:
            await self._app(scope, passage.receive, passage.send)
        except ClientDisconnect:
            return
        except Exception as error:
            if not passage.huge:
                LOG.exception("a request failed", extra={"fields": {"kind": type(error).__name__}})
            answer = _said(BROKE, 500)
        if passage.huge:
            answer = _said(HUGE, 413)
        if answer is not None and not passage.answered:
            await answer(scope, receive, send)

    def _limit(self, scope: Scope) -> int:
        return self._upload_bytes if scope["path"].rstrip("/").endswith(UPLOAD) else BODY_BYTES


class _Passage:
    """One request on its way in and its answer on its way out."""

    def __init__(self, receive: Receive, send: Send, limit: int) -> None:
        self._receive, self._send, self._left = receive, send, limit
        self.huge = False
        self.answered = False

    async def receive(self) -> Message:
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            self.huge = True
            raise TooLargeError
        return message

    async def send(self, message: Message) -> None:
        if self.huge and not self.answered:  # the app answers a broken body; the gate says why
            return
        self.answered = True
        if message["type"] == "http.response.start":
            headers = [*message.get("headers", ()), *Headers(NOSNIFF).raw]
            message = {**message, "headers": headers}
        await self._send(message)


def _said(words: dict[str, str], status: int) -> JSONResponse:
    return JSONResponse(words, status, NOSNIFF)


def _declared(scope: Scope) -> int:
    """The size the request says it has; 0 where it does not."""
    said = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
    return int(said) if said.isdigit() and len(said) < 20 else 0
