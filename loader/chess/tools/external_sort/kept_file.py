"""A file that a tool writes besides its output, in a work file, so that a later process can go on with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loader.files.work_file import WorkFile


class KeptFile:
    """A NamelessFile whose content is committed as a whole, by `commit`."""

    def __init__(self, work: WorkFile) -> None:
        self._work = work
        self._parts: list[memoryview] = []
        self._written = 0
        self._at = 0

    @property
    def size(self) -> int:
        return self._work.end + self._written

    def seek(self, offset: int) -> None:
        """Moves the place where reading begins."""
        self._at = offset

    def fill(self, rest: memoryview) -> None:
        """Reads as many bytes; the next ones are read next."""
        self._work.read(self._at, rest)
        self._at += len(rest)

    def write(self, rest: memoryview) -> None:
        """Must not change until it is committed."""
        self._parts.append(rest)
        self._written += len(rest)

    def commit(self, state: Mapping[str, Any]) -> None:
        """All that was written since the last time, with the command's state after it. Raises OSError."""
        parts, self._parts = self._parts, []
        self._work.commit_parts(self._written, parts, state)
        self._written = 0
