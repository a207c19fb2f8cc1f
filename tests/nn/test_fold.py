"""The reduction: gradients added up in batch order (I2), dense or by touched rows."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pool import _native

Floats = npt.NDArray[np.float32]
RowSource = tuple[Floats, npt.NDArray[Any]]


def left_fold(sources: list[Floats], start: Floats | None, scale: float) -> Floats:
    total = sources[0].copy() if start is None else start.copy()
    for source in sources[1 if start is None else 0 :]:
        total = total + source
    return total if scale == 1 else total * np.float32(scale)


def random_sources(count: int, size: int, seed: int = 0) -> list[Floats]:
    rng = np.random.default_rng(seed)
    # magnitudes far apart, so that another order of adding shows in the bits
    return [(rng.standard_normal(size) * 10.0 ** rng.integers(-4, 5, size)).astype(np.float32) for _ in range(count)]


def row_sources(count: int, rows: int, columns: int, first_row: int, total_rows: int, seed: int) -> list[RowSource]:
    """Rows that a source did not touch hold NaN."""
    rng = np.random.default_rng(seed)
    sources = []
    for values in random_sources(count, rows * columns, seed):
        share = rng.random()
        touched = np.flatnonzero(rng.random(total_rows) < share)
        gradient = values.reshape(rows, columns)
        missing = np.setdiff1d(np.arange(first_row, first_row + rows), touched)
        gradient[missing - first_row] = np.nan
        sources.append((gradient, touched.astype(np.uint16 if seed % 2 else np.uint32)))
    return sources


def dense(source: RowSource, first_row: int) -> Floats:
    gradient, touched = source
    inside = touched[(touched >= first_row) & (touched < first_row + len(gradient))].astype(np.int64) - first_row
    full = np.zeros_like(gradient)
    full[inside] = gradient[inside]
    return full


def bits(array: Floats) -> bytes:
    return array.tobytes()


@pytest.mark.usefixtures("simd_level")
@pytest.mark.parametrize("size", [0, 1, 15, 16, 129, 5000, 700_001])
@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("scale", [1.0, 1 / 3])
def test_fold_adds_left_to_right(size: int, accumulate: bool, scale: float) -> None:
    sources = random_sources(4, size)
    out = np.full(size, 0.5, np.float32)
    wanted = left_fold(sources, out if accumulate else None, scale)
    for threads in (1, 2, 3):
        result = out.copy()
        _native.fold(result, sources, accumulate=accumulate, scale=scale, threads=threads)
        assert bits(result) == bits(wanted)


@pytest.mark.usefixtures("simd_level")
def test_fold_of_one_source_is_a_copy_to_the_bit() -> None:
    source = np.array([-0.0, 0.0, 1e-42, np.inf], np.float32)
    out = np.empty_like(source)
    _native.fold(out, [source])
    assert bits(out) == bits(source)


def test_fold_of_nothing_is_zeros_or_what_was_there() -> None:
    out = np.full(5, 3, np.float32)
    _native.fold(out, [], accumulate=True)
    assert (out == 3).all()
    _native.fold(out, [])
    assert (out == 0).all()


def test_fold_may_write_into_its_first_source() -> None:
    first, second = random_sources(2, 300)
    wanted = first + second
    _native.fold(first, [first, second])
    assert bits(first) == bits(wanted)


@given(cuts=st.lists(st.integers(1, 6), max_size=4), seed=st.integers(0, 99), scale=st.sampled_from([1.0, 0.2]))
def test_cutting_the_list_of_sources_does_not_change_the_bits(cuts: list[int], seed: int, scale: float) -> None:
    sources = random_sources(7, 70, seed)
    tables = row_sources(7, 9, 5, 3, 20, seed)
    whole, whole_table = np.empty(70, np.float32), np.empty((9, 5), np.float32)
    _native.fold(whole, sources, scale=scale)
    _native.fold_rows(whole_table, tables, scale=scale, first_row=3)
    borders = [0, *sorted(set(cuts)), 7]
    out, table = np.empty_like(whole), np.empty_like(whole_table)
    for first, last in pairwise(borders):
        rest: dict[str, Any] = {"accumulate": first > 0, "scale": scale if last == 7 else 1.0}
        _native.fold(out, sources[first:last], **rest)
        _native.fold_rows(table, tables[first:last], first_row=3, **rest)
    assert bits(out) == bits(whole)
    assert bits(table) == bits(whole_table)


@pytest.mark.usefixtures("simd_level")
@pytest.mark.parametrize("columns", [1, 8, 33, 256])
@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("scale", [1.0, 1 / 3])
def test_fold_of_rows_equals_the_dense_fold_with_zeros(columns: int, accumulate: bool, scale: float) -> None:
    for seed in range(3):
        first_row, rows = 13 * seed, 150
        sources = row_sources(5, rows, columns, first_row, 200, seed)
        out = np.full((rows, columns), 0.5 if accumulate else 0.0, np.float32)
        wanted = left_fold([dense(source, first_row) for source in sources], out, scale)
        for threads in (1, 2, 3):
            result = out.copy() if accumulate else np.full_like(out, np.nan)
            _native.fold_rows(result, sources, accumulate=accumulate, scale=scale, first_row=first_row, threads=threads)
            assert bits(result) == bits(wanted)


@pytest.mark.usefixtures("simd_level")
def test_large_folds_of_rows_past_the_caches_are_complete() -> None:
    sources = row_sources(2, 5000, 128, 0, 5000, 1)
    result = np.full((5008 * 128 + 16), np.nan, np.float32)
    skip = -result.ctypes.data // 4 % 16  # to a cache line
    table = result[skip : skip + 5000 * 128].reshape(5000, 128)
    _native.fold_rows(table, sources, threads=2)
    assert bits(table) == bits(dense(sources[0], 0) + dense(sources[1], 0))


def test_rows_touched_by_none_become_zeros_or_stay() -> None:
    nothing: RowSource = (np.full((4, 3), np.nan, np.float32), np.array([], np.uint16))
    out = np.full((4, 3), 2, np.float32)
    _native.fold_rows(out, [nothing], accumulate=True)
    assert (out == 2).all()
    _native.fold_rows(out, [nothing], accumulate=True, scale=0.5)
    assert (out == 1).all()
    _native.fold_rows(out, [nothing])
    assert (out == 0).all()


def test_fold_refuses_what_does_not_fit() -> None:
    out = np.zeros(4, np.float32)
    with pytest.raises(ValueError, match="source 1 has 3 numbers, must have 4"):
        _native.fold(out, [out, np.zeros(3, np.float32)])
    with pytest.raises(ValueError, match="source 0 must be float32"):
        _native.fold(out, [np.zeros(4)])
    with pytest.raises(ValueError, match="threads must be 1 to 1024, not 0"):
        _native.fold(out, [out], threads=0)


def test_fold_of_rows_refuses_what_does_not_fit() -> None:
    out = np.zeros((4, 3), np.float32)
    touched = np.array([1, 2], np.uint16)
    with pytest.raises(ValueError, match=r"source 0 is \[3, 3\], but out is \[4, 3\]"):
        _native.fold_rows(out, [(np.zeros((3, 3), np.float32), touched)])
    with pytest.raises(ValueError, match="touched of source 1 is not strictly ascending"):
        _native.fold_rows(out, [(out, touched), (out, touched[::-1].copy())])
    with pytest.raises(ValueError, match="touched of source 0 must be uint16 or uint32"):
        _native.fold_rows(out, [(out, touched.astype(np.int64))])


@pytest.mark.usefixtures("simd_level")
@pytest.mark.parametrize("size", [0, 1, 15, 64, 65, 1000])
def test_a_copy_knows_whether_all_of_it_is_finite(size: int) -> None:
    (source,) = random_sources(1, size)
    out = np.empty_like(source)
    assert _native.copy_checked(out, source)
    assert bits(out) == bits(source)
    for place in range(0, size, max(1, size // 20)):
        for bad in (np.nan, np.inf, -np.inf):
            damaged = source.copy()
            damaged[place] = bad
            assert not _native.copy_checked(out, damaged)
            assert bits(out) == bits(damaged)


def test_a_copy_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="source has 3 numbers, must have 4"):
        _native.copy_checked(np.empty(4, np.float32), np.empty(3, np.float32))
