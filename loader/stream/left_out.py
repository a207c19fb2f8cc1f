"""Data that were left out since they can't be used: what, how many, and where the first of them is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

from loader.errors import DataError

_LARGER_UNITS = ("game", "chain", "chunk")  # that have several samples


@dataclass(frozen=True)
class LeftOut:
    """Data of one kind. The fields are those that native functions give, in their order."""

    kind: str  # in words: "damaged", or what no position may be
    samples: int  # as many as can be known of
    units: int  # whole games, lines or records
    unit: str  # the noun for one of them
    file: str  # of the first
    reason: str  # what is wrong with it, and its place in words
    offset: int | None  # of the file
    chunk: int | None = None  # of all files of a stream; None: several, or of no stream

    @property
    def first(self) -> DataError:
        """The first place, as an error says it."""
        return DataError(self.file, self.reason, self.offset)

    def describe(self, samples: str) -> str:
        """Returns a line for people. `samples`: what they are called, in the plural."""
        noun = samples.removesuffix("s") if self.samples == 1 else samples
        inside = ""
        if self.unit in _LARGER_UNITS and self.units:
            inside = f" in {self.units:,} {self.unit}{'' if self.units == 1 else 's'}"
        return f"left out: {self.kind}: {self.samples:,} {noun}{inside}; the first: {self.first}"


class LeftOutChunks:
    """Counts of what was left out, by chunk. A chunk that is read again changes nothing."""

    def __init__(self) -> None:
        self._chunks: dict[int, tuple[LeftOut, ...]] = {}

    def record(self, chunk: int, found: Iterable[LeftOut]) -> None:
        """Sets what was left out of a chunk. May be called by several threads."""
        if kinds := tuple(found):
            self._chunks[chunk] = kinds

    def totals(self) -> Sequence[LeftOut]:
        """Returns the sum over all chunks, by kind."""
        return total(kind for chunk in sorted(self._chunks) for kind in self._chunks[chunk])

    def to_json(self) -> Mapping[str, Any]:
        return {str(chunk): [astuple(kind) for kind in kinds] for chunk, kinds in list(self._chunks.items())}

    def add_json(self, chunks: Mapping[str, Any]) -> None:
        """Adds what an earlier process has found, as `to_json` gave it."""
        for chunk, kinds in chunks.items():
            self.record(int(chunk), (LeftOut(*kind) for kind in kinds))


def total(found: Iterable[LeftOut]) -> Sequence[LeftOut]:
    """Adds up what was left out, by kind; the first place of each stays."""
    kinds: dict[tuple[str, str], LeftOut] = {}
    for each in found:
        before = kinds.get((each.kind, each.unit))
        if before is None:
            kinds[each.kind, each.unit] = replace(each, chunk=None)
        else:
            samples, units = before.samples + each.samples, before.units + each.units
            kinds[each.kind, each.unit] = replace(before, samples=samples, units=units)
    return list(kinds.values())


def damaged_chunk(file: str, reason: str, offset: int | None, samples: int) -> LeftOut:
    """Describes a chunk of which nothing is used, since no unit behind the damage in it can be found. `samples`: read
    before the damage."""
    return LeftOut("a damaged chunk", samples, 1, "chunk", file, reason, offset)
