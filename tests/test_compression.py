"""What the server compresses, and that streams of events come through as they are written."""

import gzip
import json

import httpx
import pytest

from spork_demo.ui.page import launch_options
from tests.launched import launched
from tests.page_client import PageClient
from tests.sample_race import LIMITS, FakeHost
from tests.test_ui_page import in_order, join


@pytest.fixture(scope="module")
def url():
    with launched(FakeHost(gap=0.01)) as page:
        yield page.local_url


def raw(url: str, path: str, encodings: str) -> tuple[httpx.Headers, bytes]:
    """Headers and bytes as they came over the wire."""
    with httpx.stream("GET", url + path, headers={"accept-encoding": encodings}) as answer:
        assert answer.status_code == 200
        return answer.headers, b"".join(answer.iter_raw())


@pytest.mark.parametrize("path", ["", "zh", "config"])
def test_pages_come_compressed_and_whole(url, path):
    headers, small = raw(url, path, "gzip, deflate, br")
    plain_headers, whole = raw(url, path, "identity")
    assert headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain_headers
    assert "accept-encoding" in headers["vary"].lower()
    assert int(headers["content-length"]) == len(small) < len(whole) / 4
    unpacked = gzip.decompress(small)
    assert abs(len(unpacked) - len(whole)) < 100  # a page names when it was made
    assert b"gradio" in unpacked


def test_scripts_are_compressed_once(url):
    script = launch_options(LIMITS)["head"].split('sporkPlotlyFile = "')[1].split('"')[0]
    headers, small = raw(url, f"gradio_api/file={script}", "gzip, br")
    assert headers["content-encoding"] == "br"
    assert len(small) < 700_000


def test_small_answers_stay_as_they_are(url):
    headers, body = raw(url, "gradio_api/startup-events", "gzip")
    assert "content-encoding" not in headers
    assert json.loads(body) is not None


def test_a_stream_of_events_is_not_compressed_and_arrives_as_it_is_written(url):
    join(url, in_order(prompt="stream", max_new_tokens=40), "packed")
    headers = {"accept-encoding": "gzip, br"}
    address = f"{url}gradio_api/queue/data"
    frames = 0
    with httpx.stream(
        "GET", address, params={"session_hash": "packed"}, headers=headers, timeout=20
    ) as stream:
        assert "content-encoding" not in stream.headers
        for line in stream.iter_lines():
            frames += "process_generating" in line
            if "process_completed" in line:
                break
    assert frames > 3


def test_programs_read_the_page_as_before(url):
    assert PageClient(url, verbose=False).run(in_order(max_new_tokens=4)).result()
