"""A file without a name: nothing remains of it however the process ends."""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self


class NamelessFile:
    """Written at its end, read anywhere. A context manager. Raises OSError, which names the folder."""

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
        """Moves the place where reading begins."""
        self._file.seek(offset)

    def fill(self, rest: memoryview) -> None:
        """Reads as many bytes; the next ones are read next."""
        while rest:
            rest = rest[self._file.readinto(rest) or 0 :]

    def write(self, rest: memoryview) -> None:
        try:
            while rest:
                written = self._file.write(rest) or 0
                rest, self.size = rest[written:], self.size + written
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self._folder)) from None
