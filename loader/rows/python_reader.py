"""A format's reader that is written in Python, as the native stream calls it."""

from __future__ import annotations

from loader import _native
from loader.errors import DataError
from loader.formats.faults import Fault, fault_of, place_of
from loader.formats.format import Reader
from loader.rows.block import Block, native_block


class PythonBlocks:
    """What `_native.PythonRowReader` asks of it; called under the GIL, by any thread, and never raises."""

    def __init__(self, reader: Reader, shape: _native.RowShape) -> None:
        self._reader = reader
        self._shape = shape
        self.num_chunks = reader.num_chunks
        self.name = reader.name

    def read(self, chunk: int) -> tuple[list[Block], Fault | None, str]:
        """The blocks before any fault, the fault, and the file."""
        file = place_of(self._reader, chunk)
        blocks: list[Block] = []
        try:
            for rows in self._reader.read(chunk):
                blocks.append(self._block(rows, chunk, len(blocks), file))
        except Exception as error:  # the reader's code is a user's
            return blocks, fault_of(error, self._reader, chunk), file
        return blocks, None, file

    def _block(self, rows: object, chunk: int, number: int, file: str) -> Block:
        try:
            return native_block(rows, self._shape)  # type: ignore[arg-type]
        except (ValueError, OverflowError) as error:
            raise DataError(file, f"chunk {chunk}, block {number}: {error}") from None
