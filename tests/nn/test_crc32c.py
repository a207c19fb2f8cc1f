"""The sum that tells a whole copy from a torn one."""

from __future__ import annotations

import numpy as np
import pytest

from pool import _native


def crc32c_by_bits(data: bytes) -> int:
    """RFC 3720 B.4, bit by bit."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def array(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


def test_it_is_the_castagnoli_sum() -> None:
    assert _native.crc32c(array(b"123456789")) == 0xE3069283
    assert _native.crc32c(array(bytes(32))) == 0x8A9136AA  # RFC 3720 B.4
    assert _native.crc32c(array(b"")) == 0


@pytest.mark.parametrize("length", [1, 7, 8, 9, 63, 1000])
def test_any_length_and_any_cut_give_the_sum_of_the_whole(length: int) -> None:
    data = np.random.default_rng(length).integers(0, 256, length, np.uint8)
    whole = crc32c_by_bits(data.tobytes())
    assert _native.crc32c(data) == whole
    for cut in {0, 1, length // 2, length}:
        assert _native.crc32c(data[cut:], _native.crc32c(data[:cut])) == whole


def test_other_types_are_refused() -> None:
    with pytest.raises(ValueError, match="uint8"):
        _native.crc32c(np.zeros(4, np.float32))
