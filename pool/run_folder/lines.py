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
    """`error`: why the newest lines are not in the file yet; None if all are. `lost`: how many never will be."""

    def __init__(self, path: Path) -> None:
        self.error: OSError | None = None
        self.lost = 0
        self._path = path
        self._kept = bytearray()  # whole lines
        self._fd = -1

    @property
    def waiting(self) -> int:
        """The number of lines that wait in memory."""
        return self._kept.count(b"\n") - self._kept.startswith(b"\n")

    def add(self, line: str) -> None:
        """Writes a line, now if possible, else together with a later one."""
        if len(self._kept) < MOST_KEPT:
            self._kept += line.encode() + b"\n"
        else:
            self.lost += 1
        self.write_waiting()

    def write_waiting(self) -> None:
        """Writes the lines that wait, as far as there is room; `error` says why not all are written."""
        self.error = None
        try:
            self._look()
            self._write()
        except OSError as error:
            self.error = error

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def _write(self) -> None:
        """Appends what is kept. If an OSError is raised, the file ends with a whole line."""
        end, written = os.fstat(self._fd).st_size, 0
        try:
            while written < len(self._kept):
                written += os.write(self._fd, self._kept[written:])
        except OSError:
            written = self._kept.rfind(b"\n", 0, written) + 1
            try:
                os.ftruncate(self._fd, end + written)
            finally:
                self.close()  # to look anew whether the last line is whole
            raise
        finally:
            del self._kept[:written]

    def _look(self) -> None:
        """Opens the file if it is not the one that has the name. Raises OSError."""
        if self._fd >= 0:
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(self._fd), self._path.stat()):
                    return
            self.close()
        self._fd = open_file(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        size = os.fstat(self._fd).st_size
        if size > 0 and not self._kept.startswith(b"\n") and os.pread(self._fd, 1, size - 1) != b"\n":
            self._kept[:0] = b"\n"  # ends the half line of a dead writer; waits with the others, once


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
