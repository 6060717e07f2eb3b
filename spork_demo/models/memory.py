"""Want of memory, on whatever device, and giving back what can be given back."""

import ctypes
import gc
import sys
from pathlib import Path

import torch

from spork_demo.race import memory_sentence

MEMORY_INFO = Path("/proc/meminfo")


def out_of_memory(error: BaseException) -> bool:
    """Whether `error` says that memory did not suffice; a CPU says so in a plain RuntimeError."""
    return isinstance(error, torch.OutOfMemoryError) or bool(memory_sentence(error))


def available_bytes() -> int | None:
    """Memory of this machine that can still be had; None where it does not say."""
    try:
        lines = MEMORY_INFO.read_text(encoding="utf-8").splitlines()
        told = next(line for line in lines if line.startswith("MemAvailable:"))
        return 1024 * int(told.split()[1])
    except (OSError, StopIteration, ValueError, IndexError):
        return None


def free_memory() -> None:
    """Give back what nothing refers to any more."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def trim_memory() -> None:
    """Hand what is free back to the system. glibc keeps it, for every thread apart, so a server
    that many have used would seem to grow; other C libraries need no call.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
