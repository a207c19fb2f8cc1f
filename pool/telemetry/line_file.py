"""A file that lines are appended to, and that must not stop who writes them: a full disk keeps them in memory."""

from __future__ import annotations

import os
from pathlib import Path

MOST_KEPT = 16 << 20  # bytes; beyond, new lines are lost


class LineFile:
    """`error`: why the newest lines are not in the file yet; None if all are."""

    def __init__(self, path: Path) -> None:
        """Raises OSError."""
        self.error: OSError | None = None
        self._kept = b""
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def add(self, line: str) -> None:
        """At once if that can be, else with a later one."""
        if len(self._kept) < MOST_KEPT:
            self._kept += line.encode() + b"\n"
        self.error = None
        try:
            while self._kept:
                self._kept = self._kept[os.write(self._fd, self._kept) :]
        except OSError as error:
            self.error = error

    def close(self) -> None:
        os.close(self._fd)
