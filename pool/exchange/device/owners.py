"""Holds the coordinator's memory on all devices, and assigns each shard of the weights to the device that owns it.

A shard is what one bucket holds of one parameter. Each device has both versions of all weights, gradient slots of the
workers on it, and the sums and optimizer state of the shards that it owns. The first device also has what is not
divided into shards: the model that a task may change, buffers, and the averaged weights.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from pool.exchange.device.store import DeviceStore, ExportedMemory
from pool.exchange.plan import Bucket, Plan


class ShardKey(NamedTuple):
    """The bucket and the parameter that a shard belongs to."""

    bucket: Bucket
    parameter: int  # index in the plan


class DeviceStores:
    """The memory of all devices that take part in an exchange, one store for each."""

    def __init__(self, stores: Sequence[DeviceStore], workers: Sequence[Collection[int]]) -> None:
        """Joins the stores. `workers`: for each store the indices of the workers on its device."""
        self.all = stores
        self.first = stores[0]
        self.of_worker: dict[int, DeviceStore] = {}
        for store, workers_on_device in zip(stores, workers, strict=True):
            self.of_worker |= dict.fromkeys(workers_on_device, store)

    def export_memory(self, worker: int, incarnation: int) -> ExportedMemory:
        """Returns the memory that one incarnation (one life) of a worker uses on its device. Raises as
        `DeviceStore.export_memory`."""
        return self.of_worker[worker].export_memory(worker, incarnation)

    def wait_until_complete(self) -> None:
        """Waits once for all that was queued on any of the devices since the last wait. Raises the error that a device
        has failed with."""
        busy = [store for store in self.all if not store.is_idle]
        if busy:
            busy[0].wait(busy[1:])


def assign_owners(plans: Sequence[Plan], num_devices: int) -> list[dict[ShardKey, int]]:
    """Assigns each shard to a device. Returns, for each member (network of an ensemble), the index of the owning device
    by shard.

    `plans`: those of the members. Devices get about as many bytes each: the largest remaining shard goes to the device
    with the fewest. So the shards of a table, which have one size, go to the devices in turn. Rows that are touched
    often may lie side by side, and in turn no device gets them all.
    """
    shards = [
        (member, ShardKey(bucket, index))
        for member, plan in enumerate(plans)
        for bucket in plan.buckets
        for index in bucket.parameters
    ]
    sizes = [shard_nbytes(plans[member], key) for member, key in shards]
    owners: list[dict[ShardKey, int]] = [{} for _ in plans]
    loads = [0] * num_devices
    for i in sorted(range(len(shards)), key=lambda i: -sizes[i]):
        member, key = shards[i]
        device = loads.index(min(loads))
        owners[member][key] = device
        loads[device] += sizes[i]
    return owners


def shard_nbytes(plan: Plan, key: ShardKey) -> int:
    """Returns the size of a shard in bytes."""
    parameter = plan.parameters[key.parameter]
    if key.bucket.rows is None:
        return parameter.nbytes
    first, last = key.bucket.rows
    return (last - first) * parameter.nbytes // parameter.shape[0]
