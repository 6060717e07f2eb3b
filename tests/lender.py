"""A stand-in for the decorator of the `spaces` package, with the rules of ZeroGPU and no GPU.

Each call runs in a process forked for it; the arguments and every item are pickled; an exception
comes back as the name of its class; a closed generator ends the call behind its next item.
"""

import inspect
import multiprocessing
import pickle
from collections.abc import Callable, Iterator
from multiprocessing.connection import wait
from typing import Any

FORK = multiprocessing.get_context("fork")


class LenderError(Exception):
    """What the platform raises: a title and a message instead of the exception that was."""

    def __init__(self, title: str, message: str):
        super().__init__(message)
        self.title, self.message = title, message


class Lender:
    """Lends one call at a time. seconds: asked for, call by call. workers: their processes."""

    def __init__(self, refuses: LenderError | None = None) -> None:
        self.seconds: list[int] = []
        self.workers: list[Any] = []
        self.requests: list[bytes] = []
        self._refuses = refuses

    def GPU(self, task: Callable | None = None, *, duration: Any = 60) -> Callable:
        if task is None:
            return lambda task: self.GPU(task, duration=duration)
        assert inspect.isgeneratorfunction(task)

        def call(*arguments: Any) -> Iterator[Any]:
            self.seconds.append(duration(*arguments) if callable(duration) else duration)
            if self._refuses:
                raise self._refuses
            yield from self._lent(task, pickle.dumps(arguments))

        return call

    def _lent(self, task: Callable, package: bytes) -> Iterator[Any]:
        self.requests.append(package)
        reader, writer = FORK.Pipe(duplex=False)
        stop = FORK.Event()
        worker = FORK.Process(target=_serve, args=(task, package, writer, stop), daemon=True)
        worker.start()
        self.workers.append(worker)
        writer.close()
        try:
            yield from _items(reader, worker)
        finally:
            stop.set()
            for _ in _rest(reader):
                pass
            worker.join(timeout=20)
            reader.close()


def _items(reader: Any, worker: Any) -> Iterator[Any]:
    while True:
        wait([reader, worker.sentinel])
        try:
            kind, value = pickle.loads(reader.recv_bytes())
        except EOFError:
            raise LenderError("ZeroGPU worker error", "GPU task aborted") from None
        if kind == "end":
            return
        if kind == "error":
            raise LenderError("ZeroGPU worker error", value)
        yield value


def _rest(reader: Any) -> Iterator[bytes]:
    try:
        while True:
            yield reader.recv_bytes()
    except (EOFError, OSError):
        return


def _serve(task: Callable, package: bytes, writer: Any, stop: Any) -> None:
    items = task(*pickle.loads(package))
    last = ("end", None)
    try:
        for item in items:
            if stop.is_set():
                items.close()
                break
            writer.send_bytes(pickle.dumps(("item", item)))
    except Exception as error:
        last = ("error", type(error).__name__)
    writer.send_bytes(pickle.dumps(last))
    writer.close()
