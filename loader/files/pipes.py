"""Pipes as inputs and outputs of commands: `-`, /dev/stdin, /dev/stdout, named ones, those of a shell's <() and >().

What comes out of a pipe comes once and in order; what goes into one can't be taken back.
"""

from __future__ import annotations

import fcntl
import os
import select
import stat
import sys
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from loader.errors import UsageError

STDIN, STDOUT = Path("/dev/stdin"), Path("/dev/stdout")
_DASH = Path("-")
_BUFFER = 1 << 20  # bytes that the system is asked to hold
_WAIT = 500  # ms, after which it is asked whether to go on
_DESCRIPTORS = ("/dev/fd", "/proc/self/fd")


@dataclass(frozen=True)
class Input:
    """An input as it was when the command began: a file that has become a pipe since is not waited for."""

    path: Path
    is_pipe: bool  # it can be read only once


def input_of(path: Path) -> Input:
    """The input that the user has named so. A file that a shell has opened for us (`< FILE`) gets its own name. Raises
    UsageError for a terminal."""
    path = STDIN if path == _DASH else path
    if path == STDIN or str(path.parent) in _DESCRIPTORS:
        real = Path(os.path.realpath(path))
        if real.is_file() and real.samefile(path):
            path = real
    return Input(path, _is_pipe(path))


def _is_pipe(path: Path) -> bool:
    try:
        status = os.fstat(0) if path == STDIN else path.stat()
    except OSError:  # whoever opens it says why
        return False
    if path == STDIN and os.isatty(0):
        raise UsageError(f"{path}: is a terminal: name a file, or put a pipe or a file there")
    return stat.S_ISFIFO(status.st_mode) or (path == STDIN and stat.S_ISSOCK(status.st_mode))


class InputPipe:
    """The bytes that come out of a pipe. Opening a named one waits for its writer. Raises OSError.

    `held`: what has been read and not been taken. `taken`: bytes. `waiting` is called now and then while nothing comes,
    and may raise.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.held = bytearray()
        self.taken = 0
        self.waiting: Callable[[], object] = lambda: None
        self._descriptor = os.dup(0) if path == STDIN else os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._descriptor)
        self._poll = select.poll()
        self._poll.register(self._descriptor, select.POLLIN)
        with suppress(OSError):  # more than the system gives to a user
            fcntl.fcntl(self._descriptor, fcntl.F_SETPIPE_SZ, _BUFFER)

    def fill(self, count: int) -> bool:
        """Holds `count` bytes or more; False: fewer, for there are no more."""
        while len(self.held) < count:
            while not self._poll.poll(_WAIT):
                self.waiting()
            data = os.read(self._descriptor, _BUFFER)
            if not data:
                return False
            self.held += data
        return True

    def take(self, count: int) -> bytes:
        """The next bytes of those that are held."""
        data = bytes(self.held[:count])
        del self.held[:count]
        self.taken += len(data)
        return data


def is_stream(path: Path) -> bool:
    """Tells whether an output is standard output, a pipe or a device."""
    if path in (_DASH, STDOUT):
        return True
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


class OutputPipe:
    """Takes bytes, which can't be taken back. Raises OSError, which has the pipe's name if it has one."""

    def __init__(self, file: BinaryIO, path: Path | None = None) -> None:
        """path: of a file that is closed by `close`; None: standard output."""
        self._file = file
        self._path = path

    def isatty(self) -> bool:
        return self._file.isatty()

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            if self._path is None:
                raise
            raise OSError(error.errno, error.strerror, str(self._path)) from None

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        if self._path is not None:
            self._file.close()


def output_pipe(path: Path | None) -> OutputPipe | None:
    """Returns the pipe of an output that is no regular file; None of one that is, or will be.

    `path` None: standard output. Opening a named pipe waits for its reader. Raises OSError.
    """
    if path is None or path in (_DASH, STDOUT):
        return OutputPipe(sys.stdout.buffer)
    return OutputPipe(path.open("wb", buffering=0), path) if is_stream(path) else None
