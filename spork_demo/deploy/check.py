"""Whether what a Space would be given fits together: every mismatch, not only the first."""

import importlib.metadata
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet

from spork_demo.deploy import front_matter
from spork_demo.deploy.hardware import MACHINES, Machine
from spork_demo.models.embedded import SMOLLM2
from spork_demo.spacefile import PairSpec, Spacefile

ZERO_GPU = Path(__file__).parent / "requirements-zero-gpu.txt"
MCP = Path(__file__).parent / "requirements-mcp.txt"
ONLY_THERE = ("torch", "spaces")
"""Packages in which the two sets of requirements differ."""

COLOURS = ("red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray")
DESCRIPTION = 60
"""Most characters of a short description."""

SYSTEM_DISK = 8.0
"""Of the disk, 10^9 bytes for the installed packages; torch with CUDA is the most of it."""


@dataclass(slots=True)
class Report:
    """What was found. wrong: what keeps a deployment from working. notes: figures and advice."""

    wrong: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def expect(self, holds: object, sentence: str) -> None:
        if not holds:
            self.wrong.append(sentence)


def check(root: Path, spacefile: Spacefile, profile: str) -> Report:
    """Compare the files at `root`, the installed packages and the machine `profile` names."""
    report = Report()
    machine = MACHINES.get(profile)
    report.expect(machine, f"hardware.profile {profile!r} is not one of {', '.join(MACHINES)}.")
    readme, base = (_text(root / name, report) for name in ("README.md", "requirements.txt"))
    pins = _requirements(base, "requirements.txt", report)
    _installed(pins, report)
    if spacefile.mcp:
        _installed(_requirements(_text(MCP, report), MCP.name, report), report)
    try:
        _front(front_matter.read(readme), spacefile, pins, report)
    except ValueError as error:
        report.wrong.append(str(error))
    _pythons(root, spacefile.hardware.python, pins, report)
    _files(root, spacefile, report)
    report.expect(
        spacefile.cluster is None, "The Spacefile chooses a cluster, which a Space does not have."
    )
    if machine:
        _room(front_matter.served(spacefile, machine), machine, report)
        if machine.lent:
            _lent(spacefile.hardware.python, pins, machine, report)
    return report


def _text(path: Path, report: Report) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        report.wrong.append(f"{path.name} is missing or cannot be read.")
        return ""


def _requirements(text: str, name: str, report: Report) -> dict[str, Requirement]:
    found = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            try:
                each = Requirement(line.split(" #")[0])
                found[each.name.lower().replace("_", "-")] = each
            except InvalidRequirement:
                report.wrong.append(f"{name} has a line that is no requirement: {line[:60]}.")
    return found


def _installed(pins: dict[str, Requirement], report: Report) -> None:
    for name, wanted in pins.items():
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            report.wrong.append(f"{name} is required and not installed here.")
            continue
        fits = wanted.specifier.contains(version, prereleases=True)
        report.expect(fits, f"{name} {version} is installed, {wanted.specifier} is required.")


def _front(
    found: dict[str, Any], spacefile: Spacefile, pins: dict[str, Requirement], report: Report
) -> None:
    gradio = f"=={spacefile.hardware.gradio}"
    report.expect(found.get("sdk") == "gradio", "sdk in README.md is not gradio.")
    for where, value in (
        ("sdk_version in README.md", f"=={found.get('sdk_version')}"),
        ("gradio in requirements.txt", str(pins["gradio"].specifier) if "gradio" in pins else ""),
    ):
        report.expect(
            value == gradio,
            f"{where} is {value.lstrip('=') or 'missing'}, the Spacefile says {gradio[2:]}.",
        )
    python = str(found.get("python_version"))
    report.expect(
        python == spacefile.hardware.python,
        f"python_version in README.md is {python}, the Spacefile says {spacefile.hardware.python}.",
    )
    report.expect(found.get("app_file") == "app.py", "app_file in README.md is not app.py.")
    report.expect(found.get("title"), "README.md has no title.")
    told = len(str(found.get("short_description", "")))
    report.expect(
        told <= DESCRIPTION, f"short_description has {told} characters; {DESCRIPTION} are shown."
    )
    for key in ("colorFrom", "colorTo"):
        report.expect(
            found.get(key) in COLOURS, f"{key} in README.md is none of a Space's colours."
        )
    declared = MACHINES.get(spacefile.hardware.profile)
    if declared:
        wanted = front_matter.models(front_matter.served(spacefile, declared))
        listed = found.get("models") or []
        for name in sorted({*wanted} ^ {*listed}):
            lacks = "lacks" if name in wanted else "lists, and no pair here uses,"
            report.wrong.append(f"models in README.md {lacks} {name}.")


def _pythons(root: Path, python: str, pins: dict[str, Requirement], report: Report) -> None:
    newest = f"{python}.99"
    try:
        project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        needs = {"spork_demo": project["requires-python"]}
    except (OSError, ValueError, KeyError):
        report.wrong.append("pyproject.toml does not say which Python is required.")
        needs = {}
    for name in pins:
        try:
            told = importlib.metadata.metadata(name).get("Requires-Python")
        except importlib.metadata.PackageNotFoundError:
            continue
        needs |= {name: told} if told else {}
    for name, told in needs.items():
        fits = SpecifierSet(told).contains(newest)
        report.expect(fits, f"{name} needs Python {told}, the Spacefile says {python}.")


def _files(root: Path, spacefile: Spacefile, report: Report) -> None:
    wanted = [root / "app.py", root / "Spacefile", root / "LICENSE", root / "assets" / "traces"]
    for pair in spacefile.pairs:
        refs = [ref for ref in (pair.target, pair.draft, pair.dspark) if ref]
        wanted += [Path(ref.id) for ref in refs if ref.source == "folder"]
        wanted += [Path(pair.ngram_table)] if pair.ngram_table else []
    for path in dict.fromkeys(wanted):
        inside = path.resolve().is_relative_to(root.resolve())
        report.expect(inside, f"{path.name} lies outside of what is uploaded.")
        shown = path.relative_to(root) if inside and path.is_relative_to(root) else path.name
        report.expect(path.exists(), f"{shown} is missing.")


def _room(pairs: tuple[PairSpec, ...], machine: Machine, report: Report) -> None:
    report.expect(pairs, f"No model pair of the Spacefile runs on {machine.hub}.")
    fetched = sum(
        pair.memory_gb
        for pair in pairs
        if any(ref and ref.source == "hub" for ref in (pair.target, pair.draft, pair.dspark))
    )
    embedded = any(pair.target.source == "embedded" for pair in pairs)
    download = fetched + embedded * SMOLLM2.wheel.size_bytes / 1e9
    disk = (
        SYSTEM_DISK + fetched * (2 if machine.lent else 1) + embedded * SMOLLM2.needed_bytes / 1e9
    )
    memory, room = sum(pair.memory_gb for pair in pairs), machine.gpu_memory or machine.memory
    kind = "GPU memory" if machine.gpu_memory else "memory"
    report.notes.append(
        f"{len(pairs)} pairs: about {download:.1f} GB to fetch, {disk:.1f} of {machine.disk:g} GB "
        f"of disk, {memory:.1f} of {room:g} GB of {kind}."
    )
    report.expect(memory <= room, f"The pairs need {memory:.1f} GB of {kind}; there are {room:g}.")
    report.expect(
        disk <= machine.disk,
        f"The pairs need about {disk:.1f} GB of disk; there are {machine.disk:g}.",
    )


def _lent(python: str, base: dict[str, Requirement], machine: Machine, report: Report) -> None:
    report.expect(
        python in machine.pythons,
        f"ZeroGPU has Python {' and '.join(machine.pythons)}, not {python}.",
    )
    there = _requirements(_text(ZERO_GPU, report), ZERO_GPU.name, report)
    for name in sorted({*base, *there} - {*ONLY_THERE}):
        ours, theirs = (str(each.get(name, "nothing")) for each in (base, there))
        report.expect(
            ours == theirs, f"{ZERO_GPU.name} has {theirs} where requirements.txt has {ours}."
        )
    torch = str(there["torch"].specifier).removeprefix("==") if "torch" in there else "nothing"
    report.expect(torch in machine.torches, f"ZeroGPU does not list torch {torch}.")
    report.expect("spaces" in there, f"{ZERO_GPU.name} lacks spaces.")
    report.notes.append(f"ZeroGPU will run torch {torch}; 8-bit weights are left out there.")
