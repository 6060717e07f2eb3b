"""The server's addresses as a stranger may ask for them: nothing is read, fetched or let slip."""

import asyncio
import json
import logging
from pathlib import Path

import gradio as gr
import pytest
from gradio.routes import App
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from spork_demo import gate
from spork_demo.gate import Gate
from spork_demo.observed import ObservedHost
from spork_demo.server import routes
from tests.hostile import FILES, ROOT, TEXTS, among, cases, insides, texts, values
from tests.launched import launched
from tests.sample_race import FakeHost, sample_race

NOBODYS = ("/etc/passwd", "/proc/self/environ", str(ROOT / "Spacefile"), str(ROOT / "app.py"))


@pytest.fixture(scope="module")
def client():
    """The page as app.py serves it, asked in this process."""
    registry = CollectorRegistry()
    host = ObservedHost(FakeHost(), registry)
    served = launched(host, races=[sample_race(tokens=3)], routes=routes(host, registry))
    with (
        served as page,
        TestClient(page.app, base_url=page.local_url, raise_server_exceptions=False) as found,
    ):
        found.page = page
        yield found


def check(answer) -> None:
    assert insides(answer.text) == [], answer.url
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", NOBODYS)
@pytest.mark.parametrize(
    "address",
    ["/gradio_api/file={}", "/gradio_api/file/{}", "/file={}", "/static/{}", "/assets/{}",
     "/gradio_api/file=../../..{}", "/gradio_api/file=%2e%2e%2f{}", "/static/..%2f..%2f..{}"],
)  # fmt: skip
def test_no_file_of_the_server_is_given_out(client, address, path):
    answer = client.get(address.format(path))
    assert answer.status_code in (403, 404)
    assert "root:" not in answer.text
    assert "spork_demo" not in answer.text.replace(path, "")


@pytest.mark.parametrize(
    "path",
    [
        *("/gradio_api/file=http://127.0.0.1:1/", "/gradio_api/file=https://example.com/x"),
        *("/gradio_api/file=HTTPS://example.com/", "/gradio_api/file=%20http://127.0.0.1/"),
        *("/gradio_api/file/http://127.0.0.1:1/", "/gradio_api/proxy=http://127.0.0.1:1/"),
        *("/gradio_api/deep_link?session_hash=x", "/gradio_api/vibe-code/", "/monitoring"),
        *("/monitoring/summary", "/gradio_api/runs", "/gradio_api/run-history/buckets"),
        *("/gradio_api/stream/a/b/1/playlist.m3u8", "/gradio_api/custom_component/a/client/b/c"),
        *("/gradio_api/dev/reload", "/login", "/svelte/x"),
    ],
)  # fmt: skip
def test_doors_that_nothing_uses_are_closed(client, monkeypatch, path):
    async def fetching(*_asked):
        pytest.fail("an address was fetched")

    monkeypatch.setattr("gradio.routes.secure_url_stream_response", fetching)
    answer = client.get(path)
    assert (answer.status_code, answer.json()) == (404, gate.GONE)


@pytest.mark.parametrize("path", ["component_server", "process_recording", "vibe-edit", "stream/x"])
def test_doors_that_take_something_are_closed_too(client, path):
    assert client.post(f"/gradio_api/{path}", json={}).status_code == 404


def test_everything_the_page_needs_is_open(client):
    for path in ("/", "/zh", "/config", "/theme.css", "/health", "/metrics", "/gradio_api/info"):
        answer = client.get(path)
        assert answer.status_code == 200, path
    assert client.get("/gradio_api/startup-events").status_code == 200
    posted = client.post("/gradio_api/run/settings", json={"data": []})
    assert posted.json()["data"][0]["knobs"]


@pytest.mark.parametrize("length", [True, False], ids=["declared", "chunked"])
def test_a_request_beyond_all_measure_is_not_read(client, length):
    body = b'{"data": ["' + b"x" * gate.BODY_BYTES + b'"]}'
    parts = body if length else (body[at : at + 100_000] for at in range(0, len(body), 100_000))
    headers = {"content-type": "application/json"}
    answer = client.post("/gradio_api/run/settings", content=parts, headers=headers)
    assert (answer.status_code, answer.json()) == (413, gate.HUGE)


def test_an_upload_has_its_own_limit_all_files_together(client):
    half = b"x" * 1_200_000
    assert client.post("/gradio_api/upload", files={"files": ("a.json", half)}).status_code == 200
    files = [("files", (f"{n}.json", half)) for n in range(2)]
    answer = client.post("/gradio_api/upload", files=files)
    assert answer.status_code == 413


@pytest.mark.parametrize("name", [t for t in TEXTS if 0 < len(t) < 300] + ["../" * 40 + "x.json"])
def test_an_uploaded_file_lands_in_the_upload_folder_whatever_its_name(client, name):
    name = name.encode("utf-8", "replace").decode()
    answer = client.post("/gradio_api/upload", files={"files": (name, b"<script>1</script>")})
    check(answer)
    if answer.status_code == 200:
        folder = Path(gr.utils.get_upload_folder()).resolve()
        (path,) = answer.json()
        assert folder in Path(path).resolve().parents
        got = client.get("/gradio_api/file=" + path)
        kind = got.headers.get("content-type", "").split(";")[0]
        saved = "attachment" in got.headers.get("content-disposition", "")
        assert saved or kind in ("text/plain", "application/json"), (name, kind)


def test_an_uploaded_page_or_picture_is_not_run_as_one(client):
    for name in ("x.html", "x.svg", "x.xhtml", "x.js"):
        answer = client.post(
            "/gradio_api/upload", files={"files": (name, b"<svg onload=alert(1)>")}
        )
        got = client.get("/gradio_api/file=" + answer.json()[0])
        assert "attachment" in got.headers["content-disposition"], name


ADDRESSES = st.lists(
    st.one_of(
        st.sampled_from(["gradio_api", "run", "call", "queue", "join", "data", "file=", "config",
                         "static", "assets", "theme.css", "..", "%2e%2e", "zh", "health", "info",
                         "heartbeat", "upload_progress", "cancel", "reset", "predict", "v2"]),
        among([text for text in TEXTS if len(text) < 100]),
    ),
    min_size=1, max_size=4,
)  # fmt: skip


QUERY = ["page", "session_hash", "deep_link", "upload_id", "__theme", "view"]


@cases("requests")
@given(ADDRESSES, st.dictionaries(st.sampled_from(QUERY), texts, max_size=2))
def test_any_address_gives_a_plain_answer(client, parts, query):
    if "heartbeat" in parts or "data" in parts:  # these stay open for as long as one listens
        return
    path = "/" + "/".join(parts).encode("ascii", "ignore").decode().replace("\0", "")
    path = "".join(letter for letter in path if letter.isprintable() and letter not in "#?")
    plain = {key: text[:200].encode("ascii", "ignore") for key, text in query.items()}
    answer = client.get(path.replace("//", "/"), params=plain)
    assert answer.status_code < 500 or answer.json() == gate.BROKE
    if parts[0] not in ("gradio_api", "config", "zh") and answer.status_code >= 400:
        check(answer)


BODIES = st.one_of(
    values,
    st.fixed_dictionaries(
        {"data": st.one_of(values, st.lists(values, max_size=3))},
        optional={
            "fn_index": st.one_of(st.integers(0, 200), values),
            "session_hash": st.one_of(st.just("fuzz"), values),
            "event_data": values,
            "trigger_id": values,
            "event_id": values,
            "simple_format": values,
            "batched": values,
        },
    ),
)
POSTED = (
    *("run/predict", "run/race", "run/settings", "run/x", "call/compare", "queue/join", "cancel"),
    *("reset", "call/v2/settings", "upload"),
)


@cases("requests")
@given(st.sampled_from(POSTED), BODIES)
def test_any_request_gives_a_plain_answer(client, name, body):
    text = json.dumps(body).encode("utf-8", "surrogatepass")
    headers = {"content-type": "application/json"}
    answer = client.post(f"/gradio_api/{name}", content=text, headers=headers)
    assert insides(answer.text) == [], (name, answer.text[:300])


@pytest.mark.parametrize("file", FILES, ids=range(len(FILES)))
def test_a_posted_file_is_refused_in_a_sentence(client, file):
    event = next(e for e in client.page.fns.values() if e.api_name == "explore_race_prompt")
    body = {"fn_index": event._id, "data": [file], "session_hash": "fuzz"}
    answer = client.post("/gradio_api/run/predict", json=body)
    assert answer.status_code == 500
    assert "does not fit this page" in answer.json()["error"]


@pytest.mark.parametrize("name", ["/health", "/metrics"])
def test_what_a_machine_watches_names_nothing_a_visitor_sent(client, name):
    marker = "marker-of-a-visitor"
    client.post("/gradio_api/run/compare", json={"data": [marker, [{marker: marker}], marker]})
    client.get(f"/{marker}", params={marker: marker})
    assert marker not in client.get(name, params={"x": marker}).text
    assert insides(client.get(name).text) == []


def test_the_server_still_answers_afterwards(client):
    text = client.post("/gradio_api/run/settings", json={"data": []}).json()["data"][0]["message"]
    assert text == "The model is ready."


def behind_the_gate(handler) -> TestClient:
    app = Starlette(
        routes=[Route("/", handler, methods=["GET", "POST"])],
        middleware=[Middleware(Gate, 1000)],
    )
    return TestClient(app, raise_server_exceptions=False)


def test_what_fails_behind_the_gate_is_one_sentence_and_a_log_line(caplog):
    async def broken(_request: Request) -> None:
        raise RuntimeError("/secret/path")

    with caplog.at_level(logging.ERROR):
        answer = behind_the_gate(broken).get("/")
    assert (answer.status_code, answer.json()) == (500, gate.BROKE)
    assert [record.message for record in caplog.records] == ["a request failed"]


def test_a_length_that_is_none_counts_as_none():
    async def length(request: Request) -> PlainTextResponse:
        return PlainTextResponse(str(len(await request.body())))

    client = behind_the_gate(length)
    assert client.post("/", content=b"12345").text == "5"
    for said in ("-1", "x", "9" * 30):
        assert client.get("/", headers={"content-length": said}).status_code in (200, 400)


def test_what_is_no_request_passes_the_gate():
    passed = []

    async def app(scope, _receive, _send):
        passed.append(scope["type"])

    for kind in ("lifespan", "websocket"):
        asyncio.run(Gate(app, 1)({"type": kind}, None, None))
    assert passed == ["lifespan", "websocket"]
    assert issubclass(App, Starlette)
