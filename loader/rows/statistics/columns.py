"""Statistics of each column of a file of rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from loader.formats.file_tools import Statistics
from loader.rows.spellings import Spellings

MAX_DISTINCT = 10_000  # different texts of a column that are counted


@dataclass
class Column:
    """The statistics of one column. `add` and `add_texts` update them part by part of the file."""

    name: str
    kind: str = "empty"  # "number", "text", "list" or another, as soon as there is a value
    missing: int = 0
    smallest: float | None = None  # of the numbers, or of the numbers in lists
    largest: float | None = None
    longest: int | None = None  # characters of the longest text, or length of the longest list
    distinct: int | None = 0  # number of different texts; None: more than MAX_DISTINCT
    spellings: Spellings = field(default_factory=Spellings)  # of texts, and of integers
    _texts: set[str] = field(default_factory=set, repr=False)

    def add(self, kind: str, missing: int, numbers: Sequence[float] = (), longest: int | None = None) -> None:
        """Adds a part of the column, whose values are of this kind. `missing`: number of missing values. `numbers`: all
        numbers, or only the smallest and largest; NaN is ignored. `longest`: length of the longest text or list."""
        self.missing += missing
        if kind != "empty":
            self.kind = kind if self.kind in ("empty", kind) else "text"
        for number in numbers:
            if math.isnan(number):
                continue
            self.smallest = float(number) if self.smallest is None else min(self.smallest, float(number))
            self.largest = float(number) if self.largest is None else max(self.largest, float(number))
        if longest is not None:
            self.longest = max(longest, self.longest or 0)

    def add_texts(self, texts: set[str]) -> None:
        """Adds the different texts in a part of the column, to count the distinct ones."""
        if self.distinct is None:
            return
        self._texts |= texts
        self.distinct = len(self._texts)
        if self.distinct > MAX_DISTINCT:
            self.distinct = None
            self._texts.clear()

    def to_dict(self) -> dict[str, Any]:
        """Returns the statistics as plain data, for JSON."""
        fields = {name: value for name, value in vars(self).items() if name != "_texts"}
        fields["spellings"] = self.spellings.to_dict()
        if self.kind not in ("number", "list"):
            fields["smallest"] = fields["largest"] = None
        return fields

    def describe(self) -> str:
        """Returns the statistics as text, for people."""
        parts = [self.kind]
        if self.kind in ("number", "list") and self.smallest is not None and self.largest is not None:
            parts.append(f"{self.smallest:.7g} to {self.largest:.7g}")
        if self.kind == "list" and self.longest is not None:
            parts.append(f"{self.longest} at most")
        if self.kind in ("number", "text"):
            count = f"more than {MAX_DISTINCT:,}" if self.distinct is None else f"{self.distinct:,}"
            parts.append(f"{count} values")
        if self.missing:
            parts.append(f"{self.missing:,} missing")
        if not (self.spellings.is_plain or self.spellings.is_real):
            parts.append(f"spellings: {self.spellings.summary()}")
        return ", ".join(parts)


@dataclass(frozen=True)
class ColumnStatistics(Statistics):
    """The statistics of a file with columns."""

    file: str
    bytes: int
    entries: int
    columns: Sequence[Column]

    def to_dict(self) -> dict[str, Any]:
        """Returns the statistics as plain data, for JSON."""
        columns = [column.to_dict() for column in self.columns]
        return {"file": self.file, "bytes": self.bytes, "entries": self.entries, "columns": columns}

    def rows(self) -> list[tuple[str, str]]:
        return [
            ("bytes", f"{self.bytes:,}"),
            ("rows", f"{self.entries:,} ({self.bytes / max(self.entries, 1):,.1f} bytes each)"),
            *((f"{number}: {column.name}", column.describe()) for number, column in enumerate(self.columns)),
        ]
