"""A file that lines are appended to. An error does not stop the writer: lines that can't be written wait in memory.

If the file is deleted or moved away, it is made again. A line that a dead writer left half written is ended first.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pool.run_folder.access import open_file

MOST_KEPT = 16 << 20  # bytes; beyond, new lines are lost
LONGEST = 1 << 20  # bytes of a line; a longer one is none of ours
_BLOCK = 1 << 16


class LineFile:
    """`error`: why the newest lines are not in the file yet; None if all are."""

    def __init__(self, path: Path) -> None:
        self.error: OSError | None = None
        self._path = path
        self._kept = bytearray()
        self._cut = False  # what is kept begins in the middle of a line
        self._fd = -1

    def add(self, line: str) -> None:
        """Now if possible, else together with a later line."""
        if len(self._kept) < MOST_KEPT:
            self._kept += line.encode() + b"\n"
        self.error = None
        try:
            self._look()
            while self._kept:
                written = os.write(self._fd, self._kept)
                self._cut = not self._kept.endswith(b"\n", 0, written)
                del self._kept[:written]
        except OSError as error:
            self.error = error

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def _look(self) -> None:
        """Opens the file if it is not the one that has the name. Raises OSError."""
        if self._fd >= 0:
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(self._fd), self._path.stat()):
                    return
            self.close()
        self._fd = open_file(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        if self._cut:  # the other half is in the file that is gone
            del self._kept[: self._kept.index(b"\n") + 1]
            self._cut = False
        size = os.fstat(self._fd).st_size
        if size > 0 and os.pread(self._fd, 1, size - 1) != b"\n":
            self._kept[:0] = b"\n"


def lines_from_the_end(fd: int) -> Iterator[tuple[int, bytes]]:
    """Offset and bytes of each line of a file, the last one first; reads no more than is asked for.

    Ends early at a line that is longer than LONGEST. Raises OSError.
    """
    begin = os.fstat(fd).st_size
    rest = b""  # of the file from `begin` on, what has not been given yet
    while begin > 0 and len(rest) <= LONGEST:
        begin, end = max(0, begin - _BLOCK), begin
        rest = os.pread(fd, end - begin, begin) + rest
        while (at := rest.rfind(b"\n", 0, -1) + 1) > 0:
            yield begin + at, rest[at:]
            rest = rest[:at]
    if begin == 0 and rest:
        yield 0, rest
