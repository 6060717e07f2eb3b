"""The typed endpoints as tools of the Model Context Protocol, over HTTP at `/mcp`.

Needs what `deploy/requirements-mcp.txt` names. A call goes to its endpoint over HTTP as any other
program's does, so turns, limits and refusals are those of everybody; when its caller hangs up, the
run ends at its next round.
"""

import contextlib
import inspect
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import httpx
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from spork_demo.settings import CHOICES, KNOBS, SERVED, Settings
from spork_demo.spacefile import Limits
from spork_demo.ui.api import Endpoints
from spork_demo.ui.entry import most_lanes
from spork_demo.ui.turns import waiting_sentence

PATH = "/mcp"
PATIENCE = 60.0
"""Seconds without a sign of life, of which an endpoint gives one every few seconds."""

INSTRUCTIONS = (
    "Race ways of decoding a language model on one prompt and see what each costs. Ask `settings` "
    "first: it names the model pairs, every setting with its range, and the limits. Runs take "
    "turns on one device, so a call may wait. Speedups refer to the first greedy lane of a call; "
    "read them beside `fidelity`."
)
BUSY = "Too many runs are waiting on this server; try again in a minute."
BROKEN = "The call failed on the server; try again."

Answer = dict[str, Any]
Schema = dict[str, Any]


class Refusal(Exception):  # noqa: N818 - reads as the sentence it carries
    """The call cannot run. The message is one sentence for the caller."""


class Tools:
    """The tools, and how they are served.

    address: where the page is, known once it is up. servers: names of those that decode lanes.
    """

    def __init__(
        self, address: Callable[[], str], limits: Limits, servers: tuple[str, ...] = ()
    ) -> None:
        self._address = address
        self._tools = {tool.name: tool for tool in described(limits, servers)}
        self._server = Server("spork_demo", instructions=INSTRUCTIONS)
        self._server.list_tools()(self._list)
        self._server.call_tool(validate_input=False)(self._call)  # endpoints say it better
        self._manager: StreamableHTTPSessionManager | None = None
        logging.getLogger("mcp").setLevel(logging.WARNING)

    @property
    def route(self) -> Route:
        return Route(PATH, _Handler(self))

    @contextlib.asynccontextmanager
    async def lifespan(self, _app: Any) -> AsyncIterator[None]:
        """Serves while entered."""
        self._manager = StreamableHTTPSessionManager(self._server, stateless=True)
        async with self._manager.run():
            yield

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._manager.handle_request(scope, receive, send)

    async def _list(self) -> list[types.Tool]:
        return list(self._tools.values())

    async def _call(self, name: str, arguments: Mapping[str, Any]) -> types.CallToolResult:
        try:
            data = self._data(name, arguments)
            answer: Answer = {}
            async with contextlib.aclosing(answers(self._address(), name, data)) as told:
                async for answer in told:
                    await self._tell(answer)
        except Refusal as refusal:
            return types.CallToolResult(content=[_text(str(refusal))], isError=True)
        return types.CallToolResult(
            content=[_text(json.dumps(answer, ensure_ascii=False))], structuredContent=answer
        )

    def _data(self, name: str, arguments: Mapping[str, Any]) -> list[Any]:
        """What the endpoint takes, in its order."""
        if name not in self._tools:
            raise Refusal(f"There is no tool called {name[:40]!r}.")
        known = self._tools[name].inputSchema["properties"]
        for argument in arguments:
            if argument not in known:
                raise Refusal(f"{name} takes no {argument[:40]!r}; it takes {', '.join(known)}.")
        return [arguments.get(each, schema.get("default")) for each, schema in known.items()]

    async def _tell(self, answer: Answer) -> None:
        """Progress, where the caller asked to hear of it."""
        context = self._server.request_context
        token = context.meta.progressToken if context.meta else None
        if token is None or "done" not in answer or answer["done"]:
            return
        done, total, told = progress(answer)
        await context.session.send_progress_notification(
            token, done, total, told, related_request_id=str(context.request_id)
        )


class _Handler:
    """An ASGI application for a route, which takes functions for something else."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._tools.handle(scope, receive, send)


def described(limits: Limits, servers: tuple[str, ...] = ()) -> list[types.Tool]:
    """The tools as a program reads them, from the docstrings of the endpoints."""
    lane = settings_schema(limits, servers)
    schemas: Mapping[str, Schema] = {
        "prompt": {"type": "string", "maxLength": limits.prompt_characters},
        "prompts": {
            "type": "array",
            "items": {"type": "string", "maxLength": limits.prompt_characters},
            "minItems": 1,
            "maxItems": limits.sweep_prompts,
        },
        "settings": lane,
        "lanes": {"type": "array", "items": lane, "minItems": 1, "maxItems": most_lanes(limits)},
        "axes": {
            "type": "object",
            "additionalProperties": {"type": "array", "minItems": 1},
            "minProperties": 1,
            "maxProperties": 2,
        },
        "repeats": {"type": "integer", "minimum": 1, "maximum": 3},
        "pair": {"type": "string"},
    }
    return [
        _tool(getattr(Endpoints, name), schemas)
        for name in ("settings", "decode", "compare", "sweep")
    ]


def settings_schema(limits: Limits, servers: tuple[str, ...] = ()) -> Schema:
    """One lane's settings: names, kinds, ranges and defaults."""
    found: dict[str, Schema] = {
        name: {"enum": list(values), "default": getattr(Settings(), name)}
        for name, values in CHOICES.items()
    }
    for knob in KNOBS.values():
        found[knob.name] = {
            "type": "integer" if knob.whole else "number",
            "minimum": knob.low,
            "maximum": knob.high,
            "default": knob.default,
            "description": knob.meaning,
        }
    most = min(KNOBS["max_new_tokens"].high, limits.new_tokens)
    found["max_new_tokens"] |= {"maximum": most}
    if servers:
        found["method"]["enum"].append(SERVED)
        found["server"] = {"enum": list(servers), "description": "who decodes a served lane"}
    return {"type": "object", "properties": found, "additionalProperties": False}


def _tool(endpoint: Callable[..., Any], schemas: Mapping[str, Schema]) -> types.Tool:
    text, _, told = inspect.getdoc(endpoint).partition("\n\nArgs:\n")
    meanings = dict(line.strip().split(": ", 1) for line in told.splitlines() if line.strip())
    parameters = list(inspect.signature(endpoint).parameters.values())[1:]
    properties: dict[str, Schema] = {}
    for each in parameters:
        default = {} if each.default is each.empty else {"default": each.default}
        properties[each.name] = schemas[each.name] | {"description": meanings[each.name]} | default
    schema = {
        "type": "object",
        "properties": properties,
        "required": [each.name for each in parameters if each.default is each.empty],
        "additionalProperties": False,
    }
    name = endpoint.__name__
    return types.Tool(
        name=name,
        description=" ".join(text.split()),
        inputSchema=schema,
        annotations=types.ToolAnnotations(
            readOnlyHint=True, openWorldHint=False, idempotentHint=name == "settings"
        ),
    )


def progress(answer: Answer) -> tuple[float, float | None, str]:
    """How far a run is, of how much where that is known, and in words."""
    if "ahead" in answer:
        return 0.0, None, waiting_sentence(answer["ahead"])
    if "share" in answer:
        return answer["share"], 1.0, f"{answer['share']:.0%} of the sweep"
    tokens = sum(lane["tokens"] for lane in answer["lanes"])
    return float(tokens), None, f"{tokens} tokens so far"


async def answers(address: str, name: str, data: list[Any]) -> AsyncIterator[Answer]:
    """What an endpoint answers, one after another. Closing this hangs up, which ends the run."""
    async with httpx.AsyncClient(base_url=address, timeout=PATIENCE, trust_env=False) as client:
        if name == "settings":  # waits for nobody
            answer = await client.post("gradio_api/run/settings", json={"data": data})
            yield _only(answer)["data"][0]
            return
        event = _only(await client.post(f"gradio_api/call/{name}", json={"data": data}))
        place = f"gradio_api/call/{name}/{event['event_id']}"
        async with client.stream("GET", place) as stream:
            kind = ""
            async for line in stream.aiter_lines():
                field, _, value = line.partition(": ")
                kind = value if field == "event" else kind
                if field == "data" and kind == "error":
                    raise Refusal(_sentence(json.loads(value)))
                if field == "data" and kind in ("generating", "complete"):
                    yield json.loads(value)[0]


def _only(answer: httpx.Response) -> dict[str, Any]:
    if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:
        raise Refusal(BUSY)
    if not answer.is_success:
        raise Refusal(BROKEN)
    return answer.json()


def _sentence(told: Any) -> str:
    """An endpoint's refusal; where it has none, that it failed."""
    return (told.get("error") if isinstance(told, dict) else None) or BROKEN


def _text(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)
