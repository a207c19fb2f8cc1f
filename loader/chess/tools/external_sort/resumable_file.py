"""A temporary file of a tool that survives an interruption, so that a later process can continue with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loader.files.work_file import WorkFile


class ResumableFile:
    """Bytes in a work file (OUT.part), appended and committed together with the command's state. Has the interface of
    `UnnamedFile`."""

    def __init__(self, work: WorkFile) -> None:
        self._work = work
        self._parts: list[memoryview] = []
        self._written = 0
        self._read_offset = 0

    @property
    def size(self) -> int:
        return self._work.end + self._written

    def seek(self, offset: int) -> None:
        """Sets the offset at which `fill` reads."""
        self._read_offset = offset

    def fill(self, buffer: memoryview) -> None:
        """Reads bytes until `buffer` is full, and moves the offset of reading behind them."""
        self._work.read(self._read_offset, buffer)
        self._read_offset += len(buffer)

    def write(self, data: memoryview) -> None:
        """Appends bytes. The caller must not change them until `commit`."""
        self._parts.append(data)
        self._written += len(data)

    def commit(self, state: Mapping[str, Any]) -> None:
        """Commits all bytes that were written since the last commit, together with the command's state after them.
        Raises OSError."""
        parts, self._parts = self._parts, []
        self._work.commit_parts(self._written, parts, state)
        self._written = 0
