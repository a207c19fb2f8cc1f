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
        self._at = 0

    @property
    def size(self) -> int:
        return self._work.end + self._written

    def seek(self, offset: int) -> None:
        """Sets the offset at which `fill` reads."""
        self._at = offset

    def fill(self, rest: memoryview) -> None:
        """Reads bytes until `rest` is full, and moves the offset of reading behind them."""
        self._work.read(self._at, rest)
        self._at += len(rest)

    def write(self, rest: memoryview) -> None:
        """Appends bytes. The caller must not change them until `commit`."""
        self._parts.append(rest)
        self._written += len(rest)

    def commit(self, state: Mapping[str, Any]) -> None:
        """Commits all bytes that were written since the last commit, together with the command's state after them.
        Raises OSError."""
        parts, self._parts = self._parts, []
        self._work.commit_parts(self._written, parts, state)
        self._written = 0
