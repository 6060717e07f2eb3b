"""The shape of the project: who may import what, how long things may get, what the files say."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "spork_demo"
SOURCES = sorted(PACKAGE.rglob("*.py"))
TORCH = {"torch", "transformers", "accelerate", "safetensors"}
DRAWING = {"gradio", "plotly"}
PLAIN = (
    *("settings", "trace", "trace_file", "metrics", "reliability", "host", "spacefile", "race"),
    *("sweep", "cells", "axes", "sweep_file", "equivalents", "language", "knobs", "trace_served"),
    *("observed", "line", "limits"),
    *("clock", "what_if"),
    *("gpu_seconds", "lesson", "calibration", "cluster_spec", "spacefile_table"),
)
RUNS_A_MODEL = {
    *("models", "decoding", "lanes", "engine", "runtime", "record", "bench", "train"),
    "sweep_command",
    "lent_gpu",
    "deploy",
    "calibration_run",
    "cluster",
}
TOP_LEVEL = {
    "app.py",
    "spork_demo",
    "assets",
    "tests",
    "requirements.txt",
    "README.md",
    "Spacefile",
    "pyproject.toml",
    "LICENSE",
}
NEVER_WRITE = {
    "assistant_model",
    "verifier_model",
    "base_model_name",
    "speculator",
    "n_matches",
    "acceptance_length",
    "compression_ratio",
    "num_assistant_tokens",
    "current_token",
}


def module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def imports(path: Path, *, lazy: bool = False) -> set[str]:
    """Modules a file names; those imported inside functions only when `lazy`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = ast.walk(tree) if lazy else iter(tree.body)
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def reachable(path: Path) -> set[str]:
    """Everything a file imports at its top, directly or through the package."""
    files = {module(p).removesuffix(".__init__"): p for p in SOURCES}
    seen, waiting = set(), [module(path)]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in files:
            waiting += imports(files[name])
    return {name.split(".")[0] for name in seen} | {n for n in seen if n.startswith("spork_demo")}


def area(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", SOURCES, ids=module)
def test_each_area_reaches_only_what_it_may(path):
    reached = reachable(path)
    if area(path) in PLAIN:
        assert not reached & (TORCH | DRAWING | {"numpy"})
    if area(path) == "served":
        assert not reached & (TORCH | DRAWING)
    if area(path) in ("charts", "ui", "tools"):
        assert not reached & TORCH
        assert not {n for n in reached if n.startswith("spork_demo.") and n.split(".")[1]
                    in RUNS_A_MODEL}  # fmt: skip
    if area(path) == "charts":
        assert "gradio" not in reached
    if area(path) in RUNS_A_MODEL:
        assert not reached & DRAWING


def test_ray_is_known_in_one_file_and_the_rest_of_the_page_side_needs_no_torch():
    knowing = {
        path for path in SOURCES if "ray" in {n.split(".")[0] for n in imports(path, lazy=True)}
    }
    assert knowing == {PACKAGE / "cluster" / "ray_pool.py"}
    for name in ("messages", "spread", "host"):
        assert not reachable(PACKAGE / "cluster" / f"{name}.py") & (TORCH | {"ray"})


def test_the_page_loads_without_torch():
    code = (
        "import sys, spork_demo.ui.page, spork_demo.trace_file\n"
        "sys.exit(sum(name in sys.modules for name in ('torch', 'transformers')))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


@pytest.mark.parametrize("path", SOURCES, ids=module)
def test_files_and_functions_stay_short(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 300
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno - node.lineno < 60, node.name


def test_package_files_are_empty_and_modules_say_what_they_are():
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        if path.name == "__init__.py":
            assert text == ""
        else:
            assert ast.get_docstring(ast.parse(text)), path


def test_one_word_per_idea_in_names():
    for path in SOURCES:
        names = {
            node.id if isinstance(node, ast.Name) else node.name
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Name | ast.FunctionDef | ast.ClassDef)
        }
        assert not names & NEVER_WRITE, path


def test_the_global_seed_is_never_touched():
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        assert "torch.manual_seed" not in text, path
        assert "torch.seed(" not in text, path


def test_the_top_level_holds_the_agreed_list():
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.split("\n")
    names = {line.split("/")[0] for line in listed if line}
    assert {name for name in names if not name.startswith(".")} <= TOP_LEVEL


def test_versions_agree_wherever_they_are_named():
    from spork_demo.engine import APP_VERSION

    spacefile = tomllib.loads((ROOT / "Spacefile").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    front = yaml.safe_load((ROOT / "README.md").read_text(encoding="utf-8").split("---")[1])
    pinned = dict(
        line.split("==")
        for line in (ROOT / "requirements.txt").read_text(encoding="utf-8").split("\n")
        if "==" in line and not line.startswith("#")
    )
    assert pinned["gradio"] == spacefile["hardware"]["gradio"] == front["sdk_version"]
    assert str(front["python_version"]) == spacefile["hardware"]["python"]
    assert front["app_file"] == "app.py"
    assert project["project"]["version"] == APP_VERSION


def test_the_readme_tree_names_files_that_exist():
    block = (ROOT / "README.md").read_text(encoding="utf-8").split("```text")[1].split("```")[0]
    folders: list[str] = []
    for line in block.strip("\n").split("\n"):
        name = line.split("#")[0].rstrip()
        if not name.strip():
            continue
        level = (len(name) - len(name.lstrip())) // 2
        folders[level:] = [name.strip().rstrip("/")]
        for entry in name.strip().split(", "):
            path = ROOT.joinpath(*folders[:level], entry.rstrip("/"))
            assert path.exists(), path
