"""The coordinator's end of an exchange on one device or several.

Each part of the weights has an owner, the device called its home. There its gradients are added up and it is stepped,
and from there its next version is copied to the other devices. A worker on one of the devices writes its gradient slots
there, and gradients of parts that another device owns are copied when they are added up. A worker on any other device
writes its slots in host memory, the touched rows of a table one after the other. For such workers a version of the
weights is copied to host memory before it is published.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from pool.crash_points import crash_point
from pool.exchange.device.homes import Homes, Piece
from pool.exchange.device.store import DeviceStore
from pool.exchange.groups import Contribution
from pool.exchange.host_memory import HostMemory
from pool.exchange.interface import TouchedRows
from pool.exchange.layout import Part
from pool.exchange.plan import Bucket
from pool.exchange.tensors import rows_of, views_of
from pool.kernels.fold import Addend, Fold, Touched, fold, union, within


class DeviceCoordinator:
    """Implements `CoordinatorExchange` in memory of devices, for one member (one network of an ensemble)."""

    def __init__(
        self,
        part: Part,
        homes: Homes,
        placed: Mapping[Piece, int],
        *,
        touched_rows: TouchedRows,
        publish: Callable[[int], None],
        remote: HostMemory | None = None,
    ) -> None:
        """Makes views of the memory of one member on all devices.

        `part`: the member's; `homes`: the memory of all devices; `placed`: index of the owning device, by part;
        `touched_rows`: returns the rows that a contribution touches; `publish`: announces a complete version to
        workers; `remote`: the member's page-locked memory for workers on other devices, None if there are none. In its
        slots the touched rows of a table lie one after the other.
        """
        self.plan = plan = part.plan
        self.part = part
        self.homes = homes
        self.touched_rows = touched_rows
        self.read_nbytes = 0
        self._placed = placed
        self._remote = remote
        slots = {} if remote is None else remote.slots
        self._remote_slots = {place: torch.from_numpy(slot) for place, slot in slots.items()}
        self._publish = publish
        self._halves = [[half[part.bytes] for half in store.halves] for store in homes.stores]
        self._weights = [[views_of(half, plan.parameters) for half in halves] for halves in self._halves]
        self._buffers = [views_of(half, plan.buffers) for half in self._halves[0]]
        self._averages = [store.average[part.bytes] for store in homes.stores if store.average is not None]
        tensors = (*plan.parameters, *plan.buffers)
        self._average = views_of(self._averages[0], tensors) if self._averages else []
        self.given_out: set[Piece] = set()  # parts of the version in progress that are sent to all devices
        self._numbers: dict[tuple[DeviceStore, str, tuple[int, ...]], Tensor] = {}  # touched rows, of this step

    def piece(self, bucket: Bucket, parameter: int) -> DevicePiece:
        home = self._placed[bucket, parameter]
        places = [[rows_of(of_version[parameter], bucket) for of_version in of_home] for of_home in self._weights]
        copies = [
            (store, place) for i, (store, place) in enumerate(zip(self.homes.stores, places, strict=True)) if i != home
        ]
        return DevicePiece(self, bucket, parameter, self.homes.stores[home], places[home], copies)

    def weights(self, version: int) -> Sequence[Tensor]:
        return self._weights[0][version % 2]

    def buffers(self, version: int) -> Sequence[Tensor]:
        return self._buffers[version % 2]

    def average(self) -> Sequence[Tensor]:
        return self._average

    def buffers_of(self, contribution: Contribution) -> Sequence[Tensor]:
        buffers = views_of(self.slot(contribution), self.part.slot_plan.buffers)
        self.homes.first.used()
        return [self.brought(tensor, contribution, self.homes.first) for tensor in buffers]

    def settle(self) -> None:
        self.homes.settle()

    def gather(self) -> None:
        self.homes.first.received()

    def give_out(self, version: int) -> None:
        self._numbers.clear()
        first, half = self.homes.first, version % 2
        first.used()
        if len(self.homes.stores) > 1:
            self._give_out_rest(half)
        if self._remote is not None:
            first.download(torch.from_numpy(self._remote.halves[half]), self._halves[0][half])

    def give_out_average(self) -> None:
        first = self.homes.first
        first.used()
        if not self._averages:
            return
        self._to_others(self._averages)
        if self._remote is not None:
            assert self._remote.average is not None
            first.download(torch.from_numpy(self._remote.average), self._averages[0])

    def publish(self, version: int) -> None:
        crash_point("coordinator.version_queued")
        self.homes.settle()
        self._publish(version)

    def newest(self, version: int) -> bytes:
        return self._halves[0][version % 2].cpu().numpy().tobytes()

    def slot(self, contribution: Contribution) -> Tensor:
        """Returns the member's part of a contribution's slot, uint8, laid out by `Part.slot_plan`, on the worker's
        device or in host memory."""
        if (store := self.homes.of_worker.get(contribution.worker)) is not None:
            return store.slot(contribution.worker, contribution.incarnation, contribution.slot)[self.part.slot_bytes]
        return self._remote_slots[contribution.worker, contribution.slot]

    def brought(self, gradient: Tensor, contribution: Contribution, home: DeviceStore) -> Tensor:
        """Returns a part of a contribution's gradient slot in memory of the device `home`, for its current stream.

        The part is copied if it lies on another device or in host memory.
        """
        store = self.homes.of_worker.get(contribution.worker)
        if store is None:
            return home.upload(gradient)
        return gradient if store is home else home.fetch(gradient, store)

    def numbers(self, contribution: Contribution, field: str, home: DeviceStore) -> Tensor:
        """Returns the numbers of the table rows that a contribution touches, in memory of the device `home`."""
        key = home, field, contribution.batches
        if key not in self._numbers:
            self._numbers[key] = home.upload(torch.from_numpy(self.touched_rows(contribution, field)))
        return self._numbers[key]

    def _give_out_rest(self, half: int) -> None:
        """Sends what was not sent part by part from the first device to the others: buffers, and parts written through
        `weights`.

        `half`: version mod 2.
        """
        for bucket, parameter in (piece for piece in self._placed if piece not in self.given_out):
            self._to_others([rows_of(weights[half][parameter], bucket) for weights in self._weights])
        self.given_out.clear()
        if self.plan.buffers:
            begin = min(tensor.offset for tensor in self.plan.buffers)
            self._to_others([halves[half][begin:] for halves in self._halves])

    def _to_others(self, places: Sequence[Tensor]) -> None:
        """Copies from the first device to the same place on each of the other devices. `places`: one place for each
        device."""
        if others := list(zip(self.homes.stores[1:], places[1:], strict=True)):
            self.homes.first.send(places[0], others)


class DevicePiece:
    """Implements `PieceMemory` in memory of devices."""

    def __init__(
        self,
        exchange: DeviceCoordinator,
        bucket: Bucket,
        parameter: int,
        home: DeviceStore,
        weights: Sequence[Tensor],
        copies: Sequence[tuple[DeviceStore, Sequence[Tensor]]],
    ) -> None:
        """Describes the memory of one part. `home`: the store of the device that owns it; `weights`: both versions
        there; `copies`: both versions on each other device."""
        self._exchange = exchange
        self._store = home
        self._bucket = bucket
        self._parameter = parameter
        self._number = exchange.part.first_parameter + parameter
        self._field = exchange.plan.parameters[parameter].sparse_field
        self._weights = weights
        self._copies = copies
        self._sums: list[Tensor] = []
        self.first_row = 0 if bucket.rows is None else bucket.rows[0]

    @property
    def is_table(self) -> bool:
        return self._field is not None

    def weights(self, version: int) -> Tensor:
        return self._weights[version % 2]

    def take(self, contributions: Sequence[Contribution]) -> list[Addend]:
        taken = [self._addend(each) for each in contributions if self._number not in each.absent]
        self._exchange.read_nbytes += sum(addend.gradient.nbytes for addend in taken)
        self._store.used()
        return taken

    def sum(self, number: int) -> Tensor:
        while len(self._sums) <= number:
            self._sums.append(torch.zeros_like(self._weights[0]))
        return self._sums[number]

    def fold(self, out: Tensor, addends: Sequence[Addend], *, scale: float, touched_only: bool) -> None:
        fold(out, Fold(addends, scale, self.first_row, touched_only))

    def node(self, number: int, addends: Sequence[Addend]) -> Addend:
        out = self.sum(number)
        self.fold(out, addends, scale=1.0, touched_only=True)
        touched = union(addends, self.first_row, len(out)) if self.is_table else None
        if touched is not None and addends[0].touched is not None:
            touched = touched.astype(addends[0].touched.dtype)  # the type of all lists of the table
        return self.addend(addends[0].leaf, out, touched)

    def addend(self, place: int, total: Tensor, touched: Touched | None) -> Addend:
        if touched is None:
            return Addend(place, total, None)
        numbers = self._uploaded(touched, self._store)
        return Addend(place, total.index_select(0, numbers.to(torch.int64) - self.first_row), touched, numbers)

    def copy_over(
        self,
        version: int,
        rows: Touched | None = None,
        *,
        but_not: Touched | None = None,
        share: int = 1,  # noqa: ARG002
    ) -> None:
        wanted = None
        if rows is not None:
            wanted = np.zeros(len(self._weights[0]), bool)
            wanted[rows.astype(np.int64) - self.first_row] = True
            if but_not is not None:
                wanted[but_not.astype(np.int64) - self.first_row] = False
        for store, weights in ((self._store, self._weights), *self._copies):
            old, new = weights[version % 2], weights[(version + 1) % 2]
            if wanted is None:
                new.copy_(old)
            else:
                places = self._uploaded(np.flatnonzero(wanted), store)
                new.index_copy_(0, places, old.index_select(0, places))

    def give_out(self, version: int, rows: Touched | None) -> None:
        if not self._copies:
            return
        made, places = self.weights(version), [(store, weights[version % 2]) for store, weights in self._copies]
        if rows is None:
            self._store.send(made, places)
        elif len(rows) > 0:
            numbers = self._uploaded(rows.astype(np.int64) - self.first_row, self._store)
            self._store.send(made.index_select(0, numbers), places, numbers)
        self._exchange.given_out.add((self._bucket, self._parameter))
        crash_point("coordinator.piece_given_out")

    def overwritten(self) -> None:
        self._exchange.given_out.discard((self._bucket, self._parameter))

    def _addend(self, contribution: Contribution) -> Addend:
        """Returns the part's gradient in a contribution's slot as an addend on the owning device, copied there if need
        be."""
        exchange, planned = self._exchange, self._exchange.part.slot_plan.parameters[self._parameter]
        (gradient,) = views_of(exchange.slot(contribution), [planned])
        touched, numbers = None, None
        if self._field is None:
            gradient = rows_of(gradient, self._bucket)
        else:
            listed = exchange.touched_rows(contribution, self._field)
            begin, end = within(listed, *(self._bucket.rows or (0, planned.shape[0])))
            touched, gradient = listed[begin:end], gradient[begin:end]
            numbers = exchange.numbers(contribution, self._field, self._store)[begin:end]
        gradient = exchange.brought(gradient, contribution, self._store)
        return Addend(contribution.group_index, gradient, touched, numbers)

    def _uploaded(self, numbers: np.ndarray, store: DeviceStore) -> Tensor:
        return store.upload(torch.from_numpy(numbers).pin_memory())
