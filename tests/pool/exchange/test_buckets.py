"""Which gradients travel together, and where they lie."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from pool.exchange.plan import ALIGNMENT, ROW_UNIT, Plan, TensorSpec, assign_buckets, build_plan
from pool.process.document import from_json, to_json

SIZE = {"float32": 4, "float64": 8}


def assign(counts: list[int], dtypes: list[str], limits: list[int]) -> list[list[int]]:
    return assign_buckets([n * SIZE[d] for n, d in zip(counts, dtypes, strict=True)], dtypes, limits)


ALTERNATING = ["float32", "float64"] * 3


@pytest.mark.parametrize(
    ("counts", "dtypes", "limits", "expected"),
    [
        ([100, 200, 100, 50], ["float32"] * 4, [400], [[0], [1], [2], [3]]),
        ([50, 25, 50, 25, 50, 25], ALTERNATING, [400], [[0, 2], [1, 3], [4], [5]]),
        ([10, 10, 10, 10], ["float32"] * 4, [40, 80], [[0], [1, 2], [3]]),
        ([50, 25, 50, 25, 50, 25], ALTERNATING, [200, 400], [[0], [1], [2, 4], [3, 5]]),
    ],
)
def test_buckets_close_at_their_limit_each_dtype_on_its_own(
    counts: list[int], dtypes: list[str], limits: list[int], expected: list[list[int]]
) -> None:
    assert assign(counts, dtypes, limits) == expected


@given(
    st.lists(st.tuples(st.integers(0, 100), st.sampled_from(sorted(SIZE))), max_size=20),
    st.lists(st.integers(1, 500), min_size=1, max_size=3),
)
def test_every_parameter_is_in_one_bucket_of_its_dtype(parameters: list[tuple[int, str]], limits: list[int]) -> None:
    dtypes = [dtype for _, dtype in parameters]
    buckets = assign([count for count, _ in parameters], dtypes, limits)
    assert sorted(i for bucket in buckets for i in bucket) == list(range(len(parameters)))
    assert all(len({dtypes[i] for i in bucket}) == 1 for bucket in buckets)
    assert all(bucket == sorted(bucket) for bucket in buckets)


def test_sizes_and_dtypes_must_belong_together() -> None:
    with pytest.raises(ValueError, match="2 sizes, 1 dtypes, 1 limits"):
        assign_buckets([1, 2], ["float32"], [4])


@given(st.lists(st.tuples(st.integers(1, 300), st.sampled_from(sorted(SIZE))), min_size=1, max_size=12))
def test_a_plan_places_everything_once_aligned_and_survives_json(parameters: list[tuple[int, str]]) -> None:
    specs = [TensorSpec(f"p{i}", (n,), dtype, SIZE[dtype]) for i, (n, dtype) in enumerate(parameters)]
    plan = build_plan(specs, [TensorSpec("buffer", (), "int64", 8)], [256, 1024])
    places = sorted((t.offset, t.nbytes) for t in (*plan.parameters, *plan.buffers))
    assert all(offset % ALIGNMENT == 0 for offset, _ in places)
    assert all(a + n <= b for (a, n), (b, _) in pairwise(places))
    assert places[-1][0] + places[-1][1] <= plan.nbytes
    for bucket in plan.buckets:
        for index in bucket.parameters:
            tensor = plan.parameters[index]
            assert bucket.offset <= tensor.offset <= tensor.offset + tensor.nbytes <= bucket.offset + bucket.nbytes
    assert from_json(TypeAdapter(Plan), to_json(plan)) == plan


def test_buckets_follow_backward_the_last_parameter_first() -> None:
    specs = [TensorSpec(f"p{i}", (100,), "float32", 4) for i in range(4)]
    plan = build_plan(specs, [], [400, 800])
    assert [bucket.parameters for bucket in plan.buckets] == [(3,), (2, 1), (0,)]


@given(st.integers(1, 500), st.integers(1, 40), st.integers(64, 5000))
def test_a_table_beyond_the_limit_is_cut_in_rows_that_cover_it(rows: int, columns: int, limit: int) -> None:
    specs = [
        TensorSpec("table", (rows, columns), "float32", 4, "features"),
        TensorSpec("bias", (columns,), "float32", 4),
    ]
    plan = build_plan(specs, [], [limit], split_tables=True)
    table = plan.parameters[0]
    shares = [bucket for bucket in plan.buckets if bucket.rows is not None]
    assert bool(shares) == (table.nbytes > limit)
    assert from_json(TypeAdapter(Plan), to_json(plan)) == plan
    if shares:
        assert [bucket.rows[0] for bucket in shares if bucket.rows] == [
            0,
            *(bucket.rows[1] for bucket in shares[:-1] if bucket.rows),
        ]
        assert shares[-1].rows is not None
        assert shares[-1].rows[1] == rows
        for bucket in shares:
            assert bucket.rows is not None
            assert bucket.offset == table.offset + bucket.rows[0] * columns * 4
            assert bucket.rows[0] % ROW_UNIT == 0
            assert bucket.nbytes <= limit or bucket.rows[1] - bucket.rows[0] <= ROW_UNIT
