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

    def fill(self, buffer: memoryview) -> None:
        """Reads bytes until `buffer` is full, and moves the offset of reading behind them."""
        while buffer:
            num_read = self._file.readinto(buffer) or 0
            buffer = buffer[num_read:]

    def write(self, data: memoryview) -> None:
        """Appends bytes."""
        try:
            while data:
                written = self._file.write(data) or 0
                data = data[written:]
                self.size += written
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self._folder)) from None
