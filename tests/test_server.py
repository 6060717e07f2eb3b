"""Health, metrics, logs and the stop of the whole server, as a process manager sees them."""

import json
import logging
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from spork_demo.host import Status
from spork_demo.observed import ObservedHost
from spork_demo.server import JsonLines, routes
from tests.browser.conftest import free_port
from tests.sample_race import FakeHost

APP = Path(__file__).parent / "browser" / "fake_app.py"


@pytest.mark.parametrize(
    ("status", "state", "code"),
    [
        (Status("Fetching the model."), "loading", 200),
        (Status("Ready.", ready=True), "ready", 200),
        (Status("No pair fits.", failed=True), "failed", 503),
    ],
)
def test_health_says_where_the_server_stands(status, state, code):
    host = FakeHost()
    host.state = status
    registry = CollectorRegistry()
    client = TestClient(Starlette(routes=routes(ObservedHost(host, registry), registry)))
    answer = client.get("/health")
    assert (answer.status_code, answer.json()["state"]) == (code, state)
    assert answer.json()["message"] == status.message


def test_metrics_are_in_the_form_prometheus_reads():
    registry = CollectorRegistry()
    host = ObservedHost(FakeHost(), registry)
    client = TestClient(Starlette(routes=routes(host, registry)))
    text = client.get("/metrics").text
    assert "spork_running 0.0" in text
    assert "process_resident_memory_bytes" in text


@pytest.mark.parametrize("root", ["", "/some/space"])
def test_a_slash_after_a_language_loses_neither_query_nor_root_path(root):
    host = ObservedHost(FakeHost(), CollectorRegistry())
    app = Starlette(routes=[Mount(root, routes=routes(host, CollectorRegistry()))])
    client = TestClient(app, base_url="http://there", follow_redirects=False)
    for asked, led in (("zh/?tab=learn&a=%E4%B8%AD", "zh?tab=learn&a=%E4%B8%AD"), ("zh/", "zh")):
        answer = client.get(f"{root}/{asked}")
        assert answer.status_code == 301
        there = urllib.parse.urljoin(f"http://there{root}/{asked}", answer.headers["location"])
        assert there == f"http://there{root}/{led}"


def test_a_log_line_is_one_json_object_with_its_fields():
    record = logging.makeLogRecord(
        {"name": "spork", "levelname": "INFO", "msg": "run ended", "fields": {"tokens": 7}}
    )
    line = JsonLines().format(record)
    assert "\n" not in line
    said = json.loads(line)
    assert (said["message"], said["tokens"], said["level"]) == ("run ended", 7, "info")


def test_a_log_line_keeps_a_traceback_on_its_line():
    try:
        raise RuntimeError("a bug")
    except RuntimeError:
        record = logging.makeLogRecord({"msg": "failed", "exc_info": sys.exc_info()})
    said = json.loads(JsonLines().format(record))
    assert "RuntimeError: a bug" in said["exception"]


@pytest.fixture
def server():
    port = free_port()
    command = [sys.executable, str(APP), "--port", str(port), "--gap", "0.2", "--observed"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    address = f"http://127.0.0.1:{port}"
    for _ in range(150):
        with suppress(OSError):
            urllib.request.urlopen(f"{address}/health").close()
            break
        time.sleep(0.2)
    yield process, address
    process.kill()


def test_a_server_told_to_end_lets_the_round_end_and_tells_everyone(server):
    process, address = server
    lanes = [{"method": "greedy", "max_new_tokens": 96}]
    jobs = []
    for client in [Client(address, verbose=False) for _ in range(3)]:
        jobs.append(client.submit("Hello", lanes, api_name="/compare"))
        for _ in range(400):
            if len(jobs[-1].outputs()) >= (1 if jobs[1:] else 2):
                break
            time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 0
    last = jobs[0].outputs()[-1]
    assert "The server is stopping" in last["message"]
    assert last["lanes"][0]["text"]
    for waited in jobs[1:]:
        assert waited.outputs()[0]["ahead"] > 0
        with pytest.raises(AppError, match="The server is stopping"):
            waited.result(timeout=5)
    lines = [json.loads(line) for line in errors.splitlines() if line.startswith("{")]
    ended = [line["outcome"] for line in lines if line["message"] == "run ended"]
    assert ended == ["stopped"] * 3
    assert "Hello" not in errors
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"{address}/health")
