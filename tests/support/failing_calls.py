"""The N-th system call of a piece of code fails, for N = 1, 2, ... until all of them have succeeded."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

SHORT_WRITE = "short write"
FAULTS: tuple[int | str, ...] = (errno.ENOSPC, errno.EIO, errno.EINTR, errno.ENOMEM, SHORT_WRITE)
_FILES = ("open", "read", "write", "pread", "pwrite", "close", "fsync", "fdatasync", "stat", "lstat", "mkdir", "rmdir")
_FOLDERS = ("unlink", "link", "rename", "replace", "symlink", "readlink", "listdir", "scandir", "chmod")
_SPACE = ("posix_fadvise", "posix_fallocate", "memfd_create", "ftruncate", "statvfs")


class FailingCalls:
    """Counts this thread's calls and fails call number `at` with `fault`."""

    def __init__(self, at: int, fault: int | str) -> None:
        self.count = 0
        self.failed = ""  # the call that did
        self._at = at
        self._fault = fault
        self._thread = threading.get_ident()

    def wrap(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != self._thread:
                return call(*args, **kwargs)
            self.count += 1
            if self.count != self._at:
                return call(*args, **kwargs)
            self.failed = name
            if isinstance(self._fault, str):  # only a write can be short
                if name not in ("write", "pwrite"):
                    return call(*args, **kwargs)
                return call(args[0], bytes(args[1])[: len(args[1]) // 2], *args[2:])
            if name == "close":
                call(*args, **kwargs)  # the kernel closes even if it then complains
            path = args[0] if args and not isinstance(args[0], int) else None
            raise OSError(self._fault, os.strerror(self._fault), path)

        return wrapper


@contextmanager
def failing_call(at: int, fault: int | str) -> Iterator[FailingCalls]:
    calls = FailingCalls(at, fault)
    with pytest.MonkeyPatch.context() as patch:
        for name in (*_FILES, *_FOLDERS, *_SPACE):
            patch.setattr(os, name, calls.wrap(name, getattr(os, name)))
        for name in ("flock", "fcntl"):
            patch.setattr(fcntl, name, calls.wrap(name, getattr(fcntl, name)))
        yield calls
