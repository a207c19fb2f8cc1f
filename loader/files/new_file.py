"""A file that appears under its name when it is complete, and never in the place of another one."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from loader.files.resumable import write_at
from loader.files.whole_file import open_new, sync_folder, temporary

NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


class NewFile:
    """Written beside its place. A context manager; left without `publish` it leaves nothing.

    beside: the name until then, one of `temporary`. Raises FileExistsError at the start, or from `publish`, if
    something has the name. An OSError names the file by `path`, which its user knows.
    """

    def __init__(self, path: Path, beside: Path | None = None) -> None:
        self.path = path
        self.beside = beside or temporary(path)
        self.size = 0
        self._descriptor = -1

    def __enter__(self) -> Self:
        refuse_existing(self.path)
        try:
            self._descriptor = open_new(self.beside)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)
        self.beside.unlink(missing_ok=True)

    def write(self, data: bytes) -> None:
        write_at(self._descriptor, data, self.size, self.path)
        self.size += len(data)

    def publish(self) -> None:
        """Gives the file its name."""
        os.fsync(self._descriptor)
        give_name(self.beside, self.path)


def give_name(beside: Path, path: Path) -> None:
    """A file that is on the disk gets a name that is free, and keeps its old one if the file system has hard links.

    Raises FileExistsError.
    """
    try:
        os.link(beside, path)
    except FileExistsError:
        refuse_existing(path)
        raise
    except OSError as error:
        if error.errno not in NO_HARD_LINKS:
            raise
        refuse_existing(path)
        beside.rename(path)
    sync_folder(path.parent)


def refuse_existing(path: Path) -> None:
    """A dangling symbolic link exists, too."""
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
