"""Files that tools write: whole or absent, never in the place of another one."""

from __future__ import annotations

import errno
import os
import shutil
import struct
import sys
import zlib
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import numpy as np

from loader import _native
from loader.chess.files.units import UnitBlock
from loader.chess.tools.kind import Target
from loader.errors import UsageError
from loader.resumable.new_file import NewFile, refuse_existing

FULL_CHUNK = 1 << 20  # bytes of a binpack chunk's payload behind which no chain begins
_GZIP = 31  # zlib's number for a gzip header, which has no time in it


class _Packer(Protocol):
    def pack(self, data: bytes, last: bool) -> bytes: ...


class _Plain:
    def pack(self, data: bytes, last: bool) -> bytes:  # noqa: ARG002 (as the others)
        return data


class _Gzip:
    def __init__(self) -> None:
        self._zlib = zlib.compressobj(wbits=_GZIP)

    def pack(self, data: bytes, last: bool) -> bytes:
        return self._zlib.compress(data) + (self._zlib.flush() if last else b"")


def _packer_of(packing: str | None) -> _Packer:
    if packing is None:
        return _Plain()
    return _native.ZstdPacker() if packing == "zstd" else _Gzip()


class Output:
    """A context manager; the file has its name after `publish`. Left without, nothing is there.

    `path` None: standard output. Raises UsageError if something has the name.
    """

    def __init__(self, path: Path | None, target: Target) -> None:
        self.path = path
        self.target = target
        self.entries = 0
        self._packer = _packer_of(target.packing)
        self._payload: list[bytes] = []  # of the binpack chunk that is open
        self._payload_bytes = 0
        self._file = None if path is None else NewFile(path, path.with_name(f".{path.name}.{os.getpid()}.tmp"))

    def __enter__(self) -> Self:
        if self._file is not None:
            try:
                self._file.__enter__()
            except FileExistsError:
                raise _exists(self._file.path) from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.__exit__(kind, error, trace)

    def write_encoded(self, data: bytes) -> None:
        """Bytes that are of a file already."""
        self._close_chunk()
        self._write(data)

    def write(self, block: UnitBlock) -> None:
        """Units."""
        self.entries += int(block.entries.sum())
        if not self.target.kind.is_binpack:
            self._write(block.bytes.tobytes())
            return
        begin = 0
        while begin < len(block):
            base = int(block.ends[begin - 1]) if begin else 0
            full = np.uint64(base + max(FULL_CHUNK - self._payload_bytes, 1))
            end = min(int(np.searchsorted(block.ends, full)) + 1, len(block))
            part = block.bytes[base : int(block.ends[end - 1])]
            self._payload.append(part.tobytes())
            self._payload_bytes += len(part)
            if self._payload_bytes >= FULL_CHUNK:
                self._close_chunk()
            begin = end

    def publish(self) -> None:
        """Gives the file its name. Raises UsageError if something has it meanwhile."""
        self._close_chunk()
        self._put(self._packer.pack(b"", last=True))
        if self._file is None:
            sys.stdout.buffer.flush()
            return
        try:
            self._file.publish()
        except FileExistsError:
            raise _exists(self._file.path) from None

    def _close_chunk(self) -> None:
        if self._payload_bytes:
            self._write(struct.pack("<4sI", b"BINP", self._payload_bytes))
            for part in self._payload:
                self._write(part)
            self._payload, self._payload_bytes = [], 0

    def _write(self, data: bytes) -> None:
        if data:
            self._put(self._packer.pack(data, last=False))

    def _put(self, data: bytes) -> None:
        if self._file is not None:
            self._file.write(data)
        else:
            sys.stdout.buffer.write(data)


def check_free(path: Path, wanted: int) -> None:
    """Raises UsageError if the name is taken, OSError if the disk has less than `wanted` bytes left."""
    try:
        refuse_existing(path)
    except FileExistsError:
        raise _exists(path) from None
    if not path.parent.is_dir():
        raise UsageError(f"{path}: there is no folder {path.parent}")
    free = shutil.disk_usage(path.parent).free
    if free < wanted:
        reason = f"about {wanted / 1e9:,.3f} GB are needed, and {free / 1e9:,.3f} GB are free"
        raise OSError(errno.ENOSPC, reason, str(path))


def _exists(path: Path) -> UsageError:
    return UsageError(f"{path}: exists, and is never replaced")
