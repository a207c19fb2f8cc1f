"""Files that tools write: whole or absent, never in the place of another one."""

from __future__ import annotations

import errno
import shutil
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import numpy as np

from loader import _native
from loader.chess.positions.format import PositionFormat, Target
from loader.chess.positions.units import UnitBlock
from loader.errors import InterruptedBySignalError, UsageError
from loader.files.new_file import NewFile, refuse_existing
from loader.files.pipes import OutputPipe

FULL_CHUNK = 1 << 20  # bytes of a chunk behind its header, behind which no unit begins
FRAME = 8 << 20  # bytes of a frame, before they are compressed
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


class _Frames:
    """Compresses the bytes of a file, as frames (gzip: members) of about FRAME bytes each: a reader that goes on in the
    middle of a file begins with a frame."""

    def __init__(self, packing: str | None) -> None:
        self._packing = packing
        self._packer = _packer_of(packing)
        self._size = 0  # bytes in the frame that is open
        self._is_first = True

    def add(self, data: bytes) -> bytes:
        packed = self._packer.pack(data, last=False)
        self._size += len(data)
        return packed if self._size < FRAME else packed + self.end()

    def end(self) -> bytes:
        """Ends the frame that is open. A file has one at least."""
        if not self._size and not self._is_first:
            return b""
        packer, self._packer = self._packer, _packer_of(self._packing)
        self._size, self._is_first = 0, False
        return packer.pack(b"", last=True)


def _packer_of(packing: str | None) -> _Packer:
    if packing is None:
        return _Plain()
    return _native.ZstdPacker() if packing == "zstd" else _Gzip()


class Framer:
    """Units on their way into a file: where it has chunks, these end with the first unit behind FULL_CHUNK bytes."""

    def __init__(self, format: PositionFormat) -> None:
        self._header = format.chunk_header
        self._payload: list[bytes] = []  # of the chunk that is open
        self._payload_bytes = 0

    def add(self, block: UnitBlock) -> Iterator[tuple[bytes, int]]:
        """Bytes that are done, and how many units of the block are in them and those before."""
        if self._header is None:
            yield block.bytes.tobytes(), len(block)
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
                yield self.close(), end
            begin = end

    def close(self) -> bytes:
        """Ends what is open."""
        if self._header is None or not self._payload_bytes:
            return b""
        data = b"".join([self._header(self._payload_bytes), *self._payload])
        self._payload, self._payload_bytes = [], 0
        return data


class Output:
    """A file of positions that is written: a context manager. The file has its name after `publish`. Left without,
    nothing is there, and an InterruptedBySignalError gets a note that says so.

    `place`: its path, or the pipe that is open for it, which is closed in the end. Raises UsageError if something has
    the name.
    """

    def __init__(self, place: Path | OutputPipe, target: Target) -> None:
        self.target = target
        self.units = self.entries = 0  # written, by `write`
        self._frames = _Frames(target.packing)
        self._framer = Framer(target.format)
        self._file = NewFile(place) if isinstance(place, Path) else None
        self._pipe = None if isinstance(place, Path) else place

    def __enter__(self) -> Self:
        if self._file is not None:
            try:
                self._file.__enter__()
            except FileExistsError:
                raise taken(self._file.path) from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.__exit__(kind, error, trace)
            if isinstance(error, InterruptedBySignalError):
                error.add_note(f"{self._file.path} was not written")
        if self._pipe is not None:
            self._pipe.close()

    def write_encoded(self, data: bytes) -> None:
        """Writes bytes as a file of the format has them."""
        self._write(self._framer.close())
        self._write(data)

    def write(self, block: UnitBlock) -> None:
        """Writes units."""
        self.units += len(block)
        self.entries += int(block.entries.sum())
        for data, _ in self._framer.add(block):
            self._write(data)

    def finish(self) -> None:
        """Writes the end of the file."""
        self._write(self._framer.close())
        self._put(self._frames.end())
        if self._pipe is not None:
            self._pipe.flush()

    def publish(self) -> None:
        """Writes the end of the file, and gives it its name. Raises UsageError if something has that meanwhile."""
        self.finish()
        self.give_name()

    def give_name(self) -> None:
        """Gives a finished file its name. Raises UsageError if something has it meanwhile."""
        if self._file is None:
            return
        try:
            self._file.publish()
        except FileExistsError:
            raise taken(self._file.path) from None

    def _write(self, data: bytes) -> None:
        if data:
            self._put(self._frames.add(data))

    def _put(self, data: bytes) -> None:
        if self._file is not None:
            self._file.write(data)
        if self._pipe is not None:
            self._pipe.write(data)


def framed(blocks: Iterable[UnitBlock], format: PositionFormat) -> Iterator[bytes]:
    """Units as a file of the format has them."""
    framer = Framer(format)
    for block in blocks:
        for data, _ in framer.add(block):
            yield data
    yield framer.close()


def packed(blocks: Iterable[bytes], target: Target) -> Iterator[bytes]:
    """Bytes of a file of the target's format, compressed as the target says."""
    frames = _Frames(target.packing)
    for block in blocks:
        yield frames.add(block)
    yield frames.end()


def check_free(path: Path, wanted: int) -> None:
    """Raises UsageError if the name is taken, OSError if the disk has less than `wanted` bytes left."""
    refuse_taken(path)
    if not path.parent.is_dir():
        raise UsageError(f"{path}: there is no folder {path.parent}")
    free = shutil.disk_usage(path.parent).free
    if free < wanted:
        reason = f"about {_size(wanted)} are needed, and {_size(free)} are free"
        raise OSError(errno.ENOSPC, reason, str(path))


def _size(count: int) -> str:
    """1,234 bytes, 57.3 MB, 1.20 GB."""
    if count < 10**6:
        return f"{count:,} bytes"
    return f"{count / 1e6:,.1f} MB" if count < 10**9 else f"{count / 1e9:,.2f} GB"


def refuse_taken(path: Path) -> None:
    """Raises UsageError if something has the name."""
    try:
        refuse_existing(path)
    except FileExistsError:
        raise taken(path) from None


def taken(path: Path) -> UsageError:
    return UsageError(f"{path}: exists, and is never replaced: give another name, or move it away")
