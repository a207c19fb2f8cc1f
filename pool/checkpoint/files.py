"""Files that are written whole: new, fsynced, read back from the disk, and only then renamed to their name.

Plain calls of `os`, each of which may fail; every OSError that leaves here names its file. Free of torch.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path

TEMPORARY = ".tmp"  # ends the name of what is being written or removed; starts with a dot
_PIECE = 1 << 20

Piece = bytes | memoryview


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """OSErrors of calls that know only a descriptor name the file."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def temporary(path: Path) -> Path:
    """A name beside `path` that no other process takes, and that `sweep` knows."""
    return path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}{TEMPORARY}")


def write_new(path: Path, pieces: Iterable[Piece]) -> None:
    """A new file, on the disk when this returns. Raises OSError; FileExistsError if there is one."""
    with naming(path):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            for piece in pieces:
                rest = memoryview(piece)
                while rest:
                    rest = rest[os.write(fd, rest) :]
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)  # so that reading back asks the disk, not the cache
        finally:
            os.close(fd)


def read_pieces(path: Path) -> Iterator[bytes]:
    """The bytes of a file in pieces of 1 MiB, the last one shorter. Raises OSError."""
    with naming(path):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            held = b""
            while data := os.read(fd, _PIECE - len(held)):
                held += data
                if len(held) == _PIECE:
                    yield held
                    held = b""
            if held:
                yield held
        finally:
            os.close(fd)


def read_all(path: Path) -> bytes:
    """Raises OSError."""
    return b"".join(read_pieces(path))


def replace_file(path: Path, data: bytes) -> None:
    """The file holds its old content or all of the new one, whenever the machine stops. Raises OSError."""
    beside = temporary(path)
    try:
        write_new(beside, [data])
        os.replace(beside, path)
    except BaseException:
        remove_quietly(beside)
        raise
    sync_folder(path.parent)


def replace_link(path: Path, target: str) -> None:
    """A symlink, moved from its old target to the new one in one go. Raises OSError."""
    beside = temporary(path)
    try:
        os.symlink(target, beside)
        os.replace(beside, path)
    except BaseException:
        remove_quietly(beside)
        raise


def sync_folder(path: Path) -> None:
    """What was made, renamed or removed in a folder is on the disk when this returns. Raises OSError."""
    with naming(path):
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def remove(path: Path) -> None:
    """A file, or a folder of files. Raises OSError."""
    if path.is_dir() and not path.is_symlink():
        for entry in os.listdir(path):
            os.unlink(path / entry)
        os.rmdir(path)
    else:
        os.unlink(path)


def remove_quietly(path: Path) -> None:
    """As far as it goes; what stays is swept at the next start."""
    with contextlib.suppress(OSError):
        remove(path)


def sweep(folder: Path) -> None:
    """Removes what dead writers left. Only while no writer of this folder lives."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if name.startswith(".") and name.endswith(TEMPORARY):
                remove_quietly(folder / name)
