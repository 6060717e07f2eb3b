"""Want of memory, on whatever device, and giving back what can be given back."""

import gc

import torch

SIGNS = ("out of memory", "allocate memory", "not enough memory")


def out_of_memory(error: BaseException) -> bool:
    """Whether `error` says that memory did not suffice; a CPU says so in a plain RuntimeError."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return any(sign in str(error).lower() for sign in SIGNS)


def free_memory() -> None:
    """Give back what nothing refers to any more."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
