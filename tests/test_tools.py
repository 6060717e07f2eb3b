"""The endpoints as tools of the Model Context Protocol, asked by its own client over HTTP."""

import asyncio
import dataclasses
import json
import re
import sys
import time

import pytest

import app
from spork_demo.deploy.check import MCP, check
from spork_demo.deploy.hardware import MACHINES
from spork_demo.deploy.upload import stage
from spork_demo.settings import CHOICES, KNOBS
from tests.launched import launched
from tests.missing import missing
from tests.sample_race import LIMITS, FakeHost
from tests.test_architecture import ROOT
from tests.test_runtime import SPACEFILE

try:
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    from spork_demo.tools import Tools, described, progress
except ImportError:
    ClientSession = None

GREEDY = {"prompt": "Hello", "settings": {"max_new_tokens": 12}}


@pytest.fixture(scope="module", autouse=True)
def installed():
    if ClientSession is None:
        missing("mcp is not installed")


@pytest.fixture(scope="module")
def server():
    """Host and address of a page whose endpoints are tools."""
    host = FakeHost(gap=0.02)
    with launched(host, tools=lambda address: Tools(address, LIMITS)) as page:
        yield host, f"{page.local_url}mcp"


def asked(address, question):
    """What `question(session)` finds out over a connection of its own."""

    async def ask():
        async with (
            streamable_http_client(address) as (read, write, *_),
            ClientSession(read, write) as session,
        ):
            await session.initialize()
            return await question(session)

    return asyncio.run(ask())


def called(address, name, arguments, **options):
    return asked(address, lambda session: session.call_tool(name, arguments, **options))


def test_only_the_documented_endpoints_are_tools_with_typed_arguments(server):
    tools = {tool.name: tool for tool in asked(server[1], lambda s: s.list_tools()).tools}
    assert list(tools) == ["settings", "decode", "compare", "sweep"]
    for tool in tools.values():
        assert len(tool.description) > 60
        assert all(each["description"] for each in tool.inputSchema["properties"].values())
    assert tools["settings"].inputSchema["properties"] == {}
    assert tools["compare"].inputSchema["required"] == ["prompt", "lanes"]
    lane = tools["decode"].inputSchema["properties"]["settings"]
    assert set(lane["properties"]) == {*KNOBS, *CHOICES}
    width, most = lane["properties"]["fork_width"], lane["properties"]["max_new_tokens"]
    assert (width["type"], width["minimum"], width["maximum"]) == ("integer", 1, 16)
    assert most["maximum"] == LIMITS.new_tokens
    assert lane["properties"]["method"]["enum"] == list(CHOICES["method"])
    assert tools["sweep"].inputSchema["properties"]["repeats"]["default"] == 1


def test_servers_that_decode_lanes_are_named():
    decode = next(tool for tool in described(LIMITS, ("vLLM",)) if tool.name == "decode")
    lane = decode.inputSchema["properties"]["settings"]["properties"]
    assert lane["server"]["enum"] == ["vLLM"]
    assert lane["method"]["enum"][-1] == "served"


def test_settings_tell_pairs_and_limits(server):
    result = called(server[1], "settings", {})
    assert not result.isError
    assert result.structuredContent == json.loads(result.content[0].text)
    assert result.structuredContent["limits"]["new_tokens"] == LIMITS.new_tokens


def test_a_race_tells_how_far_it_is_and_ends_with_its_figures(server):
    heard = []

    async def hear(done, total, said):
        heard.append((done, said))

    lanes = [{"max_new_tokens": 24}, {"method": "spork", "max_new_tokens": 24}]
    arguments = {"prompt": "Hello", "lanes": lanes}
    result = called(server[1], "compare", arguments, progress_callback=hear)
    greedy, spork = result.structuredContent["lanes"]
    assert (greedy["speedup"], greedy["tokens"], spork["tokens"]) == (None, 24, 24)
    assert spork["speedup"] > 0
    assert spork["fidelity"]["equal_tokens"] == 1.0
    assert heard
    assert [done for done, _ in heard] == sorted(done for done, _ in heard)
    assert all(said == f"{done:.0f} tokens so far" for done, said in heard)


def test_who_waits_is_told_how_many_are_ahead():
    assert progress({"done": False, "ahead": 2, "cells": []})[2].startswith("Waiting for the dev")


def test_a_sweep_names_its_best_setting(server):
    settings = {"method": "speculative", "max_new_tokens": 8}
    arguments = {"prompts": ["Hello"], "settings": settings, "axes": {"draft_length": [2, 4]}}
    found = called(server[1], "sweep", arguments).structuredContent
    assert [cell["draft_length"] for cell in found["cells"]] == [2, 4]
    assert found["best_exact"]["draft_length"] in (2, 4)


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("decode", {"prompt": " ", "settings": {}}, "Write a prompt first."),
        ("decode", {"settings": {}}, "Write a prompt first."),
        ("decode", {"prompt": "a", "settings": {"fork_width": 99}}, "between 1 and 16"),
        ("decode", {"prompt": "a", "settings": "greedy"}, "Settings are an object"),
        ("decode", GREEDY | {"pair": "<img onerror>"}, "no such model pair"),
        ("decode", {"prompt": "a", "setting": {}}, "takes no 'setting'; it takes prompt, settings"),
        ("compare", {"prompt": "a"}, "1 to 4 lanes"),
        ("sweep", {"prompts": ["a"], "settings": {"method": "spork"}}, "object of lists"),
        ("race", {}, "no tool called 'race'"),
    ],
)
def test_what_cannot_run_is_refused_in_the_words_of_the_page(server, name, arguments, said):
    host, address = server
    before = len(host.asked)
    result = called(address, name, arguments)
    assert result.isError
    assert said in result.content[0].text
    assert len(host.asked) == before


def test_a_caller_that_hangs_up_frees_the_device(server):
    host, address = server

    async def hang_up(session):
        endless = {"prompt": "hung up", "settings": {"max_new_tokens": 128}}
        call = asyncio.create_task(session.call_tool("decode", endless))
        while not any(prompt == "hung up" for prompt, *_ in host.asked):
            await asyncio.sleep(0.01)
        call.cancel()

    asked(address, hang_up)
    deadline = time.monotonic() + 10
    while "hung up" not in host.closed and time.monotonic() < deadline:
        time.sleep(0.02)
    assert "hung up" in host.closed
    assert not called(address, "decode", GREEDY).isError


def test_a_full_queue_and_a_fault_are_sentences(server):
    host, address = server

    async def crowd(session):
        calls = [session.call_tool("decode", GREEDY) for _ in range(LIMITS.queue_calls + 4)]
        return await asyncio.gather(*calls)

    refused = [result for result in asked(address, crowd) if result.isError]
    assert refused
    assert all("device is busy" in result.content[0].text for result in refused)
    host.break_after = 1
    try:
        result = called(address, "decode", GREEDY)
    finally:
        host.break_after = None
    assert "failed on the server" in result.content[0].text
    assert "secret" not in result.content[0].text


def test_without_the_package_the_start_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "spork_demo.tools", None)
    with pytest.raises(SystemExit, match=r"pip install -r spork_demo/deploy/requirements-mcp.txt"):
        app.tools(SPACEFILE, lambda: "")


def test_a_space_that_asks_for_tools_is_given_what_they_need(tmp_path):
    asking = dataclasses.replace(SPACEFILE, pairs=SPACEFILE.pairs[:2], mcp=True)
    for folder, wanted in (("with", asking), ("without", dataclasses.replace(asking, mcp=False))):
        (tmp_path / folder).mkdir()
        stage(ROOT, tmp_path / folder, wanted, MACHINES["cpu-basic"], "cpu-basic")
    text = (tmp_path / "with" / "requirements.txt").read_text(encoding="utf-8")
    (pin,) = re.findall(r"^mcp==.+$", MCP.read_text(encoding="utf-8"), re.MULTILINE)
    assert pin in text.splitlines()
    assert "mcp==" not in (tmp_path / "without" / "requirements.txt").read_text(encoding="utf-8")
    assert check(ROOT, asking, "cpu-basic").wrong == []
