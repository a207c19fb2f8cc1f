"""The networks that lie in a WebAssembly build of Stockfish: in its data segments, from which runs of zeros are cut."""

from __future__ import annotations

from collections.abc import Iterator

from pool.tasks.chess.stockfish import leb128, nnue_file
from pool.tasks.chess.stockfish.nnue_file import stack_type
from pool.tasks.chess.stockfish.versions import NUM_BUCKETS, VERSIONS, Encoding, Version

_DATA = 11  # number of the section
_I32_CONST, _END = 0x41, 0x0B


def embedded_nets(wasm: bytes) -> list[bytes]:
    """The files of all known versions, in the order of the memory."""
    image = memory_image(wasm)
    found = []
    for version in VERSIONS.values():
        head = version.word.to_bytes(4, "little") + nnue_file.network_hash(version, version.l1).to_bytes(4, "little")
        at = image.find(head)
        if at >= 0:
            found.append((at, _size(image, at, version)))
    return [bytes(image[at : at + size]) for at, size in sorted(set(found))]


def memory_image(wasm: bytes) -> bytearray:
    """What the active data segments put into memory."""
    segments = list(_segments(wasm))
    image = bytearray(max(offset + len(data) for offset, data in segments))
    for offset, data in segments:
        image[offset : offset + len(data)] = data
    return image


def _segments(wasm: bytes) -> Iterator[tuple[int, bytes]]:
    assert wasm[:8] == b"\0asm\1\0\0\0"
    at = 8
    while at < len(wasm):
        section = wasm[at]
        size, at = _unsigned(wasm, at + 1)
        if section == _DATA:
            yield from _data_section(wasm, at)
        at += size


def _data_section(wasm: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    count, at = _unsigned(wasm, at)
    for _ in range(count):
        kind, at = _unsigned(wasm, at)
        offset = None
        if kind == 2:  # names its memory
            _, at = _unsigned(wasm, at)
        if kind != 1:
            assert wasm[at] == _I32_CONST
            offset, at = _signed(wasm, at + 1)
            assert wasm[at] == _END
            at += 1
        size, at = _unsigned(wasm, at)
        if offset is not None:
            yield offset % (1 << 32), wasm[at : at + size]
        at += size


def _unsigned(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if byte < 0x80:
            return value, at


def _signed(data: bytes, at: int) -> tuple[int, int]:
    value, end = _unsigned(data, at)
    bits = 7 * (end - at)
    return (value - (1 << bits) if value >> (bits - 1) else value), end


def _size(image: bytearray, at: int, version: Version) -> int:
    """Of the file that begins at `at`."""
    shapes, kinds = version.shapes(version.l1), version.kinds()
    end = at + 12 + int.from_bytes(image[at + 8 : at + 12], "little") + 4
    for block in version.blocks:
        if block.encoding is Encoding.LEB128:
            end += leb128.HEADER + int.from_bytes(image[end + len(leb128.MAGIC) : end + leb128.HEADER], "little")
            continue
        for name in block.names:
            size = kinds[name](0).nbytes
            for extent in shapes[name]:
                size *= extent
            end += size
    return end + NUM_BUCKETS * stack_type(version, version.l1).itemsize - at
