"""Opens the run folder and everything in it, for every process of a run.

A process keeps a descriptor of the folder, and refers to what is in it by paths that begin with /proc/self/fd/N. So a
run continues in a folder that is moved, and never uses another folder in its place. Nothing in it that another user
owns or could have planted (a symbolic link, a pipe) is followed, read or written. Other users may read the folder as
far as the umask lets them. Free of torch.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from loader.files.regular import NotRegularFileError, open_regular

_DESCRIPTOR_PATH = re.compile(r"/proc/self/fd/(\d+)")
FOLDER_MODE, FILE_MODE = 0o755, 0o644  # before the umask; others never get write permission
_DELETED = " (deleted)"  # what the kernel adds to the path of a deleted folder
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def open_folder(path: Path) -> int:
    """Opens a folder, which is made if missing, and returns its descriptor.

    Raises OSError, with the reason, if the folder belongs to another user than this one or root, if others can write
    to it, or if it is no folder.
    """
    _check_links(path)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=FOLDER_MODE, parents=True)
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    with _closed_if_refused(fd):
        _check(path, os.fstat(fd))
    return fd


def restrict_umask() -> None:
    """Sets the umask so that only this user can write to files that this process makes from now on."""
    os.umask(os.umask(_WRITABLE_BY_OTHERS) | _WRITABLE_BY_OTHERS)


def descriptor_path(fd: int) -> Path:
    """Returns the path of a folder by its descriptor, for this process and as long as the descriptor is open."""
    return Path(f"/proc/self/fd/{fd}")


def is_deleted(fd: int) -> bool:
    """Returns whether a folder was deleted, so that nothing can be made in it."""
    if os.fstat(fd).st_nlink == 0:
        return True
    path = str(descriptor_path(fd).readlink())  # some file systems never count a folder's links
    return path.endswith(_DELETED) and not os.path.lexists(path)


def show_real_paths(text: str) -> str:
    """Replaces paths through a descriptor in a text for the user by the folder's current path."""
    return _DESCRIPTOR_PATH.sub(_current_path, text)


def open_file(path: Path, flags: int) -> int:
    """Opens a regular file of this user and returns its descriptor. The file is made if `flags` have O_CREAT.

    Raises OSError, also for a symbolic link or a file of another user.
    """
    fd = open_regular(path, flags | os.O_NOFOLLOW, FILE_MODE)
    with _closed_if_refused(fd):
        _check(path, os.fstat(fd))
    return fd


def make_folder(path: Path) -> None:
    """Makes a folder in the run folder, if it does not exist yet. Raises OSError."""
    try:
        path.mkdir(FOLDER_MODE)
    except FileExistsError:
        status = path.lstat()
        if not stat.S_ISDIR(status.st_mode):
            raise
        _check(path, status)


def check_below(folder: Path, names: Iterable[str], *, links_in: str) -> None:
    """Raises OSError unless these files and folders, with all that is in them, belong to this user. Missing ones are
    ignored.

    Pipes and devices are refused. So are symbolic links, except those in the folder `links_in` that point to
    something in the same folder.
    """
    pending = [folder / name for name in names if os.path.lexists(folder / name)]
    while pending:
        path = pending.pop()
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            if path.parent != folder / links_in or "/" in str(path.readlink()):
                raise OSError(errno.ELOOP, "is a symbolic link, and none is followed in a run folder", str(path))
            continue
        _check(path, status)
        if stat.S_ISDIR(status.st_mode):
            pending += path.iterdir()
        elif not stat.S_ISREG(status.st_mode):
            raise NotRegularFileError(path)


@contextlib.contextmanager
def _closed_if_refused(fd: int) -> Iterator[None]:
    """Closes the descriptor if an OSError leaves the context."""
    try:
        yield
    except OSError:
        os.close(fd)
        raise


def _check(path: Path, status: os.stat_result) -> None:
    """Raises OSError if another user than root owns the file, or if it is a folder to which others can write."""
    if not _is_trusted(status.st_uid):
        raise OSError(errno.EPERM, f"belongs to another user ({_user_name(status.st_uid)})", str(path))
    if stat.S_ISDIR(status.st_mode) and status.st_mode & _WRITABLE_BY_OTHERS:
        raise OSError(errno.EPERM, "is a folder that others can write to: chmod go-w, or take another one", str(path))


def _check_links(path: Path) -> None:
    """Raises OSError if a symbolic link of another user is on the path, since that user could choose the folder."""
    for part in (*reversed(path.parents), path):
        with contextlib.suppress(FileNotFoundError):
            status = part.lstat()
            if stat.S_ISLNK(status.st_mode) and not _is_trusted(status.st_uid):
                owner = _user_name(status.st_uid)
                raise OSError(errno.EPERM, f"is a symbolic link of another user ({owner})", str(part))


def _is_trusted(uid: int) -> bool:
    """Returns whether a user is root or the user of this process."""
    return uid in (0, os.geteuid())


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _current_path(match: re.Match[str]) -> str:
    """Returns the current path of the descriptor that a regular expression has matched."""
    try:
        return str(Path(match[0]).readlink()).removesuffix(_DELETED)
    except OSError:
        return match[0]
