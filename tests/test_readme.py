"""The README's examples for programs run as they stand, against the page on a fake host."""

import re

import pytest

from tests.launched import launched
from tests.missing import missing
from tests.sample_race import LIMITS, FakeHost
from tests.test_architecture import ROOT

try:
    from spork_demo.tools import Tools
except ImportError:
    Tools = None

README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
WIDTH = 104
ADDRESS = "http://127.0.0.1:7860"


@pytest.fixture(scope="module")
def address():
    """A page served as `mcp = true` in the Spacefile asks, where the package is there."""
    tools = Tools and (lambda address: Tools(address, LIMITS))
    with launched(FakeHost(), tools=tools) as page:
        yield page.local_url.rstrip("/")


def ran(example, address, capsys):
    """What an example prints."""
    if "from mcp" in example and Tools is None:
        missing("mcp is not installed")
    assert ADDRESS in example
    exec(compile(example.replace(ADDRESS, address), "README.md", "exec"), {})  # noqa: S102
    lines = capsys.readouterr().out.splitlines()
    return [line for line in lines if not line.startswith("Loaded as API")]


def test_there_is_an_example_for_every_endpoint():
    text = "".join(EXAMPLES)
    assert all(f'"/{name}"' in text for name in ("settings", "compare", "decode", "sweep"))
    assert max(len(line) for example in EXAMPLES for line in example.splitlines()) <= WIDTH


def test_compare(address, capsys):
    offer, greedy, spork = ran(EXAMPLES[0], address, capsys)
    assert offer == f"['SmolLM2-135M-Instruct'] {LIMITS.new_tokens}"
    assert greedy.startswith("1 Greedy ")
    assert "None" in greedy
    assert spork.startswith("2 SPORK exact ")
    assert "'equal_tokens': 1.0" in spork


def test_decode(address, capsys):
    *texts, accepted_length = ran(EXAMPLES[1], address, capsys)
    assert texts
    assert float(accepted_length) > 1


def test_sweep(address, capsys):
    (found,) = ran(EXAMPLES[2], address, capsys)
    assert "'draft_length': " in found
    assert found.count(",") >= 3


def test_tools(address, capsys):
    names, *text = ran(EXAMPLES[3], address, capsys)
    assert names == "['settings', 'decode', 'compare', 'sweep']"
    assert text
