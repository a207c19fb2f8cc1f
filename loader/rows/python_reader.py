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
        file, label = chunk_file_name(self._reader, chunk), chunk_label(self._reader, chunk)
        blocks: list[Block] = []
        try:
            for rows in self._reader.read(chunk):
                blocks.append(self._convert_rows(rows, len(blocks), file, label))
        except (Exception, SystemExit) as error:  # the reader's code is a user's
            return blocks, describe_fault(error, self._reader, chunk), file, label
        return blocks, None, file, label

    def _convert_rows(self, rows: object, number: int, file: str, label: str) -> Block:
        """Converts rows, block `number` of a chunk, for the native part. Raises DataError, with file, chunk and block,
        for rows that can't be used."""
        try:
            return to_native_block(rows, self._shape)  # type: ignore[arg-type]
        except (ValueError, OverflowError) as error:
            location = [label] if label else []
            if number > 0:
                location.append(f"block {number}")
            reason = f"{', '.join(location)}: {error}" if location else str(error)
            raise DataError(file, reason) from None
