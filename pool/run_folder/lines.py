"""A file to which lines are appended. After an error, lines that can't be written are kept in memory and tried again.

If the file is deleted or moved away, it is made again. An incomplete line of a dead process is ended first.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pool.run_folder.access import open_file

MOST_KEPT = 16 << 20  # bytes; if more are kept, new lines are lost
LONGEST = 1 << 20  # bytes of a line; no run writes a longer one
_BLOCK = 1 << 16


class LineFile:
    """A file to which lines are appended.

    `error`: why the newest lines are not in the file yet; None if all are. `lost`: number of lines that were
    dropped.
    """

    def __init__(self, path: Path) -> None:
        self.error: OSError | None = None
        self.lost = 0
        self._path = path
        self._kept = bytearray()  # whole lines
        self._fd = -1

    @property
    def waiting(self) -> int:
        """The number of lines that are kept in memory."""
        return self._kept.count(b"\n") - self._kept.startswith(b"\n")

    def add(self, line: str) -> None:
        """Appends a line, now if possible, else together with a later one."""
        if len(self._kept) < MOST_KEPT:
            self._kept += line.encode() + b"\n"
        else:
            self.lost += 1
        self.write_waiting()

    def write_waiting(self) -> None:
        """Writes the lines kept in memory. If not all can be written, `error` is set."""
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
        """Appends the lines kept in memory. The file ends with a whole line even if an OSError is raised."""
        end, written = os.fstat(self._fd).st_size, 0
        try:
            while written < len(self._kept):
                written += os.write(self._fd, self._kept[written:])
        except OSError:
            written = self._kept.rfind(b"\n", 0, written) + 1
            try:
                os.ftruncate(self._fd, end + written)
            finally:
                self.close()  # so that the next attempt checks whether the last line is whole
            raise
        finally:
            del self._kept[:written]

    def _look(self) -> None:
        """Opens the file again if its name belongs to another file or none now. Raises OSError."""
        if self._fd >= 0:
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(self._fd), self._path.stat()):
                    return
            self.close()
        self._fd = open_file(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        size = os.fstat(self._fd).st_size
        if size > 0 and not self._kept.startswith(b"\n") and os.pread(self._fd, 1, size - 1) != b"\n":
            self._kept[:0] = b"\n"  # ends the incomplete line of a dead process; added once


def lines_from_the_end(fd: int) -> Iterator[tuple[int, bytes]]:
    """Yields offset and bytes of each line of a file, beginning with the last line.

    No more than needed is read. Ends at a line that is longer than LONGEST. Raises OSError.
    """
    begin = os.fstat(fd).st_size
    rest = b""  # bytes from `begin` on that were not yielded yet
    while begin > 0 and len(rest) <= LONGEST:
        begin, end = max(0, begin - _BLOCK), begin
        rest = os.pread(fd, end - begin, begin) + rest
        while (at := rest.rfind(b"\n", 0, -1) + 1) > 0:
            yield begin + at, rest[at:]
            rest = rest[:at]
    if begin == 0 and rest:
        yield 0, rest
