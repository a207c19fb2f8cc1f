"""Lists of rows, and sums by lines that follow what is copied."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pool import _native

Bytes = npt.NDArray[np.uint8]
LISTS = st.lists(st.sets(st.integers(0, 400)).map(lambda rows: np.array(sorted(rows), np.uint16)), max_size=5)


@given(lists=LISTS, first=st.integers(0, 400), rows=st.integers(0, 100))
def test_a_union_is_what_is_in_any_list(lists: list[npt.NDArray[np.uint16]], first: int, rows: int) -> None:
    out = np.empty(sum(map(len, lists)), np.uint32)
    found = out[: _native.union_rows(out, lists, first=first, last=first + rows)]
    expected = sorted({int(row) for each in lists for row in each if first <= row < first + rows})
    assert found.tolist() == expected


def test_rows_of_a_list_are_copied_and_no_others() -> None:
    source, out = torch.randn(50, 7), torch.zeros(50, 7)
    _native.copy_rows(out, source, np.array([100, 103, 149], np.uint32), first_row=100, threads=2)
    assert out.any(1).nonzero()[:, 0].tolist() == [0, 3, 49]
    assert torch.equal(out[[0, 3, 49]], source[[0, 3, 49]])


@pytest.mark.parametrize("threads", [1, 3])
def test_rows_that_are_left_out_are_not_copied(threads: int) -> None:
    source, out = torch.randn(50, 7), torch.zeros(50, 7)
    rows, but_not = np.arange(110, 150, 3, dtype=np.uint32), np.array([2, 110, 111, 122, 146, 200], np.uint16)
    _native.copy_rows(out, source, rows, but_not=but_not, first_row=100, threads=threads)
    copied = sorted(set(rows.tolist()) - set(but_not.tolist()))
    assert (out.any(1).nonzero()[:, 0] + 100).tolist() == copied
    with pytest.raises(ValueError, match="rows are not strictly ascending"):
        _native.copy_rows(out, source, rows, but_not=but_not[::-1].copy(), first_row=100)


@pytest.mark.parametrize("rows", [[5, 50], [3, 2], [2, 2], [9]])
def test_rows_that_are_not_there_or_not_in_order_are_refused(rows: list[int]) -> None:
    out = torch.zeros(40, 2)
    numbers = np.array(rows, np.uint32)
    with pytest.raises(ValueError, match=r"rows are not (strictly ascending|within 10 to below 50)"):
        _native.copy_rows(out, torch.ones(40, 2), numbers, first_row=10)
    with pytest.raises(ValueError, match=r"rows are not (strictly ascending|within 10 to below 74)"):
        _native.mark_rows(np.zeros(1, np.uint64), numbers + (64 - 40 if rows == [5, 50] else 0), first_row=10)
    assert not out.any()


def slow_sum(data: Bytes, first_line: int) -> int:
    """As pool/kernels/cpu/memory/lines.h says."""
    padded = np.zeros(-(-len(data) // 64) * 64, np.uint8)
    padded[: len(data)] = data
    total = 0
    for i, line in enumerate(padded.reshape(-1, 64)):
        value = 0xCBF29CE484222325
        for word in (first_line + i, *map(int, line.view(np.uint64))):
            value = (value ^ word) * 0x100000001B3 % 2**64
            value ^= value >> 32
        total += value
    return total % 2**64


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 1 << 30),
    rows=st.sampled_from([1, 63, 64, 65, 300]),
    row_nbytes=st.sampled_from([4, 12, 64, 100, 256]),
    threads=st.integers(1, 3),
    share=st.sampled_from([0.0, 0.01, 0.3, 1.0]),
)
def test_sums_follow_what_is_copied(seed: int, rows: int, row_nbytes: int, threads: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    size = rows * row_nbytes
    source = rng.integers(256, size=size).astype(np.uint8)
    out = rng.integers(256, size=-(-size // 64) * 64).astype(np.uint8)
    total = _native.copy_lines(out, source, first_line=9, threads=threads)
    assert out[:size].tobytes() == source.tobytes()
    assert not out[size:].any()
    assert total == slow_sum(source, 9) == _native.sum_of_lines(out, first_line=9, threads=threads)
    changed = np.flatnonzero(rng.random(rows) < share).astype(np.uint32)
    source.reshape(rows, row_nbytes)[changed] ^= 0x55
    words = np.zeros(-(-rows // 64), np.uint64)
    _native.mark_rows(words, changed)
    total += _native.copy_lines(out, source, first_line=9, changed=words, row_nbytes=row_nbytes, threads=threads)
    assert out[:size].tobytes() == source.tobytes()
    assert total % 2**64 == slow_sum(source, 9)


def test_any_flipped_bit_and_any_two_lines_in_each_others_place_change_the_sum() -> None:
    rng = np.random.default_rng(0)
    data = rng.integers(256, size=192).astype(np.uint8)
    expected = _native.sum_of_lines(data, first_line=64)
    for bit in range(8 * len(data)):
        data[bit // 8] ^= 1 << bit % 8
        assert _native.sum_of_lines(data, first_line=64) != expected, bit
        data[bit // 8] ^= 1 << bit % 8
    data[:128] = np.roll(data[:128], 64)
    assert _native.sum_of_lines(data, first_line=64) != expected
    signs = data.copy()
    signs[[7, 15]] ^= 0x80  # of two neighbours, where a plain product would cancel
    assert _native.sum_of_lines(signs, first_line=64) != _native.sum_of_lines(data, first_line=64)
