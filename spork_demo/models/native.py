"""Our own kernels for a few rows on a CPU, compiled where they run: `native/`.

They are built once for a machine by its C++ compiler, in seconds, and kept in the cache folder.
Without a compiler there are none, and models run on torch's kernels.
"""

import ctypes
import functools
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

import torch  # noqa: F401 - its OpenMP must be loaded first, or two teams of threads would compete

from spork_demo.models.embedded import default_cache_dir

logger = logging.getLogger(__name__)

FOLDER = Path(__file__).parents[1] / "native"
SOURCE = FOLDER / "rows.cpp"
COMPILERS = ("g++", "c++", "clang++")
FLAGS = (
    "-O3",
    "-march=native",
    "-std=c++17",
    "-fopenmp",
    "-fPIC",
    "-shared",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-trapping-math",
)
PATIENCE = 120
"""Seconds a compiler may take."""

FLOAT32, BFLOAT16, INT8 = range(3)
_POINTER, _INT = ctypes.c_void_p, ctypes.c_int32


class Linear(ctypes.Structure):
    """See rows.cpp, as for the others."""

    _fields_ = (
        *((name, _POINTER) for name in ("panels", "scales", "bias")),
        *((name, _INT) for name in ("inputs", "outputs", "kind", "unused")),
    )


class Layer(ctypes.Structure):
    _fields_ = (
        *((name, Linear) for name in ("qkv", "mixed", "gate_up", "down")),
        *((name, _POINTER) for name in ("norm", "after_norm", "q_norm", "k_norm")),
    )


class Decoder(ctypes.Structure):
    _fields_ = (
        ("layers", ctypes.POINTER(Layer)),
        ("norm", _POINTER),
        ("head", Linear),
        ("embedding", _POINTER),
        *((n, _INT) for n in ("embedding_kind", "hidden", "heads", "key_heads", "size", "inner")),
        *((name, _INT) for name in ("count", "unused")),
        *((name, ctypes.c_float) for name in ("eps", "scale")),
    )


class Call(ctypes.Structure):
    _fields_ = (
        *((name, _POINTER) for name in ("tokens", "positions", "cos", "sin", "keys", "values")),
        *((name, _POINTER) for name in ("capacity", "sees", "wanted", "features", "logits")),
        *((name, _INT) for name in ("rows", "start", "base", "pending", "layers", "asked")),
        *((name, _INT) for name in ("first_logit", "threads")),
    )


def compiler() -> str | None:
    """The C++ compiler of this machine."""
    return next(filter(None, map(shutil.which, COMPILERS)), None)


@functools.cache
def kernels() -> ctypes.CDLL | None:
    """The kernels of this machine, built on the first call ever; None where that is impossible."""
    program = compiler()
    if program is None:
        logger.info("no C++ compiler: models run on torch's own kernels")
        return None
    try:
        library = ctypes.CDLL(str(_built(program)))
    except (OSError, subprocess.SubprocessError) as error:
        logger.warning("the kernels could not be built: %s", type(error).__name__)
        return None
    library.rows_serves.restype = _INT
    library.rows_decode.argtypes = [ctypes.POINTER(Decoder), ctypes.POINTER(Call)]
    library.rows_decode.restype = None
    library.rows_linear.argtypes = [ctypes.POINTER(Linear), _POINTER, _INT, _POINTER, _INT]
    library.rows_linear.restype = None
    library.rows_move.argtypes = [*[_POINTER] * 3, *[_INT] * 3, _POINTER, _INT, _INT]
    library.rows_move.restype = None
    library.rows_likeliest.argtypes = [_POINTER, *[_INT] * 4, _POINTER, _POINTER, _INT]
    library.rows_likeliest.restype = None
    return library


def _built(compiler: str) -> Path:
    """The library in the cache folder, compiled now unless it was before, for this machine."""
    version = subprocess.run([compiler, "--version"], capture_output=True, timeout=PATIENCE)
    source = b"".join(path.read_bytes() for path in sorted(FOLDER.iterdir()) if path.is_file())
    parts = (source, version.stdout, " ".join(FLAGS).encode(), _processor())
    name = hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]
    path = default_cache_dir() / "kernels" / f"rows-{name}.so"
    if path.is_file():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as work:
        fresh = Path(work) / path.name
        command = [compiler, *FLAGS, str(SOURCE), "-o", str(fresh)]
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)
        os.replace(fresh, path)  # noqa: PTH105 - two starts at once both end with a whole file
    return path


def _processor() -> bytes:
    """What -march=native depends on: a cache folder may travel to another machine."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor().encode()
    told = {line for line in lines if line.startswith(("flags", "Features", "model name"))}
    return "\n".join(sorted(told)).encode()
