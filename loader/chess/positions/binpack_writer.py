"""Binpack files written: entries put into chains and chunks; chunks of other files copied entry by entry.

Native code does the work, chunk by chunk with the GIL released. Damage of an input ends in a DataError that names file
and offset (I8).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from loader._native import BinpackFile, BinpackWriter
from loader.chess.positions.entry import Entry
from loader.chess.positions.file import damage_error
from loader.files.new_file import NewFile


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
