"""`python -m spork_demo deploy`: check what a Space would be given, and give it."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from spork_demo.deploy.check import check
from spork_demo.deploy.hardware import MACHINES
from spork_demo.deploy.upload import stage, upload
from spork_demo.spacefile import SpacefileError, read_spacefile


def run(root: Path, space_id: str, profile: str, told: Callable[[str], None]) -> int:
    """0 when all fits and, where a Space is named, it is uploaded; 1 with every mismatch told."""
    try:
        spacefile = read_spacefile(root / "Spacefile")
    except SpacefileError as error:
        told(f"wrong: {error}")
        return 1
    profile = profile or spacefile.hardware.profile
    report = check(root, spacefile, profile)
    for note in report.notes:
        told(f"note: {note}")
    for sentence in report.wrong:
        told(f"wrong: {sentence}")
    if report.wrong:
        return 1
    told(f"All fits for {profile}.")
    if space_id:
        machine = MACHINES[profile]
        with tempfile.TemporaryDirectory() as folder:
            stage(root, Path(folder), spacefile, machine, profile)
            told(f"Uploaded to {upload(space_id, Path(folder), machine)}.")
        if not machine.free:
            told("Choose its hardware in the settings of the Space: it has a price an hour.")
    return 0
