"""The YAML at the top of README.md that a Space is configured by: read, and made for a machine."""

from typing import Any

import yaml

from spork_demo.deploy.hardware import Machine
from spork_demo.models.embedded import HUB_ID
from spork_demo.spacefile import PairSpec, Spacefile

FENCE = "---\n"


def read(readme: str) -> dict[str, Any]:
    """The front matter; ValueError with a sentence where there is none."""
    parts = readme.split(FENCE, 2)
    try:
        found = yaml.safe_load(parts[1]) if len(parts) == 3 and not parts[0] else None
    except yaml.YAMLError as error:
        raise ValueError("The front matter of README.md is not valid YAML.") from error
    if not isinstance(found, dict):
        raise ValueError("README.md does not begin with front matter between two lines of ---.")
    return found


def served(spacefile: Spacefile, machine: Machine) -> tuple[PairSpec, ...]:
    """The pairs that can run on a machine; 8-bit weights only where there is no GPU."""
    gpu = bool(machine.gpu_memory)
    return tuple(
        pair
        for pair in spacefile.pairs
        if (pair.needs == "cpu" or gpu) and not (gpu and pair.dtype == "int8")
    )


def models(pairs: tuple[PairSpec, ...]) -> list[str]:
    """Their repositories on the hub, each once, in order."""
    refs = [ref for pair in pairs for ref in (pair.target, pair.draft, pair.dspark) if ref]
    names = [
        HUB_ID if ref.source == "embedded" else ref.id for ref in refs if ref.source != "folder"
    ]
    return list(dict.fromkeys(names))


def for_machine(readme: str, spacefile: Spacefile, machine: Machine) -> str:
    """README.md with the models of a machine, and those of the hub fetched while it is built."""
    found = read(readme)
    listed = models(served(spacefile, machine))
    found["models"] = listed
    found["suggested_hardware"] = machine.hub
    if machine.lent:  # not in the list of hardware that may be suggested
        del found["suggested_hardware"]
    fetched = [name for name in listed if name != HUB_ID]
    if fetched:
        found["preload_from_hub"] = fetched
    text = yaml.safe_dump(found, sort_keys=False, allow_unicode=True)
    return FENCE + text + FENCE + readme.split(FENCE, 2)[2]
