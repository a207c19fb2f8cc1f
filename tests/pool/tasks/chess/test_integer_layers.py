"""Integer layers of exported networks against numpy, where everything wraps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pool import _native
from pool.tasks.chess.integer_layers import evaluate_used_buckets, products, sum_rows_int16, sum_rows_int32
from pool.tasks.chess.positions import Bags, PositionBatch

THREE = np.zeros(3, np.uint32)


def sides(rng: np.random.Generator, count: int, features: int, *, game: bool) -> tuple[list[Any], list[Any]]:
    """The features of both sides; of a game few change from one position to the next, which the other side moves."""
    if not game:
        own, opponent = ([rng.integers(0, features, rng.integers(0, 40)) for _ in range(count)] for _ in range(2))
        return own, opponent
    seen = [rng.integers(0, features, 30), rng.integers(0, features, 30)]
    taken: tuple[list[Any], list[Any]] = [], []
    for _ in range(count):
        for side in seen:
            side[rng.integers(0, 30, 3)] = rng.integers(0, features, 3)
        seen = [rng.permutation(seen[1]), rng.permutation(seen[0])[rng.integers(0, 3) :]]
        seen = [np.concatenate([side, rng.integers(0, features, 30 - len(side))]) for side in seen]
        taken[0].append(seen[0].copy())
        taken[1].append(seen[1].copy())
    return taken


def block(own: list[Any], opponent: list[Any]) -> PositionBatch:
    return PositionBatch(bags(own), bags(opponent), np.zeros(len(own), np.int64))


def bags(side: list[Any]) -> Bags:
    offsets = np.cumsum([0, *map(len, side)]).astype(np.uint32)
    return Bags(np.concatenate([*side, np.zeros(0)]).astype(np.uint32), offsets)


def numbers(rng: np.random.Generator, kind: Any, *shape: int) -> Any:
    limits = np.iinfo(kind)
    return rng.integers(limits.min, limits.max, shape, kind, endpoint=True)


@given(
    st.integers(0, 1 << 32),
    st.integers(0, 20),
    st.sampled_from([1, 3, 8, 33]),
    st.sampled_from([1, 2, 7]),
    st.booleans(),
    st.booleans(),
)
def test_sums_of_rows_wrap_and_features_of_no_table_count_nothing(
    seed: int, count: int, columns: int, threads: int, of_int32: bool, game: bool
) -> None:
    rng = np.random.default_rng(seed)
    kinds = (np.int32, np.int32) if of_int32 else (np.int8, np.int16)
    tables = [(2, numbers(rng, kinds[0], 10, columns)), (15, numbers(rng, kinds[1], 5, columns))]
    features = sides(rng, count, 25, game=game)
    whole = np.zeros((25, columns), np.int64)
    for first, rows in tables:
        whole[first : first + len(rows)] = rows
    start: Any = np.zeros(columns, np.int16) if of_int32 else numbers(rng, np.int16, columns)
    expected = [[start.astype(np.int64) + whole[active].sum(axis=0) for active in side] for side in features]
    kind = np.int32 if of_int32 else np.int16
    both = block(*features)
    got = sum_rows_int32(tables, both, threads) if of_int32 else sum_rows_int16(tables, start, both, threads)
    assert got.dtype == kind
    assert np.array_equal(got, np.array(expected, np.int64).reshape(2, count, columns).astype(kind))


@given(
    st.integers(0, 1 << 32),
    st.integers(0, 9),
    st.integers(1, 70),
    st.integers(1, 40),
    st.sampled_from([np.uint16, np.uint32, np.int64]),
    st.sampled_from([np.int8, np.int16]),
    st.booleans(),
)
def test_products_are_those_of_matrices_modulo_2_to_the_32(
    seed: int, samples: int, depth: int, outputs: int, kind: Any, of_weights: Any, apart: bool
) -> None:
    rng = np.random.default_rng(seed)
    shape = (2, samples, depth) if apart else (samples, depth)
    inputs = numbers(rng, np.uint32 if kind is np.int64 else kind, *shape).astype(kind)
    weight, bias = numbers(rng, of_weights, 2, outputs, depth), numbers(rng, np.int32, 2, outputs)
    inputs[rng.random(inputs.shape) < 0.5] = 0
    whole = np.einsum("bni,boi->bno", np.broadcast_to(inputs, (2, samples, depth)).astype(object), weight)
    for start in (None, bias):
        expected = whole if start is None else whole + start[:, None]
        wrap_int32 = (np.asarray(expected) % (1 << 32)).astype(np.uint32).astype(np.int32)
        assert np.array_equal(products(inputs, weight, start), wrap_int32)


def test_each_position_is_asked_of_its_bucket_alone() -> None:
    bucket = np.array([3, 0, 3, 1])
    values = np.arange(16).reshape(4, 4)
    asked = []

    def of(inputs: Any, one: slice) -> Any:
        asked.append((inputs.tolist(), one))
        return inputs[:, one]

    assert evaluate_used_buckets(bucket, values, of).tolist() == [3, 4, 11, 13]
    assert [one for _, one in asked] == [slice(0, 1), slice(1, 2), slice(3, 4)]
    assert evaluate_used_buckets(bucket[:0], values[:0], of).tolist() == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"own": (THREE, np.array([0, 9], np.uint32))}, "offsets"),
        ({"opponent": (THREE, np.array([2, 1], np.uint32))}, "offsets"),
        ({"out": np.empty((2, 2, 4), np.int16)}, "out has 2 rows a side, offsets 2 numbers"),
        ({"out": np.empty((1, 1, 4), np.int16)}, "out has 1 sides, must have 2"),
        ({"out": np.empty((2, 1, 3), np.int16)}, "rows have 4 columns, out has 3"),
        ({"out": np.empty((2, 1, 4), np.float32)}, "out must be int16 or int32"),
        ({"tables": [(0, np.zeros((2, 4), np.float32))]}, "rows must be int8 or int16"),
        ({"start": np.zeros(3, np.int16)}, "start has 3 numbers, must have 4"),
        ({"start": np.zeros(4, np.int32)}, "start must be int16"),
        ({"own": (np.zeros(3, np.int64), np.array([0, 3], np.uint32))}, "features must be uint16 or uint32"),
        ({"threads": 0}, "threads must be 1 to 1024, not 0"),
    ],
)
def test_what_does_not_fit_is_named_before_anything_is_written(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {
        "tables": [(0, np.ones((2, 4), np.int16))],
        "start": None,
        "own": (THREE, np.array([0, 3], np.uint32)),
        "opponent": (THREE, np.array([0, 3], np.uint32)),
        "out": np.full((2, 1, 4), 7, np.int16),
    }
    with pytest.raises(ValueError, match=message):
        _native.integer_row_sums(**{**arguments, **change})
    assert (arguments["out"] == 7).all()
