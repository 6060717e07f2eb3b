"""Files made for visitors to take, the newest so many: an older one goes when a new one comes."""

import hashlib
import shutil
import threading
from collections import OrderedDict
from pathlib import Path

KEPT_FILES = 64
"""Where nobody says how many visitors there may be."""


class Shelf:
    """most: files kept at a time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[Path, None] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, name: str, data: bytes, folder: str | Path) -> str:
        """A file under `folder`, in a directory nobody can guess without its content. It is there
        whole or not at all: another visitor may be taking the same.
        """
        place = Path(folder) / hashlib.sha256(name.encode() + data).hexdigest()
        with self._lock:
            place.mkdir(parents=True, exist_ok=True)
            fresh = place / f"{name}.new"
            try:
                fresh.write_bytes(data)
                fresh.replace(place / name)
            finally:
                fresh.unlink(missing_ok=True)
            self._kept[place] = None
            self._kept.move_to_end(place)
            while len(self._kept) > self._most:
                oldest, _ = self._kept.popitem(last=False)
                shutil.rmtree(oldest, ignore_errors=True)
        return str(place / name)
