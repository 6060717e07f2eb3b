"""What a visitor may download: written to the page's cache folder, or said that it could not be."""

import hashlib
import logging
import secrets
from pathlib import Path
from typing import Any

import gradio as gr

from spork_demo.language import later, say

LOG = logging.getLogger(__name__)

NO_FILE = later("No file: the disk of this server is full")


def for_download(name: str, data: bytes, folder: str | Path, label: str) -> dict[str, Any]:
    """A download button's new value and what stands on it. Where the disk takes no more, the
    button says so; whatever else the page shows is kept.
    """
    try:
        return gr.update(value=_written(name, data, folder), label=label, interactive=True)
    except OSError:
        LOG.exception("a file to download could not be written")
        return gr.update(value=None, label=say(NO_FILE), interactive=False)


def _written(name: str, data: bytes, folder: str | Path) -> str:
    """A file under `folder`, in a directory nobody can guess without what it holds. It is there
    whole or not at all: another visitor may be downloading the same.
    """
    file = Path(folder) / hashlib.sha256(data).hexdigest() / name
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_name(f"{name}.{secrets.token_hex(8)}")
    try:
        fresh.write_bytes(data)
        fresh.replace(file)
    finally:
        fresh.unlink(missing_ok=True)
    return str(file)
