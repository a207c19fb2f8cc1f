"""Which device steps which shard of the weights."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from pool.exchange.device.owners import ShardKey, assign_owners, shard_nbytes
from pool.exchange.plan import TensorSpec, build_plan

MIB = 1 << 20
SPECS = [
    TensorSpec("table.weight", (22528, 1024), "float32", 4, "features"),
    TensorSpec("table.bias", (1024,), "float32", 4),
    TensorSpec("hidden.weight", (256, 1024), "float32", 4),
    TensorSpec("hidden.bias", (256,), "float32", 4),
]
PLAN = build_plan(SPECS, [], [MIB, 4 * MIB], split_tables=True)
KEYS = {ShardKey(bucket, index) for bucket in PLAN.buckets for index in bucket.parameters}
LARGEST = max(shard_nbytes(PLAN, key) for key in KEYS)


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("devices", [1, 2, 3, 4, 8])
def test_every_shard_has_one_device_and_devices_have_about_as_many_bytes(devices: int, members: int) -> None:
    owners = assign_owners([PLAN] * members, devices)
    assert len(owners) == members
    loads: Counter[int] = Counter()
    for of_member in owners:
        assert set(of_member) == KEYS
        for key, device in of_member.items():
            loads[device] += shard_nbytes(PLAN, key)
    assert set(loads) == set(range(devices))
    assert loads.total() == members * sum(tensor.nbytes for tensor in PLAN.parameters)
    assert max(loads.values()) - min(loads.values()) <= LARGEST
    assert owners == assign_owners([PLAN] * members, devices)


def test_neighbouring_rows_of_a_table_have_different_devices() -> None:
    (owners,) = assign_owners([PLAN], 4)
    devices = [owners[ShardKey(bucket, 0)] for bucket in PLAN.buckets if bucket.rows is not None]
    assert len(devices) > 20
    assert all(one != other for one, other in pairwise(devices))
