"""How the run folder and everything in it is opened, by every process of a run.

A process holds the folder by a descriptor and names what is in it by paths that begin with /proc/self/fd/N. So a run
goes on in a folder that is moved, and another folder in its place is not used. Nothing in it that another user owns or
could have planted (a symbolic link, a pipe) is followed, read or written. Others may read it as far as the umask lets
them. Free of torch.
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

_HELD = re.compile(r"/proc/self/fd/(\d+)")
FOLDER_MODE, FILE_MODE = 0o755, 0o644  # less the umask; whatever that is, nobody else writes there
_DELETED = " (deleted)"  # what the kernel adds to the path of a deleted folder
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def hold(path: Path) -> int:
    """A descriptor of a folder that only this user can write to; made if it is not there.

    Raises OSError that names what is wrong: of another user, writable by others, no folder.
    """
    _check_links(path)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=FOLDER_MODE, parents=True)
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    with _closed_if_refused(fd):
        _check(path, os.fstat(fd))
    return fd


def keep_others_from_writing() -> None:
    """Lets only this user write to what this process makes from now on, by whatever call."""
    os.umask(os.umask(_WRITABLE_BY_OTHERS) | _WRITABLE_BY_OTHERS)


def inside(fd: int) -> Path:
    """Returns the path that paths below a folder begin with, in this process, as long as the descriptor is open."""
    return Path(f"/proc/self/fd/{fd}")


def is_deleted(fd: int) -> bool:
    """The folder has no name any more, and nothing can be made in it."""
    if os.fstat(fd).st_nlink == 0:
        return True
    place = str(inside(fd).readlink())  # some file systems never count a folder's links
    return place.endswith(_DELETED) and not os.path.lexists(place)


def shown(text: str) -> str:
    """A text for the user: paths through a descriptor become those that the folder has now."""
    return _HELD.sub(_place, text)


def open_file(path: Path, flags: int) -> int:
    """A descriptor of a regular file of this user; made if `flags` say so. Raises OSError."""
    fd = open_regular(path, flags | os.O_NOFOLLOW, FILE_MODE)
    with _closed_if_refused(fd):
        _check(path, os.fstat(fd))
    return fd


def make_folder(path: Path) -> None:
    """A folder in the run folder, if it is not there yet. Raises OSError."""
    try:
        path.mkdir(FOLDER_MODE)
    except FileExistsError:
        status = path.lstat()
        if not stat.S_ISDIR(status.st_mode):
            raise
        _check(path, status)


def check_below(folder: Path, names: Iterable[str], *, links_in: str) -> None:
    """These files and folders with all that is in them, as far as they are there, are this user's. Raises OSError.

    Refused are pipes, devices, and symbolic links but for those in `links_in` that point to something beside them.
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
    try:
        yield
    except OSError:
        os.close(fd)
        raise


def _check(path: Path, status: os.stat_result) -> None:
    """Raises OSError if another user than root owns it, or if it is a folder in which others could plant something."""
    if not _is_trusted(status.st_uid):
        raise OSError(errno.EPERM, f"belongs to another user ({_name(status.st_uid)})", str(path))
    if stat.S_ISDIR(status.st_mode) and status.st_mode & _WRITABLE_BY_OTHERS:
        raise OSError(errno.EPERM, "is a folder that others can write to: chmod go-w, or take another one", str(path))


def _check_links(path: Path) -> None:
    """Another user's symbolic link on the way would choose the folder. Raises OSError."""
    for place in (*reversed(path.parents), path):
        with contextlib.suppress(FileNotFoundError):
            status = place.lstat()
            if stat.S_ISLNK(status.st_mode) and not _is_trusted(status.st_uid):
                owner = _name(status.st_uid)
                raise OSError(errno.EPERM, f"is a symbolic link of another user ({owner})", str(place))


def _is_trusted(uid: int) -> bool:
    return uid in (0, os.geteuid())


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _place(match: re.Match[str]) -> str:
    try:
        return str(Path(match[0]).readlink()).removesuffix(_DELETED)
    except OSError:
        return match[0]
