"""Tables of the Spacefile, read key by key and strictly."""

import math
from collections.abc import Mapping
from typing import Any


class SpacefileError(ValueError):
    """The Spacefile cannot be used. The message is one sentence naming the key."""


class Table:
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

    def table(self, key: str) -> "Table":
        value = self._take(key)
        if not isinstance(value, dict):
            raise self.refuse(key, "must be a table")
        return Table(value, self._path(key))

    def tables(self, key: str) -> list["Table"]:
        value = self._take(key)
        if not isinstance(value, list) or not value or not all(isinstance(v, dict) for v in value):
            raise self.refuse(key, "must be at least one table in double brackets")
        return [Table(item, f"{self._path(key)}[{n}]") for n, item in enumerate(value)]

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
