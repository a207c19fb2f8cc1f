"""What other machines send is taken as it was sent, or refused in one line (I8)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from loader.stream.schema import BatchSchema
from pool.errors import ProtocolError
from pool.exchange.groups import Contribution, Groups
from pool.exchange.host.other_sums import OtherSums
from pool.exchange.layout import Layout
from pool.exchange.plan import TensorSpec, build_plan
from pool.protocol.messages import BucketSums, SumHeader

ROWS, COLUMNS = 40, 16
SPECS = [
    TensorSpec("table", (ROWS, COLUMNS), "float32", 4, "features"),
    TensorSpec("bias", (5,), "float32", 4),
    TensorSpec("scale", (), "float64", 8),
]
PLAN = build_plan(SPECS, [TensorSpec("mean", (3,), "float32", 4)], [64, 1 << 20])
LAYOUT = Layout(BatchSchema(1, (), ()), (PLAN,))
GROUPS = Groups(4)
FROM = Contribution((8, 9), 0, -1, 0, (), machine=1)  # of step 2


def frames(*arrays: np.ndarray) -> list[memoryview]:
    return [memoryview(array.tobytes()) for array in arrays]


def bucket_of(name: str) -> tuple[int, int]:
    """Returns the bucket that a parameter is in, and the parameter's number."""
    number = next(i for i, tensor in enumerate(PLAN.parameters) if tensor.name == name)
    return next(b for b, bucket in enumerate(PLAN.buckets) if number in bucket.parameters), number


TABLE, TABLE_NUMBER = bucket_of("table")
LISTED = np.array([3, 7, 39], np.uint32)
NUMBERS = np.arange(3 * COLUMNS, dtype=np.float32)
GOOD = BucketSums(2, TABLE, (SumHeader(TABLE_NUMBER, 0, 2, 3),))


def test_rows_of_a_table_and_numbers_of_all_types() -> None:
    sums = OtherSums(LAYOUT, GROUPS)
    sums.store(1, GOOD, frames(LISTED, NUMBERS))
    (addend,) = sums.read(FROM, TABLE_NUMBER, 0)
    assert addend.leaf == 2
    assert addend.touched is not None
    assert addend.touched.tolist() == LISTED.tolist()
    assert addend.gradient.view(-1).tolist() == NUMBERS.tolist()
    values: dict[str, np.ndarray] = {"bias": np.arange(5, dtype=np.float32), "scale": np.array(2.5)}
    for name, value in values.items():
        bucket, number = bucket_of(name)
        sums.store(1, BucketSums(2, bucket, (SumHeader(number, 0, 0, -1),)), frames(value))
        (addend,) = sums.read(FROM, number, 0)
        assert addend.gradient.shape == PLAN.parameters[number].shape
        assert addend.gradient.view(-1).tolist() == value.reshape(-1).tolist()


def test_a_message_may_begin_anywhere_in_memory() -> None:
    shifted = bytearray(1) + bytearray(LISTED.tobytes()), bytearray(3) + bytearray(NUMBERS.tobytes())
    sums = OtherSums(LAYOUT, GROUPS)
    sums.store(1, GOOD, [memoryview(shifted[0])[1:], memoryview(shifted[1])[3:]])
    (addend,) = sums.read(FROM, TABLE_NUMBER, 0)
    assert addend.gradient.data_ptr() % 4 == 0
    assert addend.gradient.view(-1).tolist() == NUMBERS.tolist()


def test_no_row_at_all() -> None:
    sums = OtherSums(LAYOUT, GROUPS)
    sums.store(1, replace(GOOD, sums=(SumHeader(TABLE_NUMBER, 0, 0, 0),)), frames(LISTED[:0], NUMBERS[:0]))
    (addend,) = sums.read(FROM, TABLE_NUMBER, 0)
    assert addend.gradient.shape == (0, COLUMNS)


def test_what_a_step_has_is_forgotten_with_it() -> None:
    sums = OtherSums(LAYOUT, GROUPS)
    sums.store(1, GOOD, frames(LISTED, NUMBERS))
    sums.drop_steps_before(2)
    assert sums.read(FROM, TABLE_NUMBER, 0)
    sums.drop_steps_before(3)
    with pytest.raises(KeyError):
        sums.read(FROM, TABLE_NUMBER, 0)


WRONG = {
    "another bucket": (replace(GOOD, bucket=99), (LISTED, NUMBERS), "bucket 99 of"),
    "a negative one": (replace(GOOD, bucket=-1), (LISTED, NUMBERS), "bucket -1 of"),
    "no such parameter": (replace(GOOD, sums=(SumHeader(77, 0, 0, 3),)), (LISTED, NUMBERS), "no piece of bucket"),
    "another piece": (
        replace(GOOD, sums=(SumHeader(TABLE_NUMBER, 16, 0, 3),)),
        (LISTED, NUMBERS),
        "no piece of bucket",
    ),
    "a table as a whole": (replace(GOOD, sums=(SumHeader(TABLE_NUMBER, 0, 0, -1),)), (NUMBERS,), "has 40 rows there"),
    "more rows than there are": (
        replace(GOOD, sums=(SumHeader(TABLE_NUMBER, 0, 0, 41),)),
        (LISTED, NUMBERS),
        "has 40 rows there",
    ),
    "rows beyond the table": (GOOD, (np.array([3, 7, 40], np.uint32), NUMBERS), "row numbers that do not ascend"),
    "rows that do not ascend": (GOOD, (np.array([7, 3, 39], np.uint32), NUMBERS), "row numbers that do not ascend"),
    "a row twice": (GOOD, (np.array([3, 3, 39], np.uint32), NUMBERS), "row numbers that do not ascend"),
    "too few row numbers": (GOOD, (LISTED[:2], NUMBERS), "8 bytes of row numbers"),
    "too few numbers": (GOOD, (LISTED, NUMBERS[1:]), "188 bytes for"),
    "no numbers": (GOOD, (LISTED,), "its numbers are missing"),
    "a frame too many": (GOOD, (LISTED, NUMBERS, NUMBERS), "1 frames too many"),
}


@pytest.mark.parametrize(("message", "arrays", "why"), WRONG.values(), ids=WRONG)
def test_what_is_no_sum_of_the_bucket_is_refused(message: BucketSums, arrays: tuple[np.ndarray, ...], why: str) -> None:
    sums = OtherSums(LAYOUT, GROUPS)
    with pytest.raises(ProtocolError, match=why):
        sums.store(1, message, frames(*arrays))
    with pytest.raises(KeyError):
        sums.read(FROM, TABLE_NUMBER, 0)


def test_buffers_of_another_size_are_refused() -> None:
    sums = OtherSums(LAYOUT, GROUPS)
    sums.store_buffers(1, 2, frames(np.arange(3, dtype=np.float32)))
    assert [buffer.tolist() for buffer in sums.buffers(FROM, 0)] == [[0.0, 1.0, 2.0]]
    with pytest.raises(ProtocolError, match="buffers of"):
        sums.store_buffers(1, 2, frames(np.arange(4, dtype=np.float32)))
