"""A format's reader that is written in Python, as the native stream calls it."""

from __future__ import annotations

import logging
from typing import Literal

import numpy as np
import numpy.typing as npt

from loader import _native
from loader.errors import DataChangedError, DataError, one_line
from loader.formats.format import Reader

log = logging.getLogger(__name__)

Fault = tuple[str, str, int | None, Literal["damaged", "changed", "unreadable"]]  # file, reason, offset, kind


class PythonChunks:
    """What `_native.PythonReader` asks of it; called under the GIL, by any thread, and never raises."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.num_chunks = reader.num_chunks
        self.name = reader.name

    def read(self, chunk: int) -> tuple[npt.NDArray[np.uint8], Fault | None]:
        """Records [entries, 32] of the entries before any fault."""
        entries: list[tuple[str, str, int, int, int]] = []
        fault: Fault | None = None
        try:
            for entry in self._reader.read(chunk):
                entries.append((entry.fen, entry.move, entry.score, entry.ply, entry.result))
            return _native.pack_records(entries), None
        except DataError as error:
            kind: Literal["changed", "damaged"] = "changed" if isinstance(error, DataChangedError) else "damaged"
            fault = (error.file, error.reason, error.offset, kind)
        except OSError as error:
            fault = (str(error.filename or self.name), error.strerror or str(error), None, "unreadable")
        except Exception as error:  # the reader's code is a user's
            log.exception("chunk %d of %s can't be read", chunk, self.name)
            fault = (self._place(chunk), f"{type(error).__name__}: {one_line(str(error))}", None, "unreadable")
            return _native.pack_records([]), fault
        try:
            return _native.pack_records(entries), fault
        except ValueError as error:
            return _native.pack_records([]), (self._place(chunk), str(error), None, "damaged")

    def _place(self, chunk: int) -> str:
        try:
            return str(self._reader.place(chunk).file)
        except Exception:
            return self.name
