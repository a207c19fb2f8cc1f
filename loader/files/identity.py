"""The identity of data files, which is recorded when a run starts, to find files that have changed since.

The stream is a function of the files' bytes (I1), so a file that changes while it is in use is an error. A check costs
one system call a file and reads nothing. Checksums of the bytes that are read are compared elsewhere
(`loader.stream.Compared`).
"""

from __future__ import annotations

import stat
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from loader import _native
from loader.errors import DataChangedError, DataError

_CLOCK_TICK_NS = 20_000_000  # two writes within a tick of the file system's clock, 1 to 10 ms, have the same time
_MAX_WAITS = 20  # for the clock's next tick; a file that is written all the time never gets old enough


@dataclass(frozen=True)
class Component:
    """The files of data.train that have one share of the samples between them."""

    number: int  # of the entry in data.train, from 0
    share: float


@dataclass(frozen=True)
class DataFile:
    """A data file with the identity that the system reported for it, and the settings of its entry in data.train."""

    path: Path
    size: int  # bytes that count; what follows is never read
    device: int
    inode: int
    modified: int | None  # nanoseconds since 1970; None: not compared, as only a part of the file counts
    component: Component | None = None  # None: files without shares, each read once an epoch
    score_scale: float = 1.0  # what scores are multiplied by when they are read
    score_unit: str | None = None  # the unit that scores have; None: the usual one of the file's format

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def identity(self) -> tuple[int, int, int, tuple[int, int] | None]:
        """Returns (size, device, inode, time of change) as `_native.open_entries` takes it, the time in seconds and
        nanoseconds."""
        modified = None if self.modified is None else divmod(self.modified, 10**9)
        return self.size, self.device, self.inode, modified

    def up_to(self, size: int) -> DataFile:
        """Returns the same file, of which only the first `size` bytes count."""
        return self if size >= self.size else replace(self, size=size, modified=None)


def identify(paths: Sequence[Path]) -> tuple[DataFile, ...]:
    """Returns the files with the identity that they have now. Waits some milliseconds if one was written just now, as a
    second write could have the same time.

    Raises DataError for a file that can't be found, and for a pipe or device. A pipe has 0 bytes, so it would be passed
    over as an empty file.
    """
    files = [_identify_file(path) for path in paths]
    for _ in range(_MAX_WAITS):
        now = time.time_ns()
        recent = {
            index: file.modified
            for index, file in enumerate(files)
            if file.modified and 0 <= now - file.modified < _CLOCK_TICK_NS
        }
        if not recent:
            break
        time.sleep((max(recent.values()) + _CLOCK_TICK_NS - now) / 1e9)
        for index in recent:
            files[index] = _identify_file(paths[index])
    return tuple(files)


def check_unchanged(files: Sequence[DataFile], *, may_grow: bool) -> None:
    """Raises DataChangedError for the first file that has changed since it was identified. With `may_grow` appended
    bytes are no change."""
    for file in files:
        change = _native.file_change(file.path, file.identity, may_grow)
        if change:
            raise DataChangedError(file.path, change)


def _identify_file(path: Path) -> DataFile:
    try:
        status = path.stat()
    except OSError as error:
        raise DataError(path, error.strerror or str(error)) from None
    is_folder = stat.S_ISDIR(status.st_mode)  # opening it later raises an error that says so
    if not stat.S_ISREG(status.st_mode) and not is_folder:
        raise DataError(path, "is not a regular file")
    return DataFile(path, status.st_size, status.st_dev, status.st_ino, status.st_mtime_ns)
