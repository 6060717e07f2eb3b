"""Files are parsed as data: nothing in the package can run what stands in one."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted([*(ROOT / "spork_demo").rglob("*.py"), ROOT / "app.py"])

MODULES = {
    *("pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "runpy", "code"),
    *("xml", "tarfile"),
}
"""What reads code, or builds objects, out of data; or archives that name their own places."""

CALLS = {"eval", "exec", "compile", "__import__", "execfile", "import_module", "system", "popen",
         "unsafe_load", "load_module", "exec_module"}  # fmt: skip

REASONED = {
    ("models/wheel.py", "Popen"): "pip, with arguments of ours, fetches the pinned wheel",
    ("models/native.py", "run"): "the C++ compiler, with arguments of ours",
    ("models/native.py", "CDLL"): "the library it made, by the hash of its source",
    ("models/memory.py", "CDLL"): "the C library this process runs on, by no name",
}
"""Programs and libraries that are run, and why that is no stranger's choice."""


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix().removeprefix("spork_demo/")


def calls(path: Path) -> list[tuple[ast.Call, str, str]]:
    """Every call in a file with the name that is called and the module or object it is of."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name):
            found.append((node, node.func.id, ""))
        elif isinstance(node.func, ast.Attribute):
            owner = node.func.value
            found.append((node, node.func.attr, owner.id if isinstance(owner, ast.Name) else "?"))
    return found


def imported(path: Path) -> set[str]:
    modules = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules.add(node.module.split(".")[0])
    return modules


def given(call: ast.Call, keyword: str) -> object:
    """The constant a call passes under a keyword."""
    values = [word.value for word in call.keywords if word.arg == keyword]
    return values[0].value if values and isinstance(values[0], ast.Constant) else None


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_nothing_turns_data_into_code(path):
    assert not imported(path) & MODULES
    for call, called, owner in calls(path):
        plain = owner in ("", "os", "builtins", "importlib", "subprocess")
        if called == "compile" and owner in ("re", "torch"):
            continue  # a pattern, and kernels of a model that is already loaded
        assert not (called in CALLS and plain), (called, call.lineno)
        assert given(call, "shell") is None
        assert given(call, "trust_remote_code") is not True
        if (owner, called) == ("torch", "load"):
            assert given(call, "weights_only") is True
        if owner == "yaml":
            assert called in ("safe_load", "safe_dump")
        if owner == "np" and called == "load":
            assert given(call, "allow_pickle") is not True


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_programs_and_libraries_that_are_run_are_known_and_have_a_reason(path):
    for call, called, owner in calls(path):
        if owner == "subprocess" or called in ("CDLL", "Popen"):
            assert (name(path), called) in REASONED, (name(path), called, call.lineno)


def test_every_reason_is_still_needed():
    used = {(name(path), called) for path in SOURCES for _, called, _ in calls(path)}
    assert set(REASONED) <= used


def test_checkpoints_of_others_are_read_as_tensors_only():
    text = (ROOT / "spork_demo" / "models" / "loading.py").read_text(encoding="utf-8")
    assert "use_safetensors=True" in text


@pytest.mark.parametrize("path", sorted((ROOT / "assets").glob("*.js")), ids=lambda path: path.name)
def test_no_script_of_the_page_makes_markup_or_code_of_text(path):
    text = path.read_text(encoding="utf-8")
    for way in ("insertAdjacentHTML", "outerHTML", "document.write", "eval(", "new Function",
                "setAttribute(\"on", "srcdoc", "createContextualFragment"):  # fmt: skip
        assert way not in text
    made = [line.strip() for line in text.splitlines() if "innerHTML" in line]
    ours = ['element.innerHTML = at("plotly-view-template").innerHTML;']  # a template of the page
    assert made in ([], ours)
