"""All the devices that the coordinator's memory lies on, one store each, and which of them each piece of the weights is
at home on.

A piece is what one bucket holds of one parameter. Each device has both versions of all weights, gradient slots of the
workers on it, and the sums and the optimizer's state of those pieces that are its own. On the first one lies, too, what
is not done piece by piece: the model that a task may change, buffers, the averaged weights.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pool.exchange.device.store import DeviceStore, LentMemory
from pool.exchange.plan import Bucket, Plan

Piece = tuple[Bucket, int]  # and the parameter, by index in the plan


class Homes:
    def __init__(self, stores: Sequence[DeviceStore], workers: Sequence[Collection[int]]) -> None:
        """`workers`: on the device of each store."""
        self.stores = stores
        self.first = stores[0]
        self.of_worker = {worker: store for store, own in zip(stores, workers, strict=True) for worker in own}

    def lend(self, worker: int, incarnation: int) -> LentMemory:
        """To one life of a worker on one of the devices. Raises as `DeviceStore.lend`."""
        return self.of_worker[worker].lend(worker, incarnation)

    def settle(self) -> None:
        """Waits once for all that was queued on any of them, if anything was since the last time. Raises what a device
        has failed with."""
        if unsettled := [store for store in self.stores if not store.is_settled]:
            unsettled[0].wait(unsettled[1:])


def place_pieces(plans: Sequence[Plan], devices: int) -> list[dict[Piece, int]]:
    """`plans`: of each member. Returns of each member the device of each piece, by index.

    Devices get about as many bytes each: the largest piece first, to the device that has least. So the parts of a
    table, which are of one size, go to the devices in turn. Which rows batches touch is not known here. Rows that are
    touched often may lie side by side; in turn, no device has them all.
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
    parameter = plan.parameters[index]
    if bucket.rows is None:
        return parameter.nbytes
    first, last = bucket.rows
    return (last - first) * parameter.nbytes // parameter.shape[0]
