"""float32 rounded to bfloat16: as torch rounds, whatever the number."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pool import _native

Words = npt.NDArray[np.uint32]
_LOW = (0, 1, 0x7FFE, 0x7FFF, 0x8000, 0x8001, 0xFFFF)  # lower halves around those that are cut in the middle
_HIGH = (0, 1, 0x7F, 0x80, 0x3F80, 0x3F81, 0x7F7E, 0x7F7F, 0x7F80, 0x7FC0, 0x7FFF)


def rounded(numbers: npt.NDArray[np.float32], threads: int = 1) -> tuple[torch.Tensor, bool]:
    out = torch.full((len(numbers),), 7.0, dtype=torch.bfloat16)
    return out, _native.round_numbers(out, numbers, threads=threads)


def assert_as_torch(words: Words, threads: int = 1) -> None:
    numbers = words.view(np.float32)
    found, finite = rounded(numbers, threads)
    wanted = torch.from_numpy(numbers).to(torch.bfloat16)
    assert finite == bool(wanted.isfinite().all())
    nan = wanted.isnan()
    assert torch.equal(found.isnan(), nan)
    assert torch.equal(found.view(torch.int16)[~nan], wanted.view(torch.int16)[~nan])
    assert (found.view(torch.int16)[nan] & 0x40 != 0).all(), "quiet"


@pytest.mark.usefixtures("simd_level")
def test_every_upper_half_and_every_border_of_the_lower_is_rounded_as_torch_does() -> None:
    """Zeros, subnormals, infinities and NaNs of both signs among them, and what becomes an infinity."""
    upper = np.arange(1 << 16, dtype=np.uint32) << np.uint32(16)
    for low in _LOW:
        assert_as_torch(upper | np.uint32(low), threads=3)
    for words in ([high << 16 | low] for high in _HIGH for low in _LOW):
        assert_as_torch(np.array(words, np.uint32))  # alone, so that it alone decides whether all is finite
        assert_as_torch(np.array(words, np.uint32) | np.uint32(1 << 31))


@pytest.mark.usefixtures("simd_level")
@given(size=st.integers(0, 200), columns=st.integers(1, 70), seed=st.integers(0, 99))
def test_any_size_and_any_rows(size: int, columns: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    assert_as_torch(rng.integers(0, 0x7F7F7FFF, size, np.uint32), threads=2)
    table = rng.standard_normal((50, columns)).astype(np.float32)
    rows = np.flatnonzero(rng.random(50) < 0.5).astype(np.uint16 if seed % 2 else np.uint32)
    out = torch.empty(len(rows), columns, dtype=torch.bfloat16)
    assert _native.round_rows(out, table, rows, threads=2)
    assert torch.equal(out, torch.from_numpy(table)[rows.astype(np.int64)].to(torch.bfloat16))
    if len(rows):
        table[rows[-1], -1] = 3.4e38  # finite, and not when it is rounded
        assert not _native.round_rows(out, table, rows)
        assert out[-1, -1].isinf()


def test_what_does_not_fit_is_refused() -> None:
    out, table = torch.zeros(2, 3, dtype=torch.bfloat16), np.zeros((4, 3), np.float32)
    cases: list[tuple[Any, str]] = [
        ((torch.zeros(2, 3), table, np.array([0, 1], np.uint16)), "out must be bfloat16"),
        ((out, table, np.array([0], np.uint16)), r"out is \[2, 3\], but there are 1 rows of 3 numbers"),
        ((out, table, np.array([1, 1], np.uint16)), "rows are not strictly ascending"),
        ((out, table, np.array([1, 4], np.uint16)), "rows are not below 4"),
    ]
    for arguments, message in cases:
        with pytest.raises(ValueError, match=message):
            _native.round_rows(*arguments)
    with pytest.raises(ValueError, match="source has 3 numbers, must have 2"):
        _native.round_numbers(out[0, :2], np.zeros(3, np.float32))
