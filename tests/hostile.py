"""What strangers may send, and what no answer to them may hold: for the tests of hostile input.

`SPORK_FUZZ=20 pytest tests/test_hostile_*.py` tries twenty times as many cases, new ones each time.
"""

import builtins
import math
import os
import re
import sys
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parent.parent
MORE = int(os.environ.get("SPORK_FUZZ", "1"))

CASES = {
    "race files": 500,
    "no race files": 300,
    "drawn races": 60,
    "charted races": 8,
    "links": 500,
    "restored links": 100,
    "runs": 600,
    "sweeps": 400,
    "axes": 500,
    "calibrations": 300,
    "settings": 500,
    "endpoints of the API": 300,
    "Spacefiles": 250,
    "log lines": 300,
    "streams of servers": 400,
    "counters of servers": 200,
    "events of the page": 4,
    "events of other languages": 1,
    "events without values": 1,
    "requests": 120,
}
"""Cases of each property in a plain run; of events, for every one of them."""

TEXTS = (
    "", " ", "\n", "\t", "\0", "a\0b", "\ud800", "\udfff x", "\u202eevil", "\u2028", "\u2029",
    "\ufeff",
    "<img src=x onerror='window.hacked=1'>", "<script>window.hacked=1</script>", "</script><b>",
    "${window.hacked=1}", "`", "{{constructor}}", "{x}", "{0}", "{", "}", "{x.__class__}", "%s%n",
    "__class__", "__import__('os')", "'; DROP TABLE x; --", "$(id)", "\\u0041", "&lt;", '"', "'",
    "/etc/passwd", "../../../etc/passwd", "..\\..\\x", "file:///etc/passwd", "C:\\x", "//evil/x",
    "http://169.254.169.254/latest/meta-data", "http://127.0.0.1:22/", "http://[::1]/",
    "javascript:alert(1)", "data:text/html,<b>", "\r\nX-Evil: 1", "NaN", "Infinity", "-0", "1e999",
    "0x10", "١٢", "½", "9" * 5000, "x" * 100_000, "字" * 5000, "e\u0301" * 200, "👩‍👩‍👧‍👦", "zh",
    "served", "greedy", "spork", "exact", "article", "fork_width=8", "draft_length=99999999999",
)  # fmt: skip
NUMBERS = (
    *(0, 1, -1, 2, 3, 127, 2**31, 2**53 + 1, 2**63, -(2**63), 2**64, 10**30, 10**400, -(10**400)),
    *(0.5, -0.0, 1.5, 5e-324, 1e-300, 1e30, 1.8e308, -1.7e308, math.nan, math.inf, -math.inf),
)


def file_data(path: Any, url: Any = None) -> dict[str, Any]:
    """What Gradio takes for a file."""
    return {"path": path, "url": url, "meta": {"_type": "gradio.FileData"}}


def nested(depth: int, kind: type = list) -> Any:
    """A value inside so many others."""
    value: Any = "x"
    for _ in range(depth):
        value = [value] if kind is list else {"a": value}
    return value


FILES = (
    *map(file_data, ("/etc/passwd", "../../etc/passwd", "file:///etc/passwd", "a\0b", "", None, 5)),
    *map(file_data, ("http://169.254.169.254/", "https://example.com/x.json", "//evil/x")),
    *map(file_data, ("Spacefile", "./app.py", "spork_demo/__main__.py")),
    file_data("/etc/passwd", "http://127.0.0.1:1/"),
    [file_data("/proc/self/environ")],
    {"a": [file_data("/etc/passwd")]},
    {"path": "/etc/passwd", "meta": "x"},
    {"path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}, "is_stream": True},
)
STRANGE = (
    *(nested(30), nested(40), nested(900), nested(900, dict)),
    *([], {}, [[]], [None] * 1000, {"__type__": "update", "value": "x", "html_template": "${1}"}),
    *({"value": "<b>"}, {"": ""}, {"__proto__": {"x": 1}}, [file_data("x")] * 3),
)


def among(items: Any) -> st.SearchStrategy[Any]:
    """One of these; unlike `sampled_from` it never prints them all."""
    found = tuple(items)
    return st.integers(0, len(found) - 1).map(lambda place: found[place])


texts = st.one_of(among(TEXTS), st.text(max_size=20))
numbers = st.one_of(among(NUMBERS), st.integers(-3, 300), st.floats(-2, 300))
leaves = st.one_of(st.none(), st.booleans(), numbers, texts)
values = st.one_of(
    leaves,
    among(STRANGE),
    among(FILES),
    st.lists(leaves, max_size=3),
    st.dictionaries(texts, leaves, max_size=3),
)


def cases(name: str) -> settings:
    """How a property is tried."""
    return settings(
        max_examples=CASES[name] * MORE,
        derandomize=MORE == 1,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )


NAMES = sorted(
    {name for name, kind in vars(builtins).items() if isinstance(kind, type)
     and issubclass(kind, BaseException)} - {"Warning"}
)  # fmt: skip
INSIDES = re.compile(
    "|".join(
        (
            rf"\b(?:{'|'.join(NAMES)})\b",
            r"\b[A-Z]\w+(?:Error|Exception)\b",
            r"Traceback \(most",
            r'File "[^"]*", line',
            r"<class '",
            r"object at 0x",
            r"root:x:0",
            r"site-packages",
            re.escape(str(ROOT)),
            re.escape(sys.prefix),
        )
    )
)
"""Traces of a server's insides: exceptions, tracebacks, its own paths, a file nobody may read."""


def insides(answer: Any) -> list[str]:
    """What of the server's insides an answer shows."""
    return INSIDES.findall(answer if isinstance(answer, str) else repr(answer))


def is_sentence(text: str) -> bool:
    """Whether a text is one or a few short sentences for a visitor, without insides."""
    ends = text.rstrip().endswith((".", "。", "!", "?", "…"))
    return 0 < len(text) < 700 and ends and not insides(text) and "\0" not in text
