"""Gradients of a group in one slot: the same numbers as a sum in numpy, whatever a batch touches or lacks."""

from __future__ import annotations

import random

import numpy as np
import numpy.typing as npt
import pytest
import torch

from loader.stream.schema import BatchSchema, DenseField, SparseField
from pool.exchange.host.group import Group
from pool.exchange.host.lists import TouchedLists
from pool.exchange.host.worker import HostWorker
from pool.exchange.interface import GroupBatch
from pool.exchange.plan import TensorSpec, make_plan
from pool.exchange.tensors import views

ROWS, COLUMNS = 40, 5
SCHEMA = BatchSchema(8, (SparseField("features", ROWS, max_active=4),), ())
TABLE, DENSE, SCALAR = 0, 1, 2
Array = npt.NDArray[np.float32]


class Module(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(torch.empty(ROWS, COLUMNS))
        self.dense = torch.nn.Parameter(torch.empty(3))
        self.scalar = torch.nn.Parameter(torch.empty(()))


def numbers(draw: random.Random, *shape: int) -> Array:
    return np.random.default_rng(draw.getrandbits(32)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("seed", range(60))
def test_it_is_the_sum_from_left_to_right_over_the_rows_that_any_batch_touches(seed: int) -> None:
    """Bit for bit; rows of no batch keep what a batch before has left there, and the list does not name them."""
    draw = random.Random(seed)
    count = draw.randint(1, 4)
    plan = make_plan(
        [
            TensorSpec("table", (ROWS, COLUMNS), "float32", 4, "features"),
            TensorSpec("dense", (3,), "float32", 4),
            TensorSpec("scalar", (), "float32", 4),
        ],
        [],
        [1, 16 * COLUMNS * 4],
        split_tables=True,
    )
    shares = [bucket for bucket in plan.buckets if bucket.rows is not None]
    lists = TouchedLists(SCHEMA, 1, 4)
    slots = [np.full(plan.nbytes + lists.nbytes, 0x7F, np.uint8) for _ in range(2)]
    with torch.device("meta"):
        model = Module()
    exchange = HostWorker(
        model, plan, halves=[np.zeros(plan.nbytes, np.uint8)] * 2, slots=slots, lists=lists, member_of=(0, 0, 0)
    )
    touched = [np.array(sorted(draw.sample(range(ROWS), draw.randint(0, 12))), np.uint16) for _ in range(count)]
    exchange.begin(1, [GroupBatch({"features": rows}) for rows in touched])
    everything = sorted(set(np.concatenate(touched).tolist()))
    table: Array | None = None
    dense: Array | None = None
    scalar = np.zeros((), np.float32)
    for rows in touched:
        exchange.begin_batch()
        new = numbers(draw)
        exchange.put(SCALAR, torch.from_numpy(new))
        scalar = scalar + new
        if draw.random() < 0.7:
            new = numbers(draw, len(rows), COLUMNS)
            place = exchange.rows(TABLE)
            place[torch.from_numpy(rows.astype(np.int64))] = torch.from_numpy(new)
            for bucket in shares:
                exchange.written(TABLE, bucket)
            whole = np.zeros((ROWS, COLUMNS), np.float32)
            whole[rows] = new
            table = whole if table is None else table + whole
        if draw.random() < 0.7:
            new = numbers(draw, 3)
            assert exchange.put(DENSE, torch.from_numpy(new))
            dense = new if dense is None else dense + new
    found = views(slots[1], plan.parameters)
    assert lists.read(slots[1][plan.nbytes :], 0, "features").tolist() == everything
    assert found[SCALAR].item() == scalar.item()
    if table is not None:
        assert np.array_equal(found[TABLE].numpy()[everything], table[everything])
    if dense is not None:
        assert np.array_equal(found[DENSE].numpy(), dense)


def test_each_member_has_the_rows_of_its_own_batches() -> None:
    rows = [np.array(each, np.uint16) for each in ((1, 5), (5, 9), (2,))]
    batches = [GroupBatch({"features": each}, out) for each, out in zip(rows, ((), (1,), (1, 2)), strict=True)]
    lists = TouchedLists(SCHEMA, 3, 3)
    memory = np.zeros(lists.nbytes, np.uint8)
    lists.write(memory, Group(batches, (0, 1, 2)))
    assert [lists.read(memory, m, "features").tolist() for m in range(3)] == [[1, 2, 5, 9], [1, 5], [1, 5, 9]]


def test_a_batch_a_group_needs_no_lists() -> None:
    assert TouchedLists(SCHEMA, 3, 1).nbytes == 0


def test_batches_without_sparse_fields_are_added_up_too() -> None:
    plan = make_plan([TensorSpec("dense", (3,), "float64", 8)], [], [1])
    lists = TouchedLists(BatchSchema(8, (), (DenseField("x", "float32"),)), 1, 2)
    slot = np.zeros(plan.nbytes + lists.nbytes, np.uint8)
    with torch.device("meta"):
        model = torch.nn.ParameterDict({"dense": torch.empty(3, dtype=torch.float64)})
    halves = [np.zeros(plan.nbytes, np.uint8)] * 2
    exchange = HostWorker(model, plan, halves=halves, slots=[slot], lists=lists, member_of=(0,))
    exchange.begin(0, [GroupBatch({})] * 2)
    for _ in range(2):
        exchange.begin_batch()
        exchange.put(0, torch.ones(3, dtype=torch.float64))
    assert views(slot, plan.parameters)[0].tolist() == [2.0] * 3
