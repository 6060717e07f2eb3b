"""Read the Spacefile: which model pairs a deployment serves, on what hardware, within what limits.

The file is ours, TOML, and read strictly: an unknown key, a wrong type or a value out of range is
a SpacefileError with one sentence naming the key. Nothing here loads a model.
"""

import dataclasses
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from spork_demo.cluster_spec import Cluster, read_cluster
from spork_demo.limits import LIMIT_RANGES, Limits
from spork_demo.served.server import Server, read_server
from spork_demo.settings import DRAFTERS, JUDGES, METHODS, RULES
from spork_demo.spacefile_table import SpacefileError, Table

VERSION = 1
SOURCES = ("embedded", "folder", "hub")
DTYPES = ("auto", "float32", "bfloat16", "float16", "int8")
DEVICE_MAPS = ("none", "auto")
NEEDS = ("cpu", "gpu")


@dataclass(frozen=True, slots=True)
class ModelRef:
    """Where one model comes from: embedded, a local folder, or a hub id with its revision."""

    source: str
    id: str = ""
    revision: str = ""


@dataclass(frozen=True, slots=True)
class PairSpec:
    """One target with the draft model that goes with it, before anything is loaded.

    ngram_table: file of counts over the target's own text, or "" where there is none.
    about: for the page: what the drafters learned from, what narrower weights cost; or "".
    memory_gb: what both models need, in 10^9 bytes, at the declared dtype.
    """

    name: str
    target: ModelRef
    draft: ModelRef | None = None
    dspark: ModelRef | None = None
    ngram_table: str = ""
    about: str = ""
    dtype: str = "auto"
    device_map: str = "none"
    memory_gb: float = 0.0
    licence: str = ""
    languages: tuple[str, ...] = ()
    needs: str = "cpu"


@dataclass(frozen=True, slots=True)
class Hardware:
    """The machine a deployment asks for, and the versions it is built with."""

    profile: str
    python: str
    gradio: str


@dataclass(frozen=True, slots=True)
class Preset:
    """One entry of the lane picker."""

    name: str
    method: str
    rules: str = "exact"
    drafter: str = "auto"
    judge: str = "auto"


@dataclass(frozen=True, slots=True)
class Spacefile:
    """The whole file. There is at least one pair; the first is the default.

    mcp: whether programs find the endpoints as tools too.
    """

    hardware: Hardware
    limits: Limits
    pairs: tuple[PairSpec, ...]
    presets: tuple[Preset, ...]
    served: tuple[Server, ...] = ()
    mcp: bool = False
    cluster: Cluster | None = None


def read_spacefile(path: Path) -> Spacefile:
    """Read and check the file at `path`; model folders are taken relative to it."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SpacefileError("The Spacefile is missing or cannot be read.") from error
    spacefile = parse_spacefile(text)
    pairs = tuple(_anchored(pair, path.parent) for pair in spacefile.pairs)
    return dataclasses.replace(spacefile, pairs=pairs)


def parse_spacefile(text: str) -> Spacefile:
    """Check the text of a Spacefile and return what it says."""
    try:
        top = Table(tomllib.loads(text), "")
    except tomllib.TOMLDecodeError as error:
        raise SpacefileError(f"The Spacefile is not valid TOML: {error}.") from error
    except (ValueError, RecursionError) as error:  # a number or a nesting beyond all bounds
        raise SpacefileError("The Spacefile is not valid TOML.") from error
    top.whole("spork_demo", VERSION, VERSION)
    hardware = top.table("hardware")
    limits = top.table("limits")
    spacefile = Spacefile(
        hardware=Hardware(*(hardware.text(key) for key in ("profile", "python", "gradio"))),
        limits=Limits(**{key: limits.whole(key, *ends) for key, ends in LIMIT_RANGES.items()}),
        pairs=tuple(_pair(table) for table in top.tables("pairs")),
        presets=tuple(_preset(table) for table in top.tables("presets")),
        served=tuple(read_server(table) for table in top.tables("served"))
        if "served" in top
        else (),
        mcp=top.flag("mcp") if "mcp" in top else False,
        cluster=read_cluster(top.table("cluster")) if "cluster" in top else None,
    )
    for table in (hardware, limits, top):
        table.refuse_leftovers()
    _refuse_doubles("pairs", [pair.name for pair in spacefile.pairs])
    _refuse_doubles("presets", [preset.name for preset in spacefile.presets])
    _refuse_doubles("served", [server.name for server in spacefile.served])
    return spacefile


def _pair(table: Table) -> PairSpec:
    pair = PairSpec(
        name=table.text("name"),
        target=_model(table.table("target")),
        draft=_model(table.table("draft")) if "draft" in table else None,
        dspark=_model(table.table("dspark")) if "dspark" in table else None,
        ngram_table=table.text("ngram_table") if "ngram_table" in table else "",
        about=table.text("about") if "about" in table else "",
        dtype=table.choice("dtype", DTYPES),
        device_map=table.choice("device_map", DEVICE_MAPS),
        memory_gb=table.number("memory_gb", 0.1, 10_000.0),
        licence=table.text("licence"),
        languages=table.texts("languages"),
        needs=table.choice("needs", NEEDS),
    )
    table.refuse_leftovers()
    return pair


def _model(table: Table) -> ModelRef:
    source = table.choice("source", SOURCES)
    identity = "" if source == "embedded" else table.text("id")
    revision = table.text("revision") if source == "hub" and "revision" in table else ""
    table.refuse_leftovers()
    return ModelRef(source, identity, revision)


def _preset(table: Table) -> Preset:
    preset = Preset(
        name=table.text("name"),
        method=table.choice("method", METHODS),
        rules=table.choice("rules", RULES) if "rules" in table else "exact",
        drafter=table.choice("drafter", DRAFTERS) if "drafter" in table else "auto",
        judge=table.choice("judge", JUDGES) if "judge" in table else "auto",
    )
    table.refuse_leftovers()
    return preset


def _anchored(pair: PairSpec, folder: Path) -> PairSpec:
    def anchored(ref: ModelRef | None) -> ModelRef | None:
        if ref is None or ref.source != "folder":
            return ref
        return dataclasses.replace(ref, id=str(folder / ref.id))

    roles = {role: anchored(getattr(pair, role)) for role in ("target", "draft", "dspark")}
    table = str(folder / pair.ngram_table) if pair.ngram_table else ""
    return dataclasses.replace(pair, ngram_table=table, **roles)


def _refuse_doubles(key: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise SpacefileError(f"{key} in the Spacefile holds the name {name!r} twice.")
        seen.add(name)
