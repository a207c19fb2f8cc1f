"""Compressed numbers against Python's own integers; what is not in its one form is refused with its place."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pool.tasks.chess.stockfish import leb128
from pool.tasks.chess.stockfish.leb128 import BadNumberError, decode, encode

EDGES = [sign * (1 << bit) + step for bit in range(31) for sign in (-1, 1) for step in (-1, 0, 1)]


def slow_encode(number: int) -> bytes:
    out = bytearray()
    while True:
        byte, number = number & 0x7F, number >> 7
        if (number == 0 and not byte & 0x40) or (number == -1 and byte & 0x40):
            return bytes([*out, byte])
        out.append(byte | 0x80)


@given(st.lists(st.one_of(st.integers(-(1 << 31), (1 << 31) - 1), st.sampled_from(EDGES)), max_size=50))
def test_numbers_are_written_as_by_hand_and_read_back(numbers: list[int]) -> None:
    array = np.array(numbers, np.int32)
    data = encode(array)
    assert data == b"".join(slow_encode(number) for number in numbers)
    assert decode(memoryview(data), len(numbers), np.int32).tolist() == numbers


def test_numbers_across_the_borders_of_pieces_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leb128, "_BLOCK_SIZE", 7)
    numbers = np.array(EDGES, np.int32)
    assert np.array_equal(decode(memoryview(encode(numbers)), len(EDGES), np.int32), numbers)


@pytest.mark.parametrize(
    ("data", "count", "reason", "offset"),
    [
        (b"\x01\x80\x00", 2, "shortest form", 1),
        (b"\xff\x7f", 1, "shortest form", 0),
        (b"\x01\x80\x80\x02", 2, "does not fit int16", 1),
        (b"\x01\x80", 2, "does not end", 1),
        (b"\x80\x80\x80\x80\x80\x01", 1, "more than 5 bytes", 0),
        (b"\x01\x01", 1, "more than the 1 numbers", 0),
        (b"\x01", 2, "has 1 numbers, and 2 are expected", 1),
        (b"", 1, "has 0 numbers", 0),
    ],
)
def test_what_is_not_the_one_form_is_refused_with_its_place(data: bytes, count: int, reason: str, offset: int) -> None:
    with pytest.raises(BadNumberError, match=reason) as caught:
        decode(memoryview(data), count, np.int16)
    assert caught.value.offset == offset
