"""Makes the coordinator's ends of the exchange of gradients and weights, one for each member (network of an
ensemble)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import partial

import torch

from loader.stream.schema import SparseBatch
from pool.coordinator.exchange_setup.copies import DeviceCopies, HostCopies, StateCopies
from pool.crash_points import crash_point
from pool.device.names import parse_device
from pool.device.page_lock import page_lock
from pool.device.precision import choose_computing
from pool.device.shared_memory import shared_memory_of
from pool.device.startup import naming_lost_devices, open_device, own_devices
from pool.exchange.device.coordinator import DeviceCoordinator
from pool.exchange.device.memory_exporter import MemoryExporter
from pool.exchange.device.owners import DeviceStores, ShardKey, assign_owners
from pool.exchange.device.store import DeviceStore, ExportedMemory
from pool.exchange.groups import Contribution, Groups
from pool.exchange.host.coordinator import HostCoordinator
from pool.exchange.host.other_sums import OtherSums
from pool.exchange.host_memory import HostMemory
from pool.exchange.interface import CoordinatorExchange
from pool.exchange.layout import MemberLayout
from pool.kernels.reduction import Touched
from pool.process.start import CoordinatorStart
from pool.shm.memory import Memory
from pool.shm.signals import CoordinatorSignals


def exchange_devices(start: CoordinatorStart) -> Sequence[torch.device]:
    """Returns the devices of the exchange as torch names them in this process. It sees these devices alone, chosen by
    the identifiers of the cards, because the numbers of cards may change when one is lost."""
    own = own_devices([parse_device(name) for name in start.exchange.devices], start.exchange_cards)
    return [torch.device(device.torch_name) for device in own]


class Exchanges:
    """Holds the coordinator's end of the exchange for each member, in host memory or on GPUs. Making it raises OSError,
    ResourceError if a device has too little memory, and LostDeviceError if one can't be opened."""

    def __init__(
        self,
        start: CoordinatorStart,
        memory: Memory,
        shortcut: CoordinatorSignals,
        devices: Sequence[torch.device],
        exported: Future[ExportedMemory] | None = None,
    ) -> None:
        """Makes each member's end of the exchange. `devices`: as `exchange_devices` returns them. `exported`: if the
        only worker is a thread of this process, receives the device memory that it uses."""
        self._start = start
        self._exported = exported
        self._devices = devices
        self._memory = memory
        self._shortcut = shortcut
        self._lists = start.layout.touched_lists
        train = start.config.train
        groups = Groups(train.batches_per_step, train.batches_per_group)
        self.others = None if start.rank is None else OtherSums(start.layout, groups)  # sums of other machines
        gradient_slots = {
            (worker, slot): place
            for worker in range(len(start.devices))
            if worker not in start.exchange.workers_without_slots
            for slot, place in enumerate(memory.gradient_slots(worker))
        }
        self._host = HostMemory(memory.weight_halves(), gradient_slots, memory.average())
        self.memory_exporter: MemoryExporter | None = None  # exports device memory to workers in other processes
        self.copies: StateCopies = HostCopies()  # makes copies of the run's state for snapshots
        make = self._open_devices() if start.exchange.on_device else self._create_host_end
        layouts = enumerate(start.layout.member_layouts)
        self.members: Sequence[CoordinatorExchange] = [make(member, layout) for member, layout in layouts]

    def _create_host_end(self, member: int, layout: MemberLayout) -> CoordinatorExchange:
        """Makes the coordinator's end of an exchange in host memory, for one member."""
        devices, rounds = enumerate(self._start.devices), layout.slot_plan != layout.plan
        return HostCoordinator(
            layout,
            self._host.of_member(layout),
            compact=[worker for worker, spec in devices if rounds or parse_device(spec).is_accelerator],
            touched_rows=partial(self._touched_rows, member),
            publish=self._shortcut.publish,
            member=member,
            other_sums=self.others,
        )

    def _open_devices(self) -> partial[CoordinatorExchange]:
        """Opens the devices and allocates memory on them for gradients and weights. Returns the function that makes the
        coordinator's end of the exchange for a member."""
        layout, exchange, config = self._start.layout, self._start.exchange, self._start.config
        choose_computing(own_kernels=config.pool.own_kernels, dense_products=config.pool.dense_products)
        devices = self._devices
        for name, device in zip(exchange.devices, devices, strict=True):
            _open_device(name, device)
        torch.accelerator.set_device_index(devices[0].index)  # for calls of torch that name no device
        self._memory.register(page_lock)
        shared = None if exchange.one_process else shared_memory_of(devices[0].type)
        assert shared is not None or exchange.one_process, f"memory of {devices[0]} can't be shared"
        averages = config.train.average.kind is not None
        nbytes, slot_nbytes = layout.plan.nbytes, layout.slot_plan.nbytes
        stores = [
            DeviceStore(
                device,
                _allocate if shared is None else shared.allocate,
                nbytes,
                config.pool.gradient_slots,
                slot_nbytes,
                averages=averages,
                spins=self._start.spins,
                in_one_process=exchange.one_process,
            )
            for device in devices
        ]
        device_stores = DeviceStores(stores, exchange.workers)
        self.copies = DeviceCopies(devices)
        if self._exported is not None:
            (worker,) = exchange.workers_on_devices
            self._exported.set_result(device_stores.export_memory(worker, self._start.peer.incarnation))
            crash_point("coordinator.memory_lent")
        elif shared is not None and exchange.workers_on_devices:
            self.memory_exporter = MemoryExporter(self._start.address_key, self._start.peer, device_stores, shared)
        return partial(self._create_device_end, device_stores, assign_owners(layout.plans, len(devices)))

    def _create_device_end(
        self, device_stores: DeviceStores, owners: Sequence[Mapping[ShardKey, int]], member: int, layout: MemberLayout
    ) -> CoordinatorExchange:
        """Makes the coordinator's end of an exchange on devices, for one member. `owners`: by member, the device of
        each shard of its parameters."""
        return DeviceCoordinator(
            layout,
            device_stores,
            owners[member],
            touched_rows=partial(self._touched_rows, member),
            publish=self._shortcut.publish,
            remote=self._host.of_member(layout) if self._host.halves else None,
        )

    def _touched_rows(self, member: int, contribution: Contribution, field: str) -> Touched:
        """Returns the table rows that a contribution (the gradients of one group of batches) has touched, for a sparse
        field. They are read from the worker's lists in shared memory; or, in groups of one batch, from the batch in its
        ring slot."""
        if self._lists.nbytes:
            lists = self._memory.touched_lists(contribution.worker)[contribution.slot]
            return self._lists.read(lists, member, field)
        (batch,) = contribution.batches
        slot = self._memory.batch_slot("train", batch)
        return SparseBatch.view(self._start.layout.schema, slot).sparse[field].touched


def _allocate(device: torch.device, nbytes: int) -> torch.Tensor:
    """Allocates device memory that no other process uses, as bytes."""
    return torch.empty(nbytes, dtype=torch.uint8, device=device)


def _open_device(name: str, device: torch.device) -> None:
    """Opens a device, and uses a stream of its own on it from now on. Raises ResourceError, LostDeviceError."""
    with naming_lost_devices(name):  # a lost card hides those numbered after it, so the first that fails is lost
        open_device(device, "coordinator", name, "set pool.exchange to host")
        torch.accelerator.set_stream(torch.Stream(device=device))
