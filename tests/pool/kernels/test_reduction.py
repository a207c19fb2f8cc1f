"""The reduction: gradients added up along a fixed tree (I2), dense or by touched rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pool import _native

Floats = npt.NDArray[np.float32]
RowSource = tuple[Floats, npt.NDArray[Any]]


def tree(sources: Sequence[Floats | None]) -> Floats | None:
    """The sum by its definition: halves of a power of two places; None where there is nothing."""
    if len(sources) == 1:
        return sources[0]
    half = 1 << (len(sources) - 1).bit_length() - 1
    left, right = tree(sources[:half]), tree(sources[half:])
    return right if left is None else left if right is None else left + right


def scaled(total: Floats | None, scale: float) -> Floats:
    assert total is not None
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
@pytest.mark.parametrize("count", [1, 2, 4, 7])
@pytest.mark.parametrize("scale", [1.0, 1 / 3])
def test_fold_adds_along_the_tree(size: int, count: int, scale: float) -> None:
    sources = random_sources(count, size)
    wanted = scaled(tree(sources), scale)
    for threads in (1, 3):
        result = np.full(size, 0.5, np.float32)
        _native.reduce(result, sources, scale=scale, threads=threads)
        assert bits(result) == bits(wanted)


@given(places=st.sets(st.integers(0, 40), min_size=1, max_size=20), seed=st.integers(0, 99))
def test_a_place_that_is_empty_changes_nothing_elsewhere(places: set[int], seed: int) -> None:
    chosen = sorted(places)
    sources = random_sources(len(chosen), 37, seed)
    tables = row_sources(len(chosen), 9, 5, 3, 20, seed)
    at: dict[int, Floats] = dict(zip(chosen, sources, strict=True))
    out, table = np.empty(37, np.float32), np.empty((9, 5), np.float32)
    _native.reduce(out, sources, leaves=chosen)
    _native.reduce_rows(table, tables, leaves=chosen, first_row=3)
    assert bits(out) == bits(scaled(tree([at.get(place) for place in range(64)]), 1.0))
    for r in range(9):
        rows = {place: rows[r] for place, (rows, touched) in zip(chosen, tables, strict=True) if r + 3 in touched}
        wanted = tree([rows.get(place) for place in range(64)])
        assert bits(table[r]) == bits(np.zeros(5, np.float32) if wanted is None else wanted + np.float32(0))


def test_the_last_place_there_is_can_be_taken() -> None:
    places = [*range(31), 1 << 31, (1 << 32) - 1]
    sources = random_sources(len(places), 3)
    out = np.empty(3, np.float32)
    _native.reduce(out, sources, leaves=places)
    left, right = tree(sources[:31]), sources[31] + sources[32]
    assert left is not None
    assert bits(out) == bits(left + right)


@pytest.mark.usefixtures("simd_level")
def test_fold_of_one_source_is_a_copy_to_the_bit() -> None:
    source = np.array([-0.0, 0.0, 1e-42, np.inf], np.float32)
    out = np.empty_like(source)
    _native.reduce(out, [source])
    assert bits(out) == bits(source)


def test_fold_of_nothing_is_zeros() -> None:
    out = np.full(5, 3, np.float32)
    _native.reduce(out, [])
    assert (out == 0).all()


def test_fold_may_write_into_one_of_its_sources() -> None:
    for mine in range(3):
        sources = random_sources(3, 300)
        wanted = scaled(tree(sources), 1.0)
        _native.reduce(sources[mine], sources)
        assert bits(sources[mine]) == bits(wanted)


@given(seed=st.integers(0, 99), scale=st.sampled_from([1.0, 0.2]), cut=st.sampled_from([2, 4]))
def test_a_node_may_be_summed_before_the_rest_and_in_place(seed: int, scale: float, cut: int) -> None:
    sources = random_sources(7, 70, seed)
    tables = row_sources(7, 9, 5, 3, 20, seed)
    whole, whole_table = np.empty(70, np.float32), np.empty((9, 5), np.float32)
    _native.reduce(whole, sources, scale=scale)
    _native.reduce_rows(whole_table, tables, scale=scale, first_row=3)
    node, table = sources[0], tables[0][0]
    touched = np.unique(np.concatenate([touched for _, touched in tables[:cut]]))
    _native.reduce(node, sources[:cut])
    _native.reduce_rows(table, tables[:cut], first_row=3, touched_only=True)
    places = [0, *range(cut, 7)]
    _native.reduce(node, [node, *sources[cut:]], leaves=places, scale=scale)
    _native.reduce_rows(table, [(table, touched), *tables[cut:]], leaves=places, first_row=3, scale=scale)
    assert bits(node) == bits(whole)
    assert bits(table) == bits(whole_table)


@pytest.mark.usefixtures("simd_level")
@pytest.mark.parametrize("columns", [1, 8, 33, 256])
@pytest.mark.parametrize("scale", [1.0, 1 / 3])
def test_fold_of_rows_equals_the_dense_fold_with_zeros(columns: int, scale: float) -> None:
    for seed in range(3):
        first_row, rows = 13 * seed, 150
        sources = row_sources(5, rows, columns, first_row, 200, seed)
        wanted = scaled(tree([dense(source, first_row) for source in sources]), scale)
        for threads in (1, 2, 3):
            result = np.full((rows, columns), np.nan, np.float32)
            _native.reduce_rows(result, sources, scale=scale, first_row=first_row, threads=threads)
            assert bits(result) == bits(wanted)


@pytest.mark.usefixtures("simd_level")
def test_large_folds_of_rows_past_the_caches_are_complete() -> None:
    sources = row_sources(2, 5000, 128, 0, 5000, 1)
    result = np.full((5008 * 128 + 16), np.nan, np.float32)
    skip = -result.ctypes.data // 4 % 16  # to a cache line
    table = result[skip : skip + 5000 * 128].reshape(5000, 128)
    _native.reduce_rows(table, sources, threads=2)
    assert bits(table) == bits(dense(sources[0], 0) + dense(sources[1], 0))


def test_rows_touched_by_none_become_zeros_or_stay() -> None:
    nothing: RowSource = (np.full((4, 3), np.nan, np.float32), np.array([], np.uint16))
    out = np.full((4, 3), 2, np.float32)
    _native.reduce_rows(out, [nothing], touched_only=True, scale=0.5)
    assert (out == 2).all()
    _native.reduce_rows(out, [nothing])
    assert (out == 0).all()


def test_a_row_of_minus_zeros_is_zeros() -> None:
    """Else it would matter which of the sources that did not touch a row stood for zero."""
    rows: RowSource = (np.full((1, 3), -0.0, np.float32), np.array([0], np.uint16))
    for count in (1, 2, 3):
        out = np.ones((1, 3), np.float32)
        _native.reduce_rows(out, [rows] * count)
        assert bits(out) == bits(np.zeros((1, 3), np.float32))


def test_fold_refuses_what_does_not_fit() -> None:
    out = np.zeros(4, np.float32)
    with pytest.raises(ValueError, match="source 1 has 3 numbers, must have 4"):
        _native.reduce(out, [out, np.zeros(3, np.float32)])
    with pytest.raises(ValueError, match="source 0 must be float32 or bfloat16"):
        _native.reduce(out, [np.zeros(4)])
    with pytest.raises(ValueError, match="there are 1 leaves for 2 sources"):
        _native.reduce(out, [out, out], leaves=[0])
    with pytest.raises(ValueError, match="leaf 1 is 3 after 3: leaves must ascend"):
        _native.reduce(out, [out, out], leaves=[3, 3])
    with pytest.raises(ValueError, match="threads must be 1 to 1024, not 0"):
        _native.reduce(out, [out], threads=0)
    square = np.zeros((2, 2), np.float32)
    with pytest.raises(ValueError, match="source 0 is not contiguous"):
        _native.reduce(square, [np.arange(8, dtype=np.float32).reshape(2, 4)[:, ::2]])
    with pytest.raises(ValueError, match="out is not contiguous"):
        _native.reduce(np.zeros((2, 4), np.float32)[:, ::2], [square])


def test_fold_adds_arrays_of_any_shape_along_their_memory() -> None:
    source = np.arange(24, dtype=np.float32)
    out = np.zeros((2, 3, 4), np.float32)
    _native.reduce(out, [source.reshape(2, 3, 4), source], scale=0.5)
    assert bits(out) == bits(source)
    number = np.zeros((), np.float32)
    _native.reduce(number, [np.ones((), np.float32)])
    assert number == 1


def test_fold_of_rows_refuses_what_does_not_fit() -> None:
    out = np.zeros((4, 3), np.float32)
    touched = np.array([1, 2], np.uint16)
    with pytest.raises(ValueError, match=r"source 0 is \[3, 3\], but out is \[4, 3\]"):
        _native.reduce_rows(out, [(np.zeros((3, 3), np.float32), touched)])
    with pytest.raises(ValueError, match="touched of source 1 is not strictly ascending"):
        _native.reduce_rows(out, [(out, touched), (out, touched[::-1].copy())])
    with pytest.raises(ValueError, match="touched of source 0 must be uint16 or uint32"):
        _native.reduce_rows(out, [(out, touched.astype(np.int64))])


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


@pytest.mark.usefixtures("simd_level")
@pytest.mark.parametrize("touched_only", [False, True])
@pytest.mark.parametrize("first_row", [0, 7])
def test_touched_rows_one_after_the_other_are_added_as_where_they_belong(first_row: int, touched_only: bool) -> None:
    """Some of the sources are compact, as a worker on a device writes them."""
    rows, columns = 90, 24
    sources = row_sources(4, rows, columns, first_row, 130, seed=5)
    mixed = [compact(source, first_row) if i != 2 else source for i, source in enumerate(sources)]
    assert [len(gradient) < rows for gradient, _ in mixed] == [True, True, False, True]
    found = []
    for all_of_them in (sources, mixed):
        out = np.full((rows, columns), 9.0, np.float32)
        _native.reduce_rows(out, all_of_them, scale=0.5, first_row=first_row, touched_only=touched_only, threads=3)
        found.append(out)
    np.testing.assert_array_equal(found[0].view(np.uint32), found[1].view(np.uint32))


def narrowed(sources: Sequence[Floats], which: set[int]) -> tuple[list[Any], list[Floats]]:
    """Some of the sources rounded to bfloat16; and all of them as float32."""
    rounded = [torch.from_numpy(each).to(torch.bfloat16) if i in which else each for i, each in enumerate(sources)]
    return rounded, [each.float().numpy() if isinstance(each, torch.Tensor) else each for each in rounded]


@pytest.mark.usefixtures("simd_level")
@pytest.mark.parametrize("which", [{0, 1, 2, 3, 4, 5, 6}, {1, 2, 6}], ids=["all", "some"])
def test_sources_of_bfloat16_are_added_up_as_their_float32(which: set[int]) -> None:
    """Also beside others, as the sum of a node that was added up early is; rows too, in their places or compact."""
    for count in range(1, 8):
        for size in (1, 15, 129, 5000):
            narrow, wide = narrowed(random_sources(count, size, size), which)
            found, wanted = np.empty(size, np.float32), np.empty(size, np.float32)
            _native.reduce(found, narrow, scale=1 / 3, threads=2)
            _native.reduce(wanted, wide, scale=1 / 3)
            assert bits(found) == bits(wanted)
    for columns in (1, 24, 130):
        tables = row_sources(5, 40, columns, 7, 60, seed=columns)
        for packed in (tables, [compact(source, 7) for source in tables]):
            narrow, wide = narrowed([gradient for gradient, _ in packed], which)
            lists = [touched for _, touched in packed]
            for touched_only in (False, True):
                table, expected = (np.full((40, columns), 9.0, np.float32) for _ in range(2))
                settings: dict[str, Any] = {"scale": 0.5, "first_row": 7, "touched_only": touched_only, "threads": 2}
                _native.reduce_rows(table, list(zip(narrow, lists, strict=True)), **settings)
                _native.reduce_rows(expected, list(zip(wide, lists, strict=True)), **settings)
                assert bits(table) == bits(expected)


def test_a_compact_source_has_a_row_for_each_that_is_touched() -> None:
    gradient, touched = np.ones((3, 4), np.float32), np.array([1, 2], np.uint16)
    with pytest.raises(ValueError, match=r"source 0 is \[3, 4\], but out is \[8, 4\], of which 2 are touched"):
        _native.reduce_rows(np.zeros((8, 4), np.float32), [(gradient, touched)])


def compact(source: RowSource, first_row: int) -> RowSource:
    gradient, touched = source
    inside = touched[(touched >= first_row) & (touched < first_row + len(gradient))].astype(np.int64) - first_row
    return np.ascontiguousarray(gradient[inside]), touched
