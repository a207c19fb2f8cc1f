"""The exchanges of a worker on a device do what every exchange does: in host memory, and in memory of devices."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch

from pool.device.event_waiter import EventWaiter
from pool.exchange.device.coordinator import DeviceCoordinator
from pool.exchange.device.owners import DeviceStores, assign_owners
from pool.exchange.device.store import DeviceStore, split_memory
from pool.exchange.device.weights import CopiedWeights, DeviceWeights, MappedWeights, Streams
from pool.exchange.device.worker import DeviceWorker
from tests.gpu.fake import fakegpu
from tests.pool.exchange.contract import BEHAVIOURS, SLOTS, Ends

OWNERS = {  # by kind: the coordinator's devices
    "host": (),
    "local": ("fakegpu:0",),
    "remote": ("fakegpu:1",),
    "shared": ("fakegpu:1", "fakegpu:0"),
}


class DeviceEnds(Ends):
    """`host`: everything is exchanged in host memory; `local`: on the worker's device; `remote`: on another one;
    `shared`: shards are divided out over both."""

    device = "fakegpu:0"

    def __init__(self, kind: str, **settings: Any) -> None:
        self.kind = kind
        super().__init__(**settings)

    def open(self) -> None:
        torch.accelerator.set_device_index(0)
        is_lent = self.device in OWNERS[self.kind]
        on_host = not OWNERS[self.kind]
        self.coordinator = self.host_coordinator(compact=True) if on_host else self.device_coordinator(is_lent=is_lent)
        streams = Streams.create(torch.device(self.device))
        weights: DeviceWeights
        if is_lent:
            exported = self.stores.export_memory(0, 1)
            weights = MappedWeights(self.model, self.plan, streams, split_memory(exported.weights, self.plan.nbytes))
            slots = split_memory(exported.slots, self.slot_nbytes)
        else:
            weights = CopiedWeights(self.model, self.plan, streams, self.halves, self.average)
            slots = [torch.from_numpy(slot[: self.slot_nbytes]) for slot in self.slots]
        lists = [slot[self.slot_nbytes :] for slot in self.slots]
        self.worker = DeviceWorker(self.layout, weights, streams, EventWaiter(), slots=slots, list_memory=lists)

    def device_coordinator(self, *, is_lent: bool) -> DeviceCoordinator:
        stores = [
            DeviceStore(
                torch.device(owner),
                fakegpu.SharedMemory().allocate,
                self.plan.nbytes,
                SLOTS,
                self.slot_nbytes,
                averages=True,
            )
            for owner in OWNERS[self.kind]
        ]
        self.stores = DeviceStores(stores, [[0] if owner == self.device else [] for owner in OWNERS[self.kind]])
        return DeviceCoordinator(
            self.layout.member_layouts[0],
            self.stores,
            assign_owners([self.plan], len(stores))[0],
            touched_rows=self.touched_rows,
            publish=self.published.append,
            remote=None if is_lent else self.host_memory,
        )


@pytest.fixture(autouse=True)
def _sound() -> Iterator[None]:
    yield
    fakegpu.configure(lazy=0)
    fakegpu.mend()


@pytest.mark.parametrize("lazy", [0, 1], ids=["at once", "only what is waited for"])
@pytest.mark.parametrize("kind", OWNERS)
@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda behaviour: behaviour.__name__)
def test_it(behaviour: Any, kind: str, lazy: int) -> None:
    fakegpu.configure(lazy=lazy)
    behaviour(partial(DeviceEnds, kind))
