"""The vendored chart library draws every chart we make, is what it says it is, and stays small."""

import ast
import hashlib
import json
import re
from pathlib import Path

import plotly.graph_objects as go
import pytest
from plotly.basedatatypes import BaseTraceType
from plotly.offline import get_plotlyjs_version

from spork_demo.trace_file import read_races
from spork_demo.ui.page import build_page, launch_options
from spork_demo.ui.plotly_view import LIBRARY
from tests.sample_race import LIMITS, PRESETS, FakeHost
from tests.test_architecture import PACKAGE, ROOT
from tests.test_charts import every_figure

TRACE_TYPES = set(re.findall(r'moduleType:"trace",name:"(\w+)"', LIBRARY.read_text("utf-8")))
KNOWN = {name.lower(): name for name in dir(go) if name[0].isupper()}
LARGEST_PAGE = 2_500_000
"""Bytes the page may add to Gradio's own files."""


def trace_types(path: Path) -> set[str]:
    """Trace types a chart module asks plotly for: `add_bar`, `go.Heatmap`."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Attribute):
            name = node.attr.removeprefix("add_").replace("_", "").lower()
            asked = node.attr.startswith("add_") or node.attr[:1].isupper()
            cls = getattr(go, KNOWN.get(name, ""), None) if asked else None
            if cls is not None and issubclass(cls, BaseTraceType):
                found.add(name)
    return found


def test_the_library_has_every_trace_type_the_charts_use():
    used = {name: path for path in PACKAGE.rglob("*.py") for name in trace_types(path)}
    assert {"bar", "scatter"} <= set(used)
    assert set(used) <= TRACE_TYPES
    assert {trace.type for figure in every_figure() for trace in figure.data} <= TRACE_TYPES


@pytest.mark.parametrize("foreign", ["figure.add_sankey()", "go.Scatter3d()"])
def test_a_trace_type_the_library_lacks_is_found(tmp_path, foreign):
    file = tmp_path / "chart.py"
    file.write_text(foreign, encoding="utf-8")
    assert trace_types(file) - TRACE_TYPES


def test_the_library_is_the_one_its_readme_names():
    readme = (LIBRARY.parent / "README.md").read_text("utf-8")
    assert hashlib.sha256(LIBRARY.read_bytes()).hexdigest() in readme
    assert "MIT License" in (LIBRARY.parent / "plotly-LICENSE").read_text("utf-8")
    assert get_plotlyjs_version() in LIBRARY.read_text("utf-8")[:200]


def test_everything_a_page_adds_fits():
    built = build_page(FakeHost(), LIMITS, PRESETS, read_races(ROOT / "assets" / "traces"))
    options = launch_options(LIMITS)
    shared = [options["head"], options["css"]]
    shared += [Path(file).read_text("utf-8") for file in options["css_paths"]]
    added = LIBRARY.stat().st_size + sum(len(text.encode()) for text in shared)
    pages = built.get_config_file()["page"]
    assert set(pages) == {"", "zh"}
    for page in pages.values():
        assert added + _sent(built.get_config_file(), page) < LARGEST_PAGE


def _sent(config, page) -> int:
    """Bytes of what Gradio sends of its configuration with one page."""
    parts = [
        part
        for kind in ("components", "dependencies")
        for part in config[kind]
        if part["id"] in page[kind]
    ]
    return len(json.dumps([*parts, page["layout"]], default=str, ensure_ascii=False).encode())
