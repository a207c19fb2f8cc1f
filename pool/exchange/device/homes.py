"""All the devices that the coordinator's memory lies on: one store each.

Each has both versions of all weights, gradient slots of the workers on it, and the sums and the optimizer's state of
those pieces that are its own (`placing`). On the first one lies, too, what is not done piece by piece: the model that a
task may change, buffers, the averaged weights.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pool.exchange.device.store import DeviceStore, Lent


class Homes:
    def __init__(self, stores: Sequence[DeviceStore], workers: Sequence[Collection[int]]) -> None:
        """`workers`: on the device of each store."""
        self.stores = stores
        self.first = stores[0]
        self.of_worker = {worker: store for store, own in zip(stores, workers, strict=True) for worker in own}

    def lend(self, worker: int, incarnation: int) -> Lent:
        """To one life of a worker on one of the devices. Raises as `DeviceStore.lend`."""
        return self.of_worker[worker].lend(worker, incarnation)

    def settle(self) -> None:
        """Waits once for all that was queued on any of them, if anything was since the last time. Raises what a device
        has failed with."""
        if unsettled := [store for store in self.stores if not store.is_settled]:
            unsettled[0].wait(unsettled[1:])
