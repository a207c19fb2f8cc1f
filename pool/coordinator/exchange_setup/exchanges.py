"""The coordinator's ends of the run's exchange, one for each member."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import torch

from loader.stream.schema import SparseBatch
from pool.coordinator.exchange_setup.copies import Copies, FromDevices, InHostMemory
from pool.device.names import parse_device
from pool.device.opening import naming_lost_devices, open_device, own_devices
from pool.device.page_lock import page_lock
from pool.device.precision import choose_computing
from pool.device.sharing import sharing
from pool.exchange.contribution import Contribution
from pool.exchange.device.coordinator import DeviceCoordinator, Remote
from pool.exchange.device.homes import Homes
from pool.exchange.device.lending import Lender
from pool.exchange.device.placing import Piece, place_pieces
from pool.exchange.device.store import DeviceStore
from pool.exchange.host.coordinator import HostCoordinator
from pool.exchange.interface import CoordinatorExchange
from pool.exchange.member_layout import Part, parts
from pool.kernels.fold import Touched
from pool.process.start import CoordinatorStart
from pool.shm.memory import Memory
from pool.shm.signals import CoordinatorEnd


def devices_of(start: CoordinatorStart) -> Sequence[torch.device]:
    """Returns the devices of the exchange, as this process has them: it sees them alone, by the cards' own names. When
    a card is lost the others may get other numbers."""
    own = own_devices([parse_device(name) for name in start.exchange.devices], start.exchange_cards)
    return [torch.device(device.torch_name) for device in own]


class Exchanges:
    """Raises OSError, ResourceError if a device has too little memory, LostDeviceError if one can't be opened."""

    def __init__(
        self, start: CoordinatorStart, memory: Memory, shortcut: CoordinatorEnd, devices: Sequence[torch.device]
    ) -> None:
        """`devices`: by `devices_of`."""
        self._own = start
        self._devices = devices
        self._memory = memory
        self._shortcut = shortcut
        self._lists = start.layout.touched_lists
        self._slot_parts = parts(start.layout.slot_plans)  # of each member, in gradient slots
        self._gradient_slots = {
            (worker, slot): place
            for worker in range(len(start.devices))
            if worker not in start.exchange.without_room
            for slot, place in enumerate(memory.gradient_slots(worker))
        }
        self.lender: Lender | None = None  # of memory of devices, if that has been chosen
        self.copies: Copies = InHostMemory()  # of the state
        make = self._on_device() if start.exchange.on_device else self._on_host
        own = enumerate(parts(start.layout.plans))
        self.members: Sequence[CoordinatorExchange] = [make(member, part) for member, part in own]

    def _on_host(self, member: int, part: Part) -> CoordinatorExchange:
        start, average = self._own, self._memory.average()
        own, slot_part = _bytes_of(part), self._slot_parts[member]
        devices, rounds = enumerate(start.devices), slot_part.plan != part.plan
        return HostCoordinator(
            part.plan,
            halves=[half[own] for half in self._memory.weight_halves()],
            gradient_slots={place: slot[_bytes_of(slot_part)] for place, slot in self._gradient_slots.items()},
            slot_plan=slot_part.plan,
            compact=[worker for worker, spec in devices if rounds or parse_device(spec).is_accelerator],
            touched_rows=partial(self._touched_rows, member),
            publish=self._shortcut.publish,
            first_parameter=part.first_parameter,
            average=None if average is None else average[own],
        )

    def _on_device(self) -> partial[CoordinatorExchange]:
        layout, exchange, config = self._own.layout, self._own.exchange, self._own.config
        choose_computing(own_kernels=config.pool.own_kernels, dense_products=config.pool.dense_products)
        devices = self._devices
        for name, device in zip(exchange.devices, devices, strict=True):
            _open(name, device)
        torch.accelerator.set_device_index(devices[0].index)  # of what is said of no device
        self._memory.register(page_lock)
        shared = sharing(devices[0].type)
        assert shared is not None, f"memory of {devices[0]} can't be shared"
        averages = config.train.average.kind is not None
        nbytes, slot_nbytes = layout.plan.nbytes, layout.slot_plan.nbytes
        stores = [
            DeviceStore(device, shared, nbytes, config.pool.gradient_slots, slot_nbytes, averages=averages)
            for device in devices
        ]
        homes = Homes(stores, exchange.workers)
        self.copies = FromDevices(devices)
        if exchange.local:
            self.lender = Lender(self._own.address_key, self._own.peer, homes, shared)
        return partial(self._of_devices, homes, place_pieces(layout.plans, len(devices)))

    def _of_devices(
        self, homes: Homes, placed: Sequence[Mapping[Piece, int]], member: int, part: Part
    ) -> CoordinatorExchange:
        return DeviceCoordinator(
            part.plan,
            homes,
            placed[member],
            touched_rows=partial(self._touched_rows, member),
            publish=self._shortcut.publish,
            offset=part.offset,
            slot_part=self._slot_parts[member],
            first_parameter=part.first_parameter,
            remote=self._remote(_bytes_of(part), _bytes_of(self._slot_parts[member])),
        )

    def _remote(self, own: slice, own_slot: slice) -> Remote | None:
        """A member's part of what workers on other devices use; None if there are none."""
        halves, average = self._memory.weight_halves(), self._memory.average()
        if not halves:
            return None
        local = self._own.exchange.local
        return Remote(
            [torch.from_numpy(half[own]) for half in halves],
            None if average is None else torch.from_numpy(average[own]),
            {
                key: torch.from_numpy(slot[own_slot])
                for key, slot in self._gradient_slots.items()
                if key[0] not in local
            },
        )

    def _touched_rows(self, member: int, contribution: Contribution, field: str) -> Touched:
        """A group of one batch touches the rows that the batch lists, in its ring slot."""
        if self._lists.nbytes:
            lists = self._memory.touched_lists(contribution.worker)[contribution.slot]
            return self._lists.read(lists, member, field)
        (batch,) = contribution.batches
        slot = self._memory.batch_slot("train", batch)
        return SparseBatch.view(self._own.layout.schema, slot).sparse[field].touched


def _bytes_of(part: Part) -> slice:
    return slice(part.offset, part.offset + part.plan.nbytes)


def _open(name: str, device: torch.device) -> None:
    """Begins to use it, on a stream of its own. Raises ResourceError, LostDeviceError."""
    with naming_lost_devices(name):  # a card that is gone hides those behind it: the first that fails is the lost one
        open_device(device, "coordinator", name, "set pool.exchange to host")
        torch.accelerator.set_stream(torch.Stream(device=device))
