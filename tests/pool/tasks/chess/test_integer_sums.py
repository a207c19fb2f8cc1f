"""Integer layers of exported networks against numpy, where everything wraps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pool import _native
from pool.tasks.chess.integer_sums import sums_int16, sums_int32
from pool.tasks.chess.positions import Bags


def bags(rng: np.random.Generator, count: int, features: int) -> Bags:
    offsets = np.cumsum([0, *rng.integers(0, 40, count)]).astype(np.uint32)
    return Bags(rng.integers(0, features, offsets[-1]).astype(np.uint32), offsets)


def numbers(rng: np.random.Generator, kind: Any, *shape: int) -> Any:
    limits = np.iinfo(kind)
    return rng.integers(limits.min, limits.max, shape, kind, endpoint=True)


@given(
    st.integers(0, 1 << 32),
    st.integers(0, 20),
    st.sampled_from([1, 3, 8, 33]),
    st.sampled_from([1, 2, 7]),
    st.booleans(),
)
def test_sums_of_rows_wrap_and_features_of_no_table_count_nothing(
    seed: int, count: int, columns: int, threads: int, of_int32: bool
) -> None:
    rng = np.random.default_rng(seed)
    kinds = (np.int32, np.int32) if of_int32 else (np.int8, np.int16)
    tables = [(2, numbers(rng, kinds[0], 10, columns)), (15, numbers(rng, kinds[1], 5, columns))]
    given_bags = bags(rng, count, 25)
    whole = np.zeros((25, columns), np.int64)
    for first, rows in tables:
        whole[first : first + len(rows)] = rows
    start: Any = np.zeros(columns, np.int16) if of_int32 else numbers(rng, np.int16, columns)
    cuts = zip(given_bags.offsets[:-1], given_bags.offsets[1:], strict=True)
    expected = [start.astype(np.int64) + whole[given_bags.features[begin:end]].sum(axis=0) for begin, end in cuts]
    kind = np.int32 if of_int32 else np.int16
    got = sums_int32(tables, given_bags, threads) if of_int32 else sums_int16(tables, start, given_bags, threads)
    assert got.dtype == kind
    assert np.array_equal(got, np.array(expected, np.int64).reshape(count, columns).astype(kind))


@given(st.integers(0, 1 << 32), st.integers(0, 9), st.integers(1, 70), st.integers(1, 40))
def test_products_are_those_of_a_matrix_modulo_2_to_the_32(seed: int, samples: int, depth: int, outputs: int) -> None:
    rng = np.random.default_rng(seed)
    inputs, weight = numbers(rng, np.uint16, samples, depth), numbers(rng, np.int8, outputs, depth)
    inputs[rng.random(inputs.shape) < 0.5] = 0
    bias, out = numbers(rng, np.int32, outputs), np.empty((samples, outputs), np.int32)
    _native.integer_products(inputs, weight, bias, out)
    assert np.array_equal(out, (inputs.astype(np.int64) @ weight.astype(np.int64).T + bias).astype(np.int32))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"offsets": np.array([0, 9], np.uint32)}, "offsets"),
        ({"offsets": np.array([2, 1], np.uint32)}, "offsets"),
        ({"out": np.empty((2, 4), np.int16)}, "out has 2 rows, offsets 2 numbers"),
        ({"out": np.empty((1, 3), np.int16)}, "rows have 4 columns, out has 3"),
        ({"out": np.empty((1, 4), np.float32)}, "out must be int16 or int32"),
        ({"tables": [(0, np.zeros((2, 4), np.float32))]}, "rows must be int8 or int16"),
        ({"start": np.zeros(3, np.int16)}, "start has 3 numbers, must have 4"),
        ({"start": np.zeros(4, np.int32)}, "start must be int16"),
        ({"features": np.zeros(3, np.int64)}, "features must be uint16 or uint32"),
        ({"threads": 0}, "threads must be 1 to 1024, not 0"),
    ],
)
def test_what_does_not_fit_is_named_before_anything_is_written(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {
        "tables": [(0, np.ones((2, 4), np.int16))],
        "start": None,
        "features": np.zeros(3, np.uint32),
        "offsets": np.array([0, 3], np.uint32),
        "out": np.full((1, 4), 7, np.int16),
    }
    with pytest.raises(ValueError, match=message):
        _native.integer_row_sums(**{**arguments, **change})
    assert (arguments["out"] == 7).all()
