"""Pipes as inputs and outputs of commands: `-`, /dev/stdin, /dev/stdout, named ones, those of a shell's <() and >().

The bytes of an input pipe come only once and in order. Bytes written to an output pipe can't be taken back.
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
_BUFFER_BYTES = 1 << 20  # size of the pipe's buffer that is requested
_POLL_MS = 500  # ms of waiting for data, after which `on_wait` is called
_DESCRIPTORS = ("/dev/fd", "/proc/self/fd")


@dataclass(frozen=True)
class Input:
    """An input of a command, and whether it was a pipe when the command began. A file that has become a pipe since is
    not waited for."""

    path: Path
    is_pipe: bool  # it can be read only once


def resolve_input(path: Path) -> Input:
    """Returns the input that the user has named by `path`. A file that a shell has opened for the command (`< FILE`)
    gets its own path. Raises UsageError for a terminal."""
    path = STDIN if path == _DASH else path
    if path == STDIN or str(path.parent) in _DESCRIPTORS:
        real = Path(os.path.realpath(path))
        if real.is_file() and real.samefile(path):
            path = real
    return Input(path, _is_pipe(path))


def _is_pipe(path: Path) -> bool:
    try:
        status = os.fstat(0) if path == STDIN else path.stat()
    except OSError:  # opening it later raises the error
        return False
    if path == STDIN and os.isatty(0):
        raise UsageError(f"{path}: is a terminal: name a file, or put a pipe or a file there")
    return stat.S_ISFIFO(status.st_mode) or (path == STDIN and stat.S_ISSOCK(status.st_mode))


class InputPipe:
    """Reads the bytes that come out of a pipe. Opening a named pipe waits for its writer. Raises OSError.

    `buffer`: bytes that have been read and not consumed yet. `num_consumed`: number of bytes that have been consumed.
    `on_wait`: called now and then while the pipe is empty; it may raise.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.buffer = bytearray()
        self.num_consumed = 0
        self.on_wait: Callable[[], object] = lambda: None
        self._descriptor = os.dup(0) if path == STDIN else os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._descriptor)
        self._poll = select.poll()
        self._poll.register(self._descriptor, select.POLLIN)
        with suppress(OSError):  # the system may not allow a user so large a buffer
            fcntl.fcntl(self._descriptor, fcntl.F_SETPIPE_SZ, _BUFFER_BYTES)

    def fill(self, count: int) -> bool:
        """Reads until the buffer has at least `count` bytes. Returns False if the pipe ends before."""
        while len(self.buffer) < count:
            while not self._poll.poll(_POLL_MS):
                self.on_wait()
            data = os.read(self._descriptor, _BUFFER_BYTES)
            if not data:
                return False
            self.buffer += data
        return True

    def consume(self, count: int) -> bytes:
        """Returns the next `count` bytes of the buffer, and removes them from there."""
        data = bytes(self.buffer[:count])
        del self.buffer[:count]
        self.num_consumed += len(data)
        return data


def is_stream(path: Path) -> bool:
    """Returns whether an output is standard output, a pipe or a device."""
    if path in (_DASH, STDOUT):
        return True
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


class OutputPipe:
    """Writes bytes to standard output, a pipe or a device. Raises OSError, which names the pipe if it has a name."""

    def __init__(self, file: BinaryIO, path: Path | None = None) -> None:
        """Writes to `file`, which is open. `path`: its name, and `close` closes it then. None: standard output, which
        stays open."""
        self._file = file
        self._path = path

    def isatty(self) -> bool:
        return self._file.isatty()

    def write(self, data: bytes) -> None:
        remaining = memoryview(data)
        try:
            while remaining:
                remaining = remaining[self._file.write(remaining) :]
        except OSError as error:
            if self._path is None:
                raise
            raise OSError(error.errno, error.strerror, str(self._path)) from None

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        if self._path is not None:
            self._file.close()


def open_output_pipe(path: Path | None) -> OutputPipe | None:
    """Returns the output pipe for a path, or None if the path is a regular file, or will be one.

    `path` None: standard output. Opening a named pipe waits for its reader. Raises OSError.
    """
    if path is None or path in (_DASH, STDOUT):
        return OutputPipe(sys.stdout.buffer)
    return OutputPipe(path.open("wb", buffering=0), path) if is_stream(path) else None
