"""What a visitor may download, or that there is no file because the disk takes no more."""

import logging
from pathlib import Path
from typing import Any

import gradio as gr

from spork_demo.language import later, say
from spork_demo.ui.shelf import Shelf

LOG = logging.getLogger(__name__)

NO_FILE = later("No file: the disk of this server is full")


def for_download(
    name: str, data: bytes, shelf: Shelf, folder: str | Path, label: str
) -> dict[str, Any]:
    """A download button's new value and what stands on it. Where the disk takes no more, the
    button says so; whatever else the page shows is kept.
    """
    try:
        return gr.update(value=shelf.put(name, data, folder), label=label, interactive=True)
    except OSError:
        LOG.exception("a file to download could not be written")
        return gr.update(value=None, label=say(NO_FILE), interactive=False)
