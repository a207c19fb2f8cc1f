"""Encodes and decodes blocks of signed LEB128 numbers in a .nnue file. A number has 7 bits in each byte, the low ones
first, and as few bytes as possible. Free of torch.

A block consists of a magic word, the number of bytes that follow, and the numbers one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

MAGIC = b"COMPRESSED_LEB128"
HEADER = len(MAGIC) + 4
_MAX_NUMBER_NBYTES = 5  # bytes of an int32
_BLOCK_SIZE = 1 << 16  # numbers or bytes at a time, so that temporary arrays stay in the cache


class BadNumberError(ValueError):
    """Says what is wrong with a block. `offset` counts from the block's first byte."""

    def __init__(self, reason: str, offset: int) -> None:
        super().__init__(reason)
        self.offset = offset


def encode(numbers: npt.NDArray[np.signedinteger[Any]]) -> bytes:
    """Returns the encoded numbers of a block, without its header."""
    flat = numbers.reshape(-1)
    return b"".join(_encode_block(flat[i : i + _BLOCK_SIZE].astype(np.int64)) for i in range(0, flat.size, _BLOCK_SIZE))


def decode(data: memoryview, count: int, kind: type[np.signedinteger[Any]]) -> npt.NDArray[Any]:
    """Decodes a block's bytes to `count` numbers of the integer type `kind`. Raises BadNumberError if they are not that
    many, or one is damaged or does not fit."""
    block = np.empty(count, kind)
    done = 0
    for numbers, offset in _decode_blocks(data, kind):
        if done + len(numbers) > count:
            raise BadNumberError(f"more than the {count} numbers of the block", offset)
        block[done : done + len(numbers)] = numbers
        done += len(numbers)
    if done < count:
        raise BadNumberError(f"the block has {done} numbers, and {count} are expected", len(data))
    return block


def _encode_block(numbers: npt.NDArray[np.int64]) -> bytes:
    """Encodes numbers, all at once: first the size of each, then byte 0 of all, byte 1 of those that have one, and so
    on."""
    sizes = np.ones(len(numbers), np.int64)
    for size in range(1, _MAX_NUMBER_NBYTES):
        half = 1 << (7 * size - 1)
        sizes += (numbers < -half) | (numbers >= half)
    ends = np.cumsum(sizes)
    out = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    for place in range(_MAX_NUMBER_NBYTES):
        chosen = np.flatnonzero(sizes > place) if place else slice(None)
        more = (sizes[chosen] > place + 1).astype(np.uint8) << 7
        out[(ends - sizes)[chosen] + place] = (numbers[chosen] >> (7 * place) & 0x7F).astype(np.uint8) | more
    return out.tobytes()


def _decode_blocks(data: memoryview, kind: type[np.signedinteger[Any]]) -> Iterator[tuple[npt.NDArray[np.int64], int]]:
    """Yields the numbers of the block, some thousands at a time, with the offset of their first byte."""
    start = 0
    while start < len(data):
        piece = np.frombuffer(data[start : start + _BLOCK_SIZE], np.uint8)
        ends = np.flatnonzero(piece < 0x80) + 1
        if not len(ends):
            raise BadNumberError("a number does not end", start)
        yield _decode_block(piece[: ends[-1]], ends, kind, start), start
        start += int(ends[-1])


def _decode_block(
    piece: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64], kind: type[np.signedinteger[Any]], offset: int
) -> npt.NDArray[np.int64]:
    """Decodes the bytes of whole numbers; `ends` are the offsets after each number's last byte. Raises BadNumberError
    for a number that is too long, not in its shortest form, or does not fit `kind`."""
    sizes = np.diff(ends, prepend=0)
    starts = ends - sizes
    wrong = np.flatnonzero(sizes > _MAX_NUMBER_NBYTES)
    if wrong.size:
        raise BadNumberError(f"a number of more than {_MAX_NUMBER_NBYTES} bytes", offset + int(starts[wrong[0]]))
    numbers = np.zeros(len(ends), np.int64)
    for place in range(int(sizes.max())):
        chosen = np.flatnonzero(sizes > place) if place else slice(None)
        numbers[chosen] |= (piece[starts[chosen] + place] & 0x7F).astype(np.int64) << (7 * place)
    sign = np.int64(1) << (7 * sizes - 1)
    numbers = (numbers ^ sign) - sign
    half = np.int64(1) << np.maximum(7 * sizes - 8, 0)  # bound of the numbers that fit one byte less
    is_too_long = (sizes > 1) & (numbers >= -half) & (numbers < half)
    info = np.iinfo(kind)
    for mask, reason in (
        (is_too_long, "a number is not in its shortest form"),
        ((numbers < info.min) | (numbers > info.max), f"a number does not fit {info.dtype}"),
    ):
        wrong = np.flatnonzero(mask)
        if wrong.size:
            raise BadNumberError(reason, offset + int(starts[wrong[0]]))
    return numbers
