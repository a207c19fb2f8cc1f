"""A file that gets its name only when it is complete, and never replaces another file."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from loader.files.resumable import write_at
from loader.files.whole_file import create_file, sync_folder, temporary_path

NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


class NewFile:
    """Writes a file under a temporary name in the same folder, until `publish` gives it its own. A context manager; if
    the block ends without `publish`, nothing is left.

    temporary: its temporary name, made by `temporary_path`. Raises FileExistsError at the start, or from `publish`, if
    a file of the name `path` exists. An OSError names the file by `path`, which its user knows.
    """

    def __init__(self, path: Path, temporary: Path | None = None) -> None:
        self.path = path
        self.temporary = temporary or temporary_path(path)
        self.size = 0
        self._descriptor = -1

    def __enter__(self) -> Self:
        refuse_existing(self.path)
        try:
            self._descriptor = create_file(self.temporary)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)
        self.temporary.unlink(missing_ok=True)

    def write(self, data: bytes) -> None:
        write_at(self._descriptor, data, self.size, self.path)
        self.size += len(data)

    def publish(self) -> None:
        """Flushes the file to the disk and gives it its name. Raises FileExistsError."""
        os.fsync(self._descriptor)
        rename_to_free_name(self.temporary, self.path)


def rename_to_free_name(temporary: Path, path: Path) -> None:
    """Gives the file `temporary`, which must have reached the disk, the free name `path`. If the file system has hard
    links, the old name stays as well.

    Raises FileExistsError.
    """
    try:
        os.link(temporary, path)
    except FileExistsError:
        refuse_existing(path)
        raise
    except OSError as error:
        if error.errno not in NO_HARD_LINKS:
            raise
        refuse_existing(path)
        temporary.rename(path)
    sync_folder(path.parent)


def refuse_existing(path: Path) -> None:
    """Raises FileExistsError if there is anything of this name, even a dangling symbolic link."""
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
