"""A small OpenAI-compatible server on loopback that streams a text and counts what it drafted.

It speaks HTTP like any other and pauses between chunks; what it sends is scripted by its fields,
so that each way a server can go wrong can be asked for.
"""

import contextlib
import json
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CHUNKS: tuple[tuple[int, str], ...] = ((1, "Here"), (3, " is the plan"), (2, ":\n"), (4, " go on."))
"""Tokens and text of each chunk."""

VLLM_PAGE = """\
# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{{engine="0",model_name="tiny, big"}} {drafts}.0
vllm:spec_decode_num_draft_tokens_total{{engine="0",model_name="tiny, big"}} {drafted}.0
vllm:spec_decode_num_accepted_tokens_total{{engine="0",model_name="tiny, big"}} {accepted}.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",position="0"}} {first}.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",position="1"}} {second}.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",position="2"}} 0.0
vllm:generation_tokens_total{{engine="0"}} {tokens}.0
vllm:kv_cache_usage_perc{{engine="0"}} NaN
"""
SGLANG_PAGE = """\
sglang:spec_accept_length{{model_name="tiny"}} 9.9
sglang:spec_verify_calls_total{{model_name="tiny"}} {drafts}.0
sglang:generation_tokens_total{{model_name="tiny",is_streaming="true"}} {tokens}.0
sglang:generation_tokens_total{{model_name="tiny",is_streaming="false"}} 70.0
"""


@dataclass(slots=True)
class Script:
    """What the server does. usage: `chunk`, `total` or "" as real servers send counts.

    raw: bytes sent instead of chunks. refuse_fields: 400 where stream_options is asked for.
    others: tokens someone else is given meanwhile. lag: readings for which the counters are late.
    """

    chunks: Sequence[tuple[int, str]] = CHUNKS
    gap: float = 0.002
    status: int = 200
    usage: str = "chunk"
    finish: str = "stop"
    raw: bytes | None = None
    key: str = ""
    refuse_fields: bool = False
    content_type: str = "text/event-stream; charset=utf-8"
    page: str = VLLM_PAGE
    others: int = 0
    lag: int = 0
    hold: float = 0.0
    asked: list[dict] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 100))
    late: dict[str, int] = field(default_factory=dict)
    dropped: threading.Event = field(default_factory=threading.Event)

    def count(self) -> None:
        """What a run of these chunks adds: a draft for every chunk but the first."""
        self.late = dict(self.counts)
        more = [tokens - 1 for tokens, _ in self.chunks[1:]]
        self.counts["drafts"] += len(more)
        self.counts["drafted"] += 3 * len(more)
        self.counts["accepted"] += sum(more)
        self.counts["first"] += sum(kept >= 1 for kept in more)
        self.counts["second"] += sum(kept >= 2 for kept in more)
        self.counts["tokens"] += sum(tokens for tokens, _ in self.chunks) + self.others


COUNTS = ("drafts", "drafted", "accepted", "first", "second", "tokens")


class Handler(BaseHTTPRequestHandler):
    """HTTP/1.1 with chunked transfer, as uvicorn sends streams."""

    protocol_version = "HTTP/1.1"
    script: Script

    def log_message(self, *_: object) -> None:
        """Quiet."""

    def do_GET(self) -> None:
        script = self.script
        if self.path != "/metrics" or not script.page:
            self._answer(404, b"nothing here")
            return
        late = script.lag > 0 and bool(script.late)
        script.lag -= late
        page = script.page.format(**(script.late if late else script.counts))
        self._answer(200, page.encode(), "text/plain; version=0.0.4")

    def do_POST(self) -> None:
        script = self.script
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        script.asked.append(body)
        if script.key and self.headers["Authorization"] != f"Bearer {script.key}":
            self._answer(401, b'{"error": "no such key /secret/path"}')
        elif self.path != "/v1/chat/completions":
            self._answer(404, b"{}")
        elif script.refuse_fields and "stream_options" in body:
            self._answer(400, b'{"error": "unknown field"}')
        elif script.status != 200:
            self._answer(script.status, b"<html>oops</html>")
        else:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self._stream(script)

    def _answer(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, script: Script) -> None:
        self.send_response(200)
        self.send_header("Content-Type", script.content_type)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for data in self._events(script):
                self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
                self.wfile.flush()
                time.sleep(script.gap)
        except (BrokenPipeError, ConnectionResetError):
            script.dropped.set()
            raise
        if script.finish:
            self.wfile.write(b"0\r\n\r\n")
        self.close_connection = True

    def _events(self, script: Script) -> Iterator[bytes]:
        if script.raw is not None:
            yield script.raw
            return
        yield event(
            {"role": "assistant", "content": ""}, tokens=0 if script.usage == "chunk" else None
        )
        tokens = 0
        for more, text in script.chunks:
            tokens += more
            yield event({"content": text}, tokens=tokens if script.usage == "chunk" else None)
        time.sleep(script.hold)
        script.count()
        if script.finish:
            yield event({}, finish=script.finish, tokens=tokens if script.usage else None)
            yield b": a comment\n\ndata: [DONE]\n\n"


def event(delta: dict, finish: str | None = None, tokens: int | None = None) -> bytes:
    """One chunk of a chat completion as a server-sent event."""
    value: dict = {"object": "chat.completion.chunk", "model": "tiny",
                   "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}  # fmt: skip
    if tokens is not None:
        value["usage"] = {"prompt_tokens": 7, "completion_tokens": tokens}
    return b"data: " + json.dumps(value).encode() + b"\n\n"


@contextlib.contextmanager
def serving(script: Script) -> Iterator[str]:
    """The address such a server listens at while the block runs."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Scripted", (Handler,), {"script": script}))
    server.daemon_threads = True
    thread = threading.Thread(target=lambda: server.serve_forever(0.02), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
