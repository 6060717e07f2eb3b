"""Read the Spacefile: which model pairs a deployment serves, on what hardware, within what limits.

The file is ours, TOML, and read strictly: an unknown key, a wrong type or a value out of range is
a SpacefileError with one sentence naming the key. Nothing here loads a model.
"""

import dataclasses
import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spork_demo.cluster_spec import Cluster, read_cluster
from spork_demo.limits import LIMIT_RANGES, Limits
from spork_demo.served.server import Server, read_server
from spork_demo.settings import DRAFTERS, JUDGES, METHODS, RULES

VERSION = 1
SOURCES = ("embedded", "folder", "hub")
DTYPES = ("auto", "float32", "bfloat16", "float16", "int8")
DEVICE_MAPS = ("none", "auto")
NEEDS = ("cpu", "gpu")


class SpacefileError(ValueError):
    """The Spacefile cannot be used. The message is one sentence naming the key."""


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
        top = _Table(tomllib.loads(text), "")
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


def _pair(table: "_Table") -> PairSpec:
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


def _model(table: "_Table") -> ModelRef:
    source = table.choice("source", SOURCES)
    identity = "" if source == "embedded" else table.text("id")
    revision = table.text("revision") if source == "hub" and "revision" in table else ""
    table.refuse_leftovers()
    return ModelRef(source, identity, revision)


def _preset(table: "_Table") -> Preset:
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


class _Table:
    """One TOML table that is read key by key; what was never asked for is refused at the end."""

    def __init__(self, values: Mapping[str, Any], where: str):
        self._values = dict(values)
        self._where = where

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def text(self, key: str) -> str:
        value = self._take(key)
        if not isinstance(value, str) or not value.strip():
            raise self.refuse(key, "must be a text that is not empty")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        value = self._take(key)
        if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
            raise self.refuse(key, "must be a list of texts")
        return tuple(value)

    def choice(self, key: str, allowed: tuple[str, ...]) -> str:
        value = self._take(key)
        if value not in allowed:
            raise self.refuse(key, f"must be one of {', '.join(allowed)}")
        return value

    def whole(self, key: str, low: int, high: int) -> int:
        value = self._take(key)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            span = f"{low}" if low == high else f"between {low} and {high}"
            raise self.refuse(key, f"must be a whole number, {span}")
        return value

    def number(self, key: str, low: float, high: float) -> float:
        value = self._take(key)
        wrong_kind = isinstance(value, bool) or not isinstance(value, int | float)
        if wrong_kind or not math.isfinite(value) or not low <= value <= high:
            raise self.refuse(key, f"must be a number between {low:g} and {high:g}")
        return float(value)

    def flag(self, key: str) -> bool:
        value = self._take(key)
        if not isinstance(value, bool):
            raise self.refuse(key, "must be true or false")
        return value

    def table(self, key: str) -> "_Table":
        value = self._take(key)
        if not isinstance(value, dict):
            raise self.refuse(key, "must be a table")
        return _Table(value, self._path(key))

    def tables(self, key: str) -> list["_Table"]:
        value = self._take(key)
        if not isinstance(value, list) or not value or not all(isinstance(v, dict) for v in value):
            raise self.refuse(key, "must be at least one table in double brackets")
        return [_Table(item, f"{self._path(key)}[{n}]") for n, item in enumerate(value)]

    def refuse_leftovers(self) -> None:
        for key in self._values:
            raise self.refuse(key, "is not a key this version knows")

    def _take(self, key: str) -> Any:
        if key not in self._values:
            raise self.refuse(key, "is missing")
        return self._values.pop(key)

    def _path(self, key: str) -> str:
        return f"{self._where}.{key}" if self._where else key

    def refuse(self, key: str, what: str) -> SpacefileError:
        return SpacefileError(f"{self._path(key)} in the Spacefile {what}.")
