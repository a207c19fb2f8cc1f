"""The loader's one error for data it can't read, and the end of a command whose reader has gone."""

from __future__ import annotations

from pathlib import Path


class DataError(ValueError):
    """Damaged or unusable data: which file, where, and what is wrong (I8)."""

    def __init__(self, file: Path | str, reason: str, offset: int | None = None) -> None:
        self.file = str(file)
        self.offset = offset  # bytes from the start of the file; None if it is about the whole file
        self.reason = reason
        where = self.file if offset is None else f"{self.file}: offset {offset}"
        super().__init__(f"{where}: {reason}")


class PipeClosedError(Exception):
    """Nobody reads our output any more (`loader dump FILE | head`): not an error, but time to stop."""
