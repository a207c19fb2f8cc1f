"""Writes files as a whole: under a temporary name, synced to the disk, and only then renamed.

Only plain calls of `os` are used, each of which may fail. Every OSError raised here names its file. Free of torch.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from loader.files.regular import open_regular
from loader.files.whole_file import is_temporary, temporary_path
from pool.crash_points import crash_point
from pool.run_folder.access import FILE_MODE

_READ_NBYTES = 1 << 20  # most bytes of one call of os.read

Buffer = bytes | memoryview


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Adds the file's path to an OSError within the context that has none, as calls by descriptor raise it."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def write_new(path: Path, blocks: Iterable[Buffer]) -> None:
    """Writes blocks of bytes to a new file, and syncs the file to the disk.

    Raises OSError, and FileExistsError if there is such a file.
    """
    with naming(path):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        try:
            for block in blocks:
                remaining = memoryview(block)
                while remaining:
                    remaining = remaining[os.write(fd, remaining) :]
                    crash_point("coordinator.file_piece_written")
            crash_point("coordinator.file_before_fsync")
            os.fsync(fd)
            crash_point("coordinator.file_after_fsync")
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)  # so that reading back reads the disk, not the cache
        finally:
            os.close(fd)


class Reader:
    """A regular file that is read from its start in blocks of chosen lengths, as a context manager. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = open_regular(path, os.O_RDONLY | os.O_NOFOLLOW)
        self.nbytes = os.fstat(self._fd).st_size  # when it was opened

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        with naming(self._path):
            os.close(self._fd)

    def read(self, nbytes: int) -> bytes:
        """Returns the next `nbytes` bytes, or fewer at the file's end."""
        content = bytearray()
        with naming(self._path):
            while len(content) < nbytes:
                data = os.read(self._fd, min(_READ_NBYTES, nbytes - len(content)))
                if not data:
                    break
                content += data
        return bytes(content)


def read_all(path: Path, limit: int) -> bytes:
    """Returns the content of a file. Raises OSError, also if it has more than `limit` bytes."""
    with Reader(path) as file:
        if file.nbytes > limit:
            raise OSError(errno.EFBIG, f"has {file.nbytes} bytes; at most {limit} are expected", str(path))
        return file.read(file.nbytes)


def replace_file(path: Path, data: bytes) -> None:
    """Replaces the content of a file atomically, so that it has the old or the new content if the machine stops.

    Raises OSError.
    """
    beside = temporary_path(path)
    try:
        write_new(beside, [data])
        beside.replace(path)
    except BaseException:
        remove_quietly(beside)
        raise
    sync_folder(path.parent)


def replace_link(path: Path, target: str) -> None:
    """Makes a symbolic link, or moves an existing one to a new target atomically. Raises OSError."""
    beside = temporary_path(path)
    try:
        beside.symlink_to(target)
        beside.replace(path)
    except BaseException:
        remove_quietly(beside)
        raise


def publish(folder: Path) -> None:
    """Moves all files of a folder into its parent folder, after all of them were synced to the disk.

    Write permission for others is taken away. Raises OSError.
    """
    paths = sorted(folder.iterdir())
    for path in paths:
        path.chmod(path.stat().st_mode & FILE_MODE)
        sync_file(path)
    for path in paths:
        path.rename(folder.parent / path.name)
    sync_folder(folder.parent)


def sync_folder(path: Path) -> None:
    """Syncs a folder, so that files made, renamed or removed in it are on the disk. Raises OSError."""
    _sync(path, os.O_DIRECTORY)


def sync_file(path: Path) -> None:
    """Syncs the content of a file to the disk. Raises OSError."""
    _sync(path, os.O_NOFOLLOW)


def _sync(path: Path, flags: int) -> None:
    with naming(path):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def remove(path: Path) -> None:
    """Removes a file, or a folder that has files only. Raises OSError."""
    if path.is_dir() and not path.is_symlink():
        for entry in path.iterdir():
            entry.unlink()
        path.rmdir()
    else:
        path.unlink()


def remove_quietly(path: Path) -> None:
    """Removes a file or folder as far as possible. The next start removes what is left."""
    with contextlib.suppress(OSError):
        remove(path)


def sweep(folder: Path, file: str = "") -> None:
    """Removes temporary files and folders that dead processes left. `file`: only those of the file of this name; to be
    called while no other process writes in the folder, or writes that file."""
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if is_temporary(path.name) and path.name.startswith(f".{file}"):
                remove_quietly(path)
