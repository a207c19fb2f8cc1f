"""A format's reader that is written in Python, as the native stream calls it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from loader import _native
from loader.errors import DataError
from loader.formats.errors import Fault, fault_of, place_of
from loader.formats.format import Reader


class PythonChunks:
    """The object that `_native.PythonReader` calls, under the GIL and from any thread; it never raises."""

    def __init__(self, reader: Reader, needed: Sequence[str] = ()) -> None:
        self._reader = reader
        self._needed = needed
        self.num_chunks = reader.num_chunks
        self.name = reader.name

    def read(self, chunk: int) -> tuple[npt.NDArray[np.uint8], Fault | None]:
        """Records [entries, 32] of the entries before any fault."""
        entries: list[tuple[str, str, int, int | None, int | None]] = []
        fault: Fault | None = None
        try:
            for entry in self._reader.read(chunk):
                entries.append((entry.fen, entry.move, entry.score, entry.ply, entry.result))
        except (DataError, OSError) as error:
            fault = fault_of(error, self._reader, chunk)
        except Exception as error:  # the reader's code is a user's
            return _native.pack_records([]), fault_of(error, self._reader, chunk)
        try:  # what is no entry is the file's fault
            return _native.pack_records(entries, legal=True, needed=self._needed), fault
        except TypeError as error:
            return _native.pack_records([]), fault_of(error, self._reader, chunk)
        except ValueError as error:
            return _native.pack_records([]), (place_of(self._reader, chunk), str(error), None, "damaged")
