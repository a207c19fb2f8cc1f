"""Files of positions that tools write. A file appears when it is complete, and never replaces another one."""

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

FULL_CHUNK = 1 << 20  # bytes of a chunk without its header, after which no new unit is added
FRAME = 8 << 20  # bytes of a frame, before they are compressed
_GZIP = 31  # zlib's number for a gzip header, which contains no time


class _Compressor(Protocol):
    """A compressor of one frame: bytes in, compressed bytes out."""

    def pack(self, data: bytes, last: bool) -> bytes: ...


class _NoCompressor:
    def pack(self, data: bytes, last: bool) -> bytes:  # noqa: ARG002 (as the others)
        return data


class _GzipCompressor:
    def __init__(self) -> None:
        self._zlib = zlib.compressobj(wbits=_GZIP)

    def pack(self, data: bytes, last: bool) -> bytes:
        return self._zlib.compress(data) + (self._zlib.flush() if last else b"")


class _Frames:
    """Compresses the bytes of a file into frames (gzip: members) of about 8 MiB each, so that a reader that starts in
    the middle of a file can start at a frame."""

    def __init__(self, packing: str | None) -> None:
        self._packing = packing
        self._compressor = _make_compressor(packing)
        self._size = 0  # bytes in the open frame, before compression
        self._is_first = True

    def add(self, data: bytes) -> bytes:
        """Compresses bytes. Returns what is ready to be written."""
        compressed = self._compressor.pack(data, last=False)
        self._size += len(data)
        return compressed if self._size < FRAME else compressed + self.end()

    def end(self) -> bytes:
        """Ends the open frame and returns its last bytes. A file has at least one frame."""
        if not self._size and not self._is_first:
            return b""
        packer, self._compressor = self._compressor, _make_compressor(self._packing)
        self._size, self._is_first = 0, False
        return packer.pack(b"", last=True)


def _make_compressor(packing: str | None) -> _Compressor:
    if packing is None:
        return _NoCompressor()
    return _native.ZstdPacker() if packing == "zstd" else _GzipCompressor()


class Framer:
    """Adds chunk headers to units, for formats whose files have chunks. A chunk ends with the unit that makes it at
    least 1 MiB long."""

    def __init__(self, format: PositionFormat) -> None:
        self._header = format.chunk_header
        self._payload: list[bytes] = []  # units in the open chunk
        self._payload_bytes = 0

    def add(self, block: UnitBlock) -> Iterator[tuple[bytes, int]]:
        """Adds a block of units. Yields bytes that are ready to be written, each with the number of the block's units
        that are in the bytes so far."""
        if self._header is None:
            yield block.bytes.tobytes(), len(block)
            return
        begin = 0
        while begin < len(block):
            first_byte = int(block.ends[begin - 1]) if begin else 0
            end_of_chunk = np.uint64(first_byte + max(FULL_CHUNK - self._payload_bytes, 1))
            end = min(int(np.searchsorted(block.ends, end_of_chunk)) + 1, len(block))
            payload = block.bytes[first_byte : int(block.ends[end - 1])]
            self._payload.append(payload.tobytes())
            self._payload_bytes += len(payload)
            if self._payload_bytes >= FULL_CHUNK:
                yield self.close(), end
            begin = end

    def close(self) -> bytes:
        """Ends the open chunk and returns its bytes."""
        if self._header is None or not self._payload_bytes:
            return b""
        data = b"".join([self._header(self._payload_bytes), *self._payload])
        self._payload, self._payload_bytes = [], 0
        return data


class Output:
    """A file or pipe of positions that is written. A context manager.

    A file gets its name with `publish`. If the context ends without that, no file remains, and an
    InterruptedBySignalError gets a note that says so. `place` is the path of the file, or an open pipe, which is closed
    in the end. Raises UsageError if something has the name of the file.
    """

    def __init__(self, place: Path | OutputPipe, target: Target) -> None:
        self.target = target
        self.units = self.entries = 0  # numbers of units and entries that `write` has written
        self._frames = _Frames(target.packing)
        self._framer = Framer(target.format)
        self._file = NewFile(place) if isinstance(place, Path) else None
        self._pipe = None if isinstance(place, Path) else place

    def __enter__(self) -> Self:
        if self._file is not None:
            try:
                self._file.__enter__()
            except FileExistsError:
                raise file_exists_error(self._file.path) from None
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
        """Writes bytes that are already encoded as in a file of the format."""
        self._write(self._framer.close())
        self._write(data)

    def write(self, block: UnitBlock) -> None:
        """Writes a block of units, and counts its units and entries."""
        self.units += len(block)
        self.entries += int(block.entries.sum())
        for data, _ in self._framer.add(block):
            self._write(data)

    def finish(self) -> None:
        """Writes the end of the file: open chunk and open frame."""
        self._write(self._framer.close())
        self._put(self._frames.end())
        if self._pipe is not None:
            self._pipe.flush()

    def publish(self) -> None:
        """Finishes the file and gives it its name. Raises UsageError if something got that name meanwhile."""
        self.finish()
        self.publish_finished()

    def publish_finished(self) -> None:
        """Gives a finished file its name. Raises UsageError if something got that name meanwhile."""
        if self._file is None:
            return
        try:
            self._file.publish()
        except FileExistsError:
            raise file_exists_error(self._file.path) from None

    def _write(self, data: bytes) -> None:
        if data:
            self._put(self._frames.add(data))

    def _put(self, data: bytes) -> None:
        if self._file is not None:
            self._file.write(data)
        if self._pipe is not None:
            self._pipe.write(data)


def add_chunk_headers(blocks: Iterable[UnitBlock], format: PositionFormat) -> Iterator[bytes]:
    """Yields blocks of units as bytes of a file of the format, with chunk headers if the format has them."""
    framer = Framer(format)
    for block in blocks:
        for data, _ in framer.add(block):
            yield data
    yield framer.close()


def compress(blocks: Iterable[bytes], target: Target) -> Iterator[bytes]:
    """Compresses blocks of a file's bytes as the target says. Yields bytes."""
    frames = _Frames(target.packing)
    for block in blocks:
        yield frames.add(block)
    yield frames.end()


def check_output(path: Path, needed: int) -> None:
    """Checks that a file can be written. Raises UsageError if the name is taken or the folder is missing, OSError if
    the disk has less than `needed` bytes free."""
    refuse_existing_file(path)
    if not path.parent.is_dir():
        raise UsageError(f"{path}: there is no folder {path.parent}")
    free = shutil.disk_usage(path.parent).free
    if free < needed:
        reason = f"about {_format_size(needed)} are needed, and {_format_size(free)} are free"
        raise OSError(errno.ENOSPC, reason, str(path))


def _format_size(count: int) -> str:
    """Formats a number of bytes, as "1,234 bytes", "57.3 MB", "1.20 GB"."""
    if count < 10**6:
        return f"{count:,} bytes"
    return f"{count / 1e6:,.1f} MB" if count < 10**9 else f"{count / 1e9:,.2f} GB"


def refuse_existing_file(path: Path) -> None:
    """Refuses the name of a file that exists. Raises UsageError."""
    try:
        refuse_existing(path)
    except FileExistsError:
        raise file_exists_error(path) from None


def file_exists_error(path: Path) -> UsageError:
    """Returns the error for a name that is taken."""
    return UsageError(f"{path}: exists, and is never replaced: give another name, or move it away")
