"""The coordinator's end of an exchange on one device or several.

Each shard of the weights has an owner, one of the devices. There its gradients are added up and it is stepped, and from
there its next version is copied to the other devices. A worker on one of the devices writes its gradient slots there,
and gradients of shards that another device owns are copied when they are added up. A worker on any other device writes
its slots in host memory, the touched rows of a table one after the other. For such workers a version of the weights is
copied to host memory before it is published.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from pool.crash_points import crash_point
from pool.exchange.device.owners import DeviceStores, ShardKey
from pool.exchange.device.store import DeviceStore
from pool.exchange.groups import Contribution
from pool.exchange.host_memory import HostMemory
from pool.exchange.interface import TouchedRows
from pool.exchange.layout import MemberLayout
from pool.exchange.plan import Bucket
from pool.exchange.tensors import bucket_rows, view_as_tensors
from pool.kernels.reduction import Addend, Reduction, Touched, find_rows, reduce, union_rows


class DeviceCoordinator:
    """Implements `CoordinatorExchange` in memory of devices, for one member (one network of an ensemble)."""

    def __init__(
        self,
        layout: MemberLayout,
        stores: DeviceStores,
        owners: Mapping[ShardKey, int],
        *,
        touched_rows: TouchedRows,
        publish: Callable[[int], None],
        remote: HostMemory | None = None,
    ) -> None:
        """Makes views of the memory of one member on all devices.

        `layout`: the member's; `stores`: the memory of all devices; `owners`: index of the owning device, by shard;
        `touched_rows`: returns the rows that a contribution touches; `publish`: announces a complete version to
        workers; `remote`: the member's page-locked memory for workers on other devices, None if there are none. In its
        slots the touched rows of a table lie one after the other.
        """
        self.plan = plan = layout.plan
        self.layout = layout
        self.stores = stores
        self.touched_rows = touched_rows
        self.read_nbytes = 0
        self._owners = owners
        self._remote = remote
        slots = {} if remote is None else remote.slots
        self._remote_slots = {key: torch.from_numpy(slot) for key, slot in slots.items()}
        self._publish = publish
        # on each device both versions, and views of their parameters
        self._halves = [[half[layout.bytes] for half in store.halves] for store in stores.all]
        self._weights = [[view_as_tensors(half, plan.parameters) for half in halves] for halves in self._halves]
        self._buffers = [view_as_tensors(half, plan.buffers) for half in self._halves[0]]
        self._averages = [store.average[layout.bytes] for store in stores.all if store.average is not None]
        tensors = (*plan.parameters, *plan.buffers)
        self._average = view_as_tensors(self._averages[0], tensors) if self._averages else []
        self.sent_shards: set[ShardKey] = set()  # of the version in progress, those that are sent to all devices
        self._row_numbers: dict[tuple[DeviceStore, str, tuple[int, ...]], Tensor] = {}  # touched rows, of this step

    def shard(self, bucket: Bucket, parameter: int) -> DeviceShard:
        owner = self._owners[ShardKey(bucket, parameter)]
        versions = [[bucket_rows(half[parameter], bucket) for half in halves] for halves in self._weights]
        on_devices = zip(self.stores.all, versions, strict=True)
        copies = [copy for index, copy in enumerate(on_devices) if index != owner]
        return DeviceShard(self, bucket, parameter, self.stores.all[owner], versions[owner], copies)

    def weights(self, version: int) -> Sequence[Tensor]:
        return self._weights[0][version % 2]

    def buffers(self, version: int) -> Sequence[Tensor]:
        return self._buffers[version % 2]

    def average(self) -> Sequence[Tensor]:
        return self._average

    def contribution_buffers(self, contribution: Contribution) -> Sequence[Tensor]:
        buffers = view_as_tensors(self.slot(contribution), self.layout.slot_plan.buffers)
        self.stores.first.retain()
        return [self.bring_gradient(tensor, contribution, self.stores.first) for tensor in buffers]

    def wait_until_read(self) -> None:
        self.stores.wait_until_complete()

    def gather_version(self) -> None:
        self.stores.first.wait_for_received()

    def send_version(self, version: int) -> None:
        self._row_numbers.clear()
        first, half = self.stores.first, version % 2
        first.retain()
        if len(self.stores.all) > 1:
            self._send_unsent(half)
        if self._remote is not None:
            first.download(torch.from_numpy(self._remote.halves[half]), self._halves[0][half])

    def send_average(self) -> None:
        first = self.stores.first
        first.retain()
        if not self._averages:
            return
        self._send_from_first(self._averages)
        if self._remote is not None:
            assert self._remote.average is not None
            first.download(torch.from_numpy(self._remote.average), self._averages[0])

    def publish(self, version: int) -> None:
        crash_point("coordinator.version_queued")
        self.stores.wait_until_complete()
        self._publish(version)

    def version_bytes(self, version: int) -> bytes:
        return self._halves[0][version % 2].cpu().numpy().tobytes()

    def slot(self, contribution: Contribution) -> Tensor:
        """Returns the member's part of a contribution's slot, uint8, laid out by `MemberLayout.slot_plan`, on the
        worker's device or in host memory."""
        store = self.stores.of_worker.get(contribution.worker)
        if store is None:
            return self._remote_slots[contribution.worker, contribution.slot]
        slot = store.slot(contribution.worker, contribution.incarnation, contribution.slot)
        return slot[self.layout.slot_bytes]

    def bring_gradient(self, gradient: Tensor, contribution: Contribution, owner: DeviceStore) -> Tensor:
        """Returns a part of a contribution's gradient slot in memory of the device `owner`, for its current stream.

        The part is copied if it lies on another device or in host memory.
        """
        store = self.stores.of_worker.get(contribution.worker)
        if store is None:
            return owner.upload(gradient)
        return gradient if store is owner else owner.fetch(gradient, store)

    def upload_row_numbers(self, contribution: Contribution, field: str, owner: DeviceStore) -> Tensor:
        """Returns the numbers of the table rows that a contribution touches, in memory of the device `owner`."""
        key = owner, field, contribution.batches
        if key not in self._row_numbers:
            self._row_numbers[key] = owner.upload(torch.from_numpy(self.touched_rows(contribution, field)))
        return self._row_numbers[key]

    def _send_unsent(self, half: int) -> None:
        """Sends what was not sent shard by shard from the first device to the others: buffers, and shards that were
        written through `weights`.

        `half`: version mod 2.
        """
        for bucket, parameter in self._owners:
            if ShardKey(bucket, parameter) not in self.sent_shards:
                self._send_from_first([bucket_rows(weights[half][parameter], bucket) for weights in self._weights])
        self.sent_shards.clear()
        if self.plan.buffers:
            begin = min(tensor.offset for tensor in self.plan.buffers)
            self._send_from_first([halves[half][begin:] for halves in self._halves])

    def _send_from_first(self, tensors: Sequence[Tensor]) -> None:
        """Copies a tensor of the first device to the same tensor of each other device. `tensors`: one for each
        device."""
        targets = list(zip(self.stores.all[1:], tensors[1:], strict=True))
        if targets:
            self.stores.first.send(tensors[0], targets)


class DeviceShard:
    """Implements `ShardMemory` in memory of devices."""

    def __init__(
        self,
        exchange: DeviceCoordinator,
        bucket: Bucket,
        parameter: int,
        owner: DeviceStore,
        weights: Sequence[Tensor],
        copies: Sequence[tuple[DeviceStore, Sequence[Tensor]]],
    ) -> None:
        """Describes the memory of one shard. `owner`: the store of the device that owns it; `weights`: both versions
        there; `copies`: both versions on each other device."""
        self._exchange = exchange
        self._owner = owner
        self._bucket = bucket
        self._parameter = parameter
        self._number = exchange.layout.first_parameter + parameter  # through all members
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

    def read_gradients(self, contributions: Sequence[Contribution]) -> list[Addend]:
        present = [contribution for contribution in contributions if self._number not in contribution.absent]
        addends = [self._read_gradient(contribution) for contribution in present]
        self._exchange.read_nbytes += sum(addend.gradient.nbytes for addend in addends)
        self._owner.retain()
        return addends

    def sum_memory(self, number: int) -> Tensor:
        while len(self._sums) <= number:
            self._sums.append(torch.zeros_like(self._weights[0]))
        return self._sums[number]

    def reduce(self, out: Tensor, addends: Sequence[Addend], *, scale: float, touched_only: bool) -> None:
        reduce(out, Reduction(addends, scale, self.first_row, touched_only))

    def reduce_node(self, number: int, addends: Sequence[Addend]) -> Addend:
        out = self.sum_memory(number)
        self.reduce(out, addends, scale=1.0, touched_only=True)
        touched = union_rows(addends, self.first_row, len(out)) if self.is_table else None
        if touched is not None and addends[0].touched is not None:
            touched = touched.astype(addends[0].touched.dtype)  # the type of all lists of the table
        return self.make_addend(addends[0].leaf, out, touched)

    def make_addend(self, leaf: int, total: Tensor, touched: Touched | None) -> Addend:
        if touched is None:
            return Addend(leaf, total, None)
        row_numbers = self._upload(touched, self._owner)
        rows = total.index_select(0, row_numbers.to(torch.int64) - self.first_row)
        return Addend(leaf, rows, touched, row_numbers)

    def copy_unchanged(
        self,
        version: int,
        rows: Touched | None = None,
        *,
        but_not: Touched | None = None,
        share: int = 1,  # noqa: ARG002
    ) -> None:
        unchanged: np.ndarray | None = None
        if rows is not None:
            is_unchanged = np.zeros(len(self._weights[0]), bool)
            is_unchanged[self._row_indices(rows)] = True
            if but_not is not None:
                is_unchanged[self._row_indices(but_not)] = False
            unchanged = np.flatnonzero(is_unchanged)
        for store, weights in ((self._owner, self._weights), *self._copies):
            old, new = weights[version % 2], weights[(version + 1) % 2]
            if unchanged is None:
                new.copy_(old)
            else:
                indices = self._upload(unchanged, store)
                new.index_copy_(0, indices, old.index_select(0, indices))

    def send(self, version: int, rows: Touched | None) -> None:
        if not self._copies:
            return
        weights = self.weights(version)
        targets = [(store, versions[version % 2]) for store, versions in self._copies]
        if rows is None:
            self._owner.send(weights, targets)
        elif len(rows) > 0:
            indices = self._upload(self._row_indices(rows), self._owner)
            self._owner.send(weights.index_select(0, indices), targets, indices)
        self._exchange.sent_shards.add(ShardKey(self._bucket, self._parameter))
        crash_point("coordinator.piece_given_out")

    def mark_overwritten(self) -> None:
        self._exchange.sent_shards.discard(ShardKey(self._bucket, self._parameter))

    def _read_gradient(self, contribution: Contribution) -> Addend:
        """Returns the shard's gradient in a contribution's slot as an addend on the owning device, copied there if need
        be."""
        exchange = self._exchange
        planned = exchange.layout.slot_plan.parameters[self._parameter]
        (gradient,) = view_as_tensors(exchange.slot(contribution), [planned])
        touched, row_numbers = None, None
        if self._field is None:
            gradient = bucket_rows(gradient, self._bucket)
        else:
            all_touched = exchange.touched_rows(contribution, self._field)
            begin, end = find_rows(all_touched, *(self._bucket.rows or (0, planned.shape[0])))
            touched, gradient = all_touched[begin:end], gradient[begin:end]
            row_numbers = exchange.upload_row_numbers(contribution, self._field, self._owner)[begin:end]
        gradient = exchange.bring_gradient(gradient, contribution, self._owner)
        return Addend(contribution.group_index, gradient, touched, row_numbers)

    def _row_indices(self, rows: Touched) -> np.ndarray:
        """Returns, for feature numbers, the indices of their rows in the shard, int64."""
        return rows.astype(np.int64) - self.first_row

    def _upload(self, numbers: np.ndarray, store: DeviceStore) -> Tensor:
        return store.upload(torch.from_numpy(numbers).pin_memory())
