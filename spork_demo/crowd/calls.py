"""One call of the API, as a program makes it, and whether its answer is its own."""

import json
import time
from typing import Any

import httpx

from spork_demo.crowd.browser import API, SILENCE, ServerFaultError
from spork_demo.crowd.races import NEW_TOKENS, Outcome

GREEDY = {"method": "greedy", "max_new_tokens": NEW_TOKENS}


async def decode(
    client: httpx.AsyncClient, prompt: str, alone: tuple[int, ...] | None = None
) -> Outcome:
    """Ask for the greedy text. alone: what it must be, where that is known."""
    begun = time.perf_counter()
    asked = await client.post(f"{API}/call/decode", json={"data": [prompt, GREEDY, ""]})
    if asked.status_code != 200:
        raise ServerFaultError(f"decode: status {asked.status_code}")
    first = ahead = None
    path = f"{API}/call/decode/{asked.json()['event_id']}"
    async with client.stream("GET", path, timeout=httpx.Timeout(30, read=SILENCE)) as stream:
        kind = ""
        async for line in stream.aiter_lines():
            if line.startswith("event:"):
                kind = line[6:].strip()
            if not line.startswith("data:") or kind == "heartbeat":
                continue
            first = first or time.perf_counter() - begun
            said = json.loads(line[5:])
            if kind in ("complete", "error"):
                break
            ahead = ahead if ahead is not None else said[0].get("ahead")
        else:
            raise ServerFaultError("decode: its stream ended before it did")
    seconds = time.perf_counter() - begun
    if kind == "error":
        text = said.get("error") if isinstance(said, dict) else said
        outcome = "busy" if "device is busy" in str(text) else "refused"
        return Outcome(outcome, seconds, first, ahead, "" if outcome == "busy" else str(text))
    return _answered(said[0], seconds, first, ahead, alone)


def _answered(
    answer: dict[str, Any],
    seconds: float,
    first: float | None,
    ahead: int | None,
    alone: tuple[int, ...] | None,
) -> Outcome:
    (lane,) = answer["lanes"]
    ids = tuple(lane["ids"])
    wrong = "a call got other tokens than greedy writes alone" if alone not in (None, ids) else ""
    rate = lane["metrics"]["committed"] / seconds
    return Outcome("finished", seconds, first, ahead, wrong, rate, ids)
