"""Manages the coordinator's memory on all devices, and assigns each part of the weights to the device that owns it.

A part ("piece") is what one bucket holds of one parameter. Each device has both versions of all weights, gradient slots
of the workers on it, and the sums and optimizer state of the parts that it owns. The first device also has what is not
done part by part: the model that a task may change, buffers, and the averaged weights.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pool.exchange.device.store import DeviceStore, LentMemory
from pool.exchange.plan import Bucket, Plan

Piece = tuple[Bucket, int]  # bucket, and index of the parameter in the plan


class Homes:
    """The memory of all devices that take part in an exchange, one store for each."""

    def __init__(self, stores: Sequence[DeviceStore], workers: Sequence[Collection[int]]) -> None:
        """Joins the stores. `workers`: for each store the indices of the workers on its device."""
        self.stores = stores
        self.first = stores[0]
        self.of_worker = {worker: store for store, own in zip(stores, workers, strict=True) for worker in own}

    def lend(self, worker: int, incarnation: int) -> LentMemory:
        """Returns the memory that one incarnation (one life) of a worker uses on its device. Raises as
        `DeviceStore.lend`."""
        return self.of_worker[worker].lend(worker, incarnation)

    def settle(self) -> None:
        """Waits once for all that was queued on any of the devices since the last wait. Raises the error that a device
        has failed with."""
        if unsettled := [store for store in self.stores if not store.is_settled]:
            unsettled[0].wait(unsettled[1:])


def place_pieces(plans: Sequence[Plan], devices: int) -> list[dict[Piece, int]]:
    """Assigns each part to a device. Returns for each member (network of an ensemble) the index of the owning device,
    by part.

    `plans`: those of the members. Devices get about as many bytes each, as the largest part that is left goes to the
    device with the fewest. So the parts of a table, which are of one size, go to the devices in turn. Which rows
    batches touch is not known here. Rows that are touched often may lie side by side, and in turn no device gets them
    all.
    """
    pieces = [
        (m, bucket, index) for m, plan in enumerate(plans) for bucket in plan.buckets for index in bucket.parameters
    ]
    sizes = [piece_nbytes(plans[m], bucket, index) for m, bucket, index in pieces]
    homes: list[dict[Piece, int]] = [{} for _ in plans]
    loads = [0] * devices
    for nbytes, (m, bucket, index) in sorted(zip(sizes, pieces, strict=True), key=lambda each: -each[0]):
        device = loads.index(min(loads))
        homes[m][bucket, index] = device
        loads[device] += nbytes
    return homes


def piece_nbytes(plan: Plan, bucket: Bucket, index: int) -> int:
    """Returns the bytes of the part of a parameter that lies in a bucket. `index`: the parameter's, in the plan."""
    parameter = plan.parameters[index]
    if bucket.rows is None:
        return parameter.nbytes
    first, last = bucket.rows
    return (last - first) * parameter.nbytes // parameter.shape[0]
