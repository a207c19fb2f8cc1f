"""Which device steps which piece of the weights."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from pool.exchange.device.homes import piece_nbytes, place_pieces
from pool.exchange.plan import TensorSpec, make_plan

MIB = 1 << 20
SPECS = [
    TensorSpec("table.weight", (22528, 1024), "float32", 4, "features"),
    TensorSpec("table.bias", (1024,), "float32", 4),
    TensorSpec("hidden.weight", (256, 1024), "float32", 4),
    TensorSpec("hidden.bias", (256,), "float32", 4),
]
PLAN = make_plan(SPECS, [], [MIB, 4 * MIB], split_tables=True)
LARGEST = max(piece_nbytes(PLAN, bucket, index) for bucket in PLAN.buckets for index in bucket.parameters)


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("devices", [1, 2, 3, 4, 8])
def test_every_piece_has_one_device_and_devices_have_about_as_many_bytes(devices: int, members: int) -> None:
    placed = place_pieces([PLAN] * members, devices)
    assert len(placed) == members
    loads: Counter[int] = Counter()
    for of_member in placed:
        assert set(of_member) == {(bucket, index) for bucket in PLAN.buckets for index in bucket.parameters}
        for (bucket, index), device in of_member.items():
            loads[device] += piece_nbytes(PLAN, bucket, index)
    assert set(loads) == set(range(devices))
    assert loads.total() == members * sum(tensor.nbytes for tensor in PLAN.parameters)
    assert max(loads.values()) - min(loads.values()) <= LARGEST
    assert placed == place_pieces([PLAN] * members, devices)


def test_neighbouring_rows_of_a_table_have_different_devices() -> None:
    (placed,) = place_pieces([PLAN], 4)
    devices = [placed[bucket, 0] for bucket in PLAN.buckets if bucket.rows is not None]
    assert len(devices) > 20
    assert all(one != other for one, other in pairwise(devices))
