"""Data that were left out because they can't be used: which kind, how many samples, and where the first of them is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

from loader.errors import DataError

_LARGER_UNITS = ("game", "chain", "chunk")  # units that hold several samples


@dataclass(frozen=True)
class SkippedData:
    """Data of one kind that were left out, of one chunk or of several. The native module makes it from its own record,
    so the order of the fields is fixed."""

    kind: str  # what is wrong, as text: "damaged", or what no position may be
    samples: int  # number of samples lost, as far as it can be known
    units: int  # number of games, lines or records that were left out as a whole
    unit: str  # what one of those is called: "game", "line", "record"
    file: str  # file with the first fault of this kind
    reason: str  # what is wrong there, and the place as text
    offset: int | None  # bytes from the start of the file to the first fault
    chunk: int | None = None  # number over all files of a stream; None: several chunks, or no stream

    @property
    def first(self) -> DataError:
        """Returns a DataError that names the first place where data of this kind were left out."""
        return DataError(self.file, self.reason, self.offset)

    def describe(self, samples: str) -> str:
        """Returns a line for people. `samples`: what the samples are called, in the plural ("positions")."""
        sample_name = samples.removesuffix("s") if self.samples == 1 else samples
        counts = f"{self.samples:,} {sample_name}"
        if self.unit in _LARGER_UNITS and self.units:
            unit_name = self.unit if self.units == 1 else f"{self.unit}s"
            counts += f" in {self.units:,} {unit_name}"
        return f"left out: {self.kind}: {counts}; the first: {self.first}"


class SkippedChunks:
    """Records which data each chunk lost. A chunk that is read again replaces its own record, so nothing is counted
    twice."""

    def __init__(self) -> None:
        self._chunks: dict[int, tuple[SkippedData, ...]] = {}

    def record(self, chunk: int, skipped: Iterable[SkippedData]) -> None:
        """Records the data left out of chunk number `chunk`, in place of the chunk's earlier record. Does nothing if
        nothing was left out. May be called by several threads."""
        kinds = tuple(skipped)
        if kinds:
            self._chunks[chunk] = kinds

    def totals(self) -> Sequence[SkippedData]:
        """Returns the data left out of all chunks, added up by kind."""
        return add_up_skipped(kind for chunk in sorted(self._chunks) for kind in self._chunks[chunk])

    def to_json(self) -> Mapping[str, Any]:
        """Returns the records as plain data, for a process that continues the work: by the chunk's number, the fields
        of each SkippedData."""
        return {str(chunk): [astuple(kind) for kind in kinds] for chunk, kinds in list(self._chunks.items())}

    def add_json(self, chunks: Mapping[str, Any]) -> None:
        """Adds the records of an earlier process, as its `to_json` returned them."""
        for chunk, kinds in chunks.items():
            self.record(int(chunk), (SkippedData(*kind) for kind in kinds))


def add_up_skipped(skipped: Iterable[SkippedData]) -> Sequence[SkippedData]:
    """Adds up data left out, by kind and unit. The first place of each kind is kept."""
    totals: dict[tuple[str, str], SkippedData] = {}
    for data in skipped:
        key = data.kind, data.unit
        if key not in totals:
            totals[key] = replace(data, chunk=None)
        else:
            total = totals[key]
            totals[key] = replace(total, samples=total.samples + data.samples, units=total.units + data.units)
    return list(totals.values())


def skipped_chunk(file: str, reason: str, offset: int | None, samples: int) -> SkippedData:
    """Describes a damaged chunk, of which nothing is used because no record after the damage can be found. `samples`:
    read before the damage."""
    return SkippedData("a damaged chunk", samples, 1, "chunk", file, reason, offset)
