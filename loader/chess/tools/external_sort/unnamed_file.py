"""A temporary file without a name, of which nothing remains however the process ends."""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self


class UnnamedFile:
    """A temporary file that is written at its end and read anywhere. A context manager. Raises OSError, which names the
    folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.size = 0

    def __enter__(self) -> Self:
        self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def seek(self, offset: int) -> None:
        """Sets the offset at which `fill` reads."""
        self._file.seek(offset)

    def fill(self, rest: memoryview) -> None:
        """Reads bytes until `rest` is full, and moves the offset of reading behind them."""
        while rest:
            rest = rest[self._file.readinto(rest) or 0 :]

    def write(self, rest: memoryview) -> None:
        """Appends bytes."""
        try:
            while rest:
                written = self._file.write(rest) or 0
                rest, self.size = rest[written:], self.size + written
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self._folder)) from None
