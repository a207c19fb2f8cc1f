"""A file to which lines are appended. After an error, lines that can't be written are kept in memory and tried again.

If the file is deleted or moved away, it is made again. An incomplete line of a dead process is ended first.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pool.run_folder.access import open_file

MAX_PENDING_NBYTES = 16 << 20  # if more are kept in memory, new lines are lost
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
        self._pending = bytearray()  # complete lines that are not written yet
        self._fd = -1

    @property
    def num_pending(self) -> int:
        """Returns the number of lines that are kept in memory."""
        return self._pending.count(b"\n") - self._pending.startswith(b"\n")

    def add(self, line: str) -> None:
        """Appends a line, now if possible, else together with a later one."""
        if len(self._pending) < MAX_PENDING_NBYTES:
            self._pending += line.encode() + b"\n"
        else:
            self.lost += 1
        self.write_pending()

    def write_pending(self) -> None:
        """Writes the lines kept in memory. If not all can be written, `error` is set."""
        self.error = None
        try:
            self._ensure_open()
            self._append_pending()
        except OSError as error:
            self.error = error

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def _append_pending(self) -> None:
        """Appends the lines kept in memory. Raises OSError.

        After an error, an incomplete line is cut off, so that the file ends with a complete one.
        """
        end, num_written = os.fstat(self._fd).st_size, 0
        try:
            while num_written < len(self._pending):
                num_written += os.write(self._fd, self._pending[num_written:])
        except OSError:
            num_written = self._pending.rfind(b"\n", 0, num_written) + 1
            try:
                os.ftruncate(self._fd, end + num_written)
            finally:
                self.close()  # so that the next attempt checks whether the last line is complete
            raise
        finally:
            del self._pending[:num_written]

    def _ensure_open(self) -> None:
        """Opens the file, or the new one if the file was deleted or replaced. Raises OSError."""
        if self._fd >= 0:
            with suppress(FileNotFoundError):
                is_same_file = os.path.samestat(os.fstat(self._fd), self._path.stat())
                if is_same_file:
                    return
            self.close()
        self._fd = open_file(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        size = os.fstat(self._fd).st_size
        if size == 0 or self._pending.startswith(b"\n"):
            return
        last_byte = os.pread(self._fd, 1, size - 1)
        if last_byte != b"\n":
            self._pending[:0] = b"\n"  # ends the incomplete line of a dead process


def read_lines_backwards(fd: int) -> Iterator[tuple[int, bytes]]:
    """Yields offset and bytes of each line of a file, beginning with the last line.

    No more than needed is read. Ends at a line that is longer than LONGEST. Raises OSError.
    """
    begin = os.fstat(fd).st_size
    remaining = b""  # bytes from `begin` on that were not yielded yet
    while begin > 0 and len(remaining) <= LONGEST:
        begin, end = max(0, begin - _BLOCK), begin
        remaining = os.pread(fd, end - begin, begin) + remaining
        line_begin = remaining.rfind(b"\n", 0, -1) + 1
        while line_begin > 0:
            yield begin + line_begin, remaining[line_begin:]
            remaining = remaining[:line_begin]
            line_begin = remaining.rfind(b"\n", 0, -1) + 1
    if begin == 0 and remaining:
        yield 0, remaining
