"""Lets the native stream read files with a reader that is written in Python."""

from __future__ import annotations

from loader import _native
from loader.errors import DataError
from loader.formats.errors import Fault, chunk_file_name, chunk_label, describe_fault
from loader.formats.format import Reader
from loader.rows.block import Block, to_native_block


class PythonBlocks:
    """Gives the native part a reader written in Python. `_native.PythonRowReader` calls it with Python's global lock
    held, from any thread. Its methods never raise."""

    def __init__(self, reader: Reader, shape: _native.RowShape) -> None:
        self._reader = reader
        self._shape = shape
        self.num_chunks = reader.num_chunks
        self.name = reader.name

    def read(self, chunk: int) -> tuple[list[Block], Fault | None, str, str]:
        """Reads a chunk. Returns the blocks before any fault, the fault or None, the chunk's file, and a name of the
        chunk within that file."""
        file, place = chunk_file_name(self._reader, chunk), chunk_label(self._reader, chunk)
        blocks: list[Block] = []
        try:
            for rows in self._reader.read(chunk):
                blocks.append(self._block(rows, len(blocks), file, place))
        except (Exception, SystemExit) as error:  # the reader's code is a user's
            return blocks, describe_fault(error, self._reader, chunk), file, place
        return blocks, None, file, place

    def _block(self, rows: object, number: int, file: str, place: str) -> Block:
        """Converts rows for the native part. Raises DataError, with file, chunk and block, for rows that can't be
        used."""
        try:
            return to_native_block(rows, self._shape)  # type: ignore[arg-type]
        except (ValueError, OverflowError) as error:
            block = f"block {number}" if number else ""
            raise DataError(
                file, ": ".join(filter(None, [", ".join(filter(None, [place, block])), str(error)]))
            ) from None
