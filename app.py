"""Read the Spacefile, put the page up on recorded races, load the model behind it."""

from pathlib import Path

from spork_demo.host import DeferredHost, Host
from spork_demo.spacefile import read_spacefile
from spork_demo.trace_file import read_races
from spork_demo.ui.page import build_page, launch_options

ROOT = Path(__file__).resolve().parent
SPACEFILE = read_spacefile(ROOT / "Spacefile")


def local_host() -> Host:
    """The engine on this machine, its default pair loading in the background."""
    from spork_demo.runtime import LocalHost  # noqa: PLC0415 - torch must not delay the page

    host = LocalHost(SPACEFILE)
    host.start()
    return host
