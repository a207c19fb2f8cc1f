"""The lists of rows that a group touches, and groups whose batches have none. Their sums: `contract`."""

from __future__ import annotations

import numpy as np
import torch

from loader.stream.schema import BatchSchema, DenseField, SparseField
from pool.exchange.host.worker import HostWorker
from pool.exchange.interface import GroupBatch
from pool.exchange.layout import Layout
from pool.exchange.plan import TensorSpec, build_plan
from pool.exchange.tensors import view_array_as_tensors
from pool.exchange.touched_lists import TouchedLists
from pool.exchange.touched_rows import Group

SCHEMA = BatchSchema(8, (SparseField("features", 40, max_active=4),), ())


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
    plan = build_plan([TensorSpec("dense", (3,), "float64", 8)], [], [1])
    layout = Layout(BatchSchema(8, (), (DenseField("x", "float32"),)), (plan,), batches_per_group=2)
    slot = np.zeros(plan.nbytes + layout.touched_lists.nbytes, np.uint8)
    with torch.device("meta"):
        model = torch.nn.ParameterDict({"dense": torch.empty(3, dtype=torch.float64)})
    halves = [np.zeros(plan.nbytes, np.uint8)] * 2
    exchange = HostWorker(model, layout, halves=halves, slots=[slot])
    exchange.start_contribution(0, [GroupBatch({})] * 2)
    for _ in range(2):
        exchange.start_batch()
        exchange.put_gradient(0, torch.ones(3, dtype=torch.float64))
    assert view_array_as_tensors(slot, plan.parameters)[0].tolist() == [2.0] * 3
