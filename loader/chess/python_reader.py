"""An adapter that lets the native stream call the reader of a file format that is written in Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from typing import Any

import numpy as np
import numpy.typing as npt

from loader import _native
from loader.errors import DataError
from loader.formats.errors import Fault, chunk_file_name, describe_fault
from loader.formats.format import Reader
from loader.stream.skipped_data import SkippedData

_Entry = tuple[str, str, int, int | None, int | None]  # FEN, move, score, ply, result
_Records = npt.NDArray[np.uint8]


class PythonChunks:
    """The object that `_native.PythonReader` calls, under the GIL and from any thread, to read chunks of entries. Its
    methods never raise. Errors are returned as faults."""

    def __init__(self, reader: Reader, needed: Sequence[str] = (), *, skips: bool = False) -> None:
        """Wraps a reader. `needed` lists parts of an entry that must be present. With `skips`, entries that can't be
        used are left out and counted."""
        self._reader = reader
        self._needed = needed
        self._skips = skips
        self.num_chunks = reader.num_chunks
        self.name = reader.name

    def read(self, chunk: int) -> tuple[_Records, Fault | None, list[tuple[Any, ...]]]:
        """Reads a chunk of the file. Returns records [entries, 32] of the entries up to a fault, then the fault or
        None, then what was left out, as tuples of the fields of `SkippedData`."""
        entries: list[_Entry] = []
        fault: Fault | None = None
        try:
            for entry in self._reader.read(chunk):
                entries.append((entry.fen, entry.move, entry.score, entry.ply, entry.result))
        except (DataError, OSError) as error:
            fault = describe_fault(error, self._reader, chunk)
        except Exception as error:  # the reader may be a user's code, which can raise anything
            return _native.pack_records([]), describe_fault(error, self._reader, chunk), []
        try:  # an object that is no entry counts as damage of the file
            return _native.pack_records(entries, legal=True, needed=self._needed), fault, []
        except TypeError as error:
            return _native.pack_records([]), describe_fault(error, self._reader, chunk), []
        except ValueError as error:
            file = chunk_file_name(self._reader, chunk)
            if not self._skips:
                return _native.pack_records([]), (file, str(error), None, "damaged"), []
            good = [entry for entry in entries if self._is_good(entry)]
            skipped = SkippedData("damaged", len(entries) - len(good), 0, "entry", file, str(error), None)
            return _native.pack_records(good, legal=True, needed=self._needed), fault, [astuple(skipped)]

    def _is_good(self, entry: _Entry) -> bool:
        """Tells whether an entry is a legal position with all needed parts."""
        try:
            _native.pack_records([entry], legal=True, needed=self._needed)
        except ValueError:
            return False
        return True
