"""Binpack files as Python sees them: walk through the entries, verify, write.

The work is done in the native part, chunk by chunk with the GIL released. Damage is never skipped silently:
what was read before it is good, and it ends in a DataError or a verdict that names file and offset (I8).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from loader._native import BinpackFile, BinpackWriter, ChunkPrinter, Damage
from loader.chess.positions.entry import Entry, entry_of
from loader.chess.positions.verdict import Judged, illegal_of, verdict
from loader.errors import DataError
from loader.files.new_file import NewFile
from loader.formats.format import OnProgress, Verdict
from loader.formats.parallel import map_chunks

LINES_AT_ONCE = 4096


def describe(damage: Damage, in_chunk: bool) -> str:
    """The damage in words; inside a chunk its offset is that of the chain's stem."""
    return f"{damage.reason} (entry {damage.entry_in_chain} of its chain)" if in_chunk else damage.reason


def damage_error(path: Path | str, damage: Damage, in_chunk: bool) -> DataError:
    return DataError(path, describe(damage, in_chunk), damage.offset)


def verify(path: Path | str, threads: int = 1, progress: OnProgress | None = None) -> Verdict:
    """Reads and judges every entry of a file, up to the first damage."""

    def chunks() -> Iterator[Judged]:
        file = BinpackFile(path)
        for chunk, judged in enumerate(map_chunks(partial(judge_chunk, path, file), file.num_chunks, threads)):
            yield judged
            if progress is not None:
                progress(sum(file.chunk(chunk)), file.size)
        if file.header_damage is not None:
            raise damage_error(path, file.header_damage, in_chunk=False)

    return verdict(str(path), chunks())


def judge_chunk(path: Path | str, file: BinpackFile, chunk: int) -> Judged:
    """Raises DataError for a chunk that can't be read any more."""
    entries, illegal, damage = file.judge(chunk)
    error = None if damage is None else damage_error(path, damage, in_chunk=True)
    return Judged(entries, illegal_of(illegal), error)


def dump(path: Path | str, limit: int | None = None) -> Iterator[bytes]:
    """Blocks of whole lines, one line an entry: FEN, move, score, ply, result, tab separated.

    Raises DataError at damage, after the entries before it.
    """
    file = BinpackFile(path)
    left = limit
    for chunk in range(file.num_chunks):
        printer = ChunkPrinter(file, chunk)
        while left is None or left > 0:
            lines = printer.lines(LINES_AT_ONCE if left is None else min(left, LINES_AT_ONCE))
            if not lines:
                break
            if left is not None:
                left -= lines.count(b"\n")
            yield lines
        if left == 0:
            return
        if printer.damage is not None:
            raise damage_error(path, printer.damage, in_chunk=True)
    if file.header_damage is not None and left != 0:
        raise damage_error(path, file.header_damage, in_chunk=False)


def entries(path: Path | str, limit: int | None = None) -> Iterator[Entry]:
    """The entries in file order. Raises DataError at damage, after the entries before it."""
    for block in dump(path, limit):
        yield from map(entry_of, block.decode().splitlines())


def encode(chain: Iterable[Entry]) -> bytes:
    """Entries as chunks of their own, a file by themselves. Raises ValueError if the format can't hold one."""
    native = BinpackWriter()
    for entry in chain:
        native.add(entry.fen, entry.move, entry.score, entry.ply, entry.result)
    native.finish()
    return native.take()


def rechunk(path: Path | str) -> Iterator[bytes]:
    """The entries of a file in chunks of about 1 MiB, as a Writer would write them. Raises DataError at damage."""
    native = BinpackWriter()
    file = BinpackFile(path)
    for chunk in range(file.num_chunks):
        damage = native.copy_chunk(file, chunk)
        if damage is not None:
            raise damage_error(path, damage, in_chunk=True)
        if closed := native.take():
            yield closed
    if file.header_damage is not None:
        raise damage_error(path, file.header_damage, in_chunk=False)
    native.finish()
    yield native.take()


class Writer:
    """Writes a binpack file, which appears when everything is in it.

    A context manager; an exception inside leaves nothing behind. Raises FileExistsError if something has the name.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.native = BinpackWriter()
        self._file = NewFile(self.path)

    def __enter__(self) -> Self:
        self._file.__enter__()
        return self

    def add(self, entry: Entry) -> None:
        """Adds an entry; FENs as python-chess prints them follow the format's rule for en passant.

        Raises ValueError if the format can't hold the entry; then nothing has changed.
        """
        self.native.add(entry.fen, entry.move, entry.score, entry.ply, entry.result)
        self._flush()

    def add_file(self, path: Path | str, first_chain: int = 0) -> None:
        """Adds all entries of a file, in each chunk from chain `first_chain` on and then those before it.

        Raises DataError at damage.
        """
        file = BinpackFile(path)
        for chunk in range(file.num_chunks):
            damage = self.native.copy_chunk(file, chunk, first_chain)
            self._flush()
            if damage is not None:
                raise damage_error(path, damage, in_chunk=True)
        if file.header_damage is not None:
            raise damage_error(path, file.header_damage, in_chunk=False)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.native.finish()
                self._flush()
                self._file.publish()
        finally:
            self._file.__exit__(kind, error, trace)

    def _flush(self) -> None:
        closed = self.native.take()
        if closed:
            self._file.write(closed)
