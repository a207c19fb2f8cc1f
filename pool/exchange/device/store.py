"""Holds the coordinator's memory on one device: both versions of the weights, and gradient slots of the workers there.

All work is queued on streams. The host waits in `wait` alone, once a step. The calling thread has a current stream on
each device, on which gradients are added up and weights are stepped. Copies have streams beside it, so that no copy
stands in a queue behind work that it need not wait for. It is not proved that a device has stopped what a dead process
had begun there, so memory that a dead worker could write is never used again.

The memory of a store can be used by its own device alone, whether devices are peers or not. So whatever goes from one
device to another is copied within the first device, then between memory of torch's allocator, then within the second.
That memory is freed in the order of the streams that copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pool.device.event_waiter import record_host_event
from pool.device.memory import describe_free_memory, is_out_of_memory
from pool.errors import ResourceError

_MIB = 1 << 20


@dataclass(frozen=True)
class SharedStreams:
    """The streams of coordinator and worker where both run in one process. Each lets its own stream wait for the
    other's on the device, so no thread waits."""

    stepping: torch.Stream  # the coordinator's, which adds up and steps
    writing: torch.Stream  # the worker's, which copies gradients to its slots


@dataclass(frozen=True)
class ExportedMemory:
    """The part of the coordinator's memory on a device that one worker uses, uint8."""

    weights: Tensor  # both versions of nbytes each, then their average if the run has one; the worker only reads them
    slots: Tensor  # [gradient slots x slot_nbytes]: the worker's own
    shared_streams: SharedStreams | None = None  # if the worker runs in the coordinator's process


class DeviceStore:
    """The coordinator's memory on one device, and the streams that copy to and from it."""

    def __init__(
        self,
        device: torch.device,
        allocate: Callable[[torch.device, int], Tensor],
        nbytes: int,
        gradient_slots: int,
        slot_nbytes: int | None = None,
        *,
        averages: bool = False,
        spins: bool = False,
        in_one_process: bool = False,
    ) -> None:
        """Allocates the weights. Raises ResourceError if the device has too little memory.

        `allocate`: returns new memory of the device, uint8, of so many bytes; `nbytes`: size of a version of the
        weights of all members; `gradient_slots`: number of slots of each worker, of `slot_nbytes` each (None:
        `nbytes`); `averages`: makes room for averaged weights; `spins`: whoever waits keeps a core busy;
        `in_one_process`: the only worker runs in this process.
        """
        self.device = device
        self._allocate = allocate
        self._spins = spins
        self._nbytes = nbytes
        self._gradient_slots = gradient_slots
        self._slot_nbytes = nbytes if slot_nbytes is None else slot_nbytes
        self._weights = self._allocate_zeros(2 + averages, nbytes, "versions of the weights")
        self._exported: dict[tuple[int, int], ExportedMemory] = {}  # by worker and incarnation
        self._inward = torch.Stream(device=device)  # copies here what is added up, from host and other devices
        self._exporting = torch.Stream(device=device)  # copies gradients that are added up on another device
        self._outward = torch.Stream(device=device)  # copies what was stepped here to the host and to other devices
        self._receiving = torch.Stream(device=device)  # writes here what was stepped on another device
        self._shared_streams: SharedStreams | None = None
        if in_one_process:
            self._shared_streams = SharedStreams(self.current_stream, torch.Stream(device=device))
        self._retained: list[object] = []
        self.is_idle = True

    @property
    def current_stream(self) -> torch.Stream:
        """Returns the calling thread's current stream on the device."""
        return torch.accelerator.current_stream(self.device)

    @property
    def halves(self) -> list[Tensor]:
        """Returns the memory of the versions with even and with odd numbers, uint8 [nbytes] each."""
        return split_memory(self._weights, self._nbytes)[:2]

    @property
    def average(self) -> Tensor | None:
        """Returns the memory of the averaged weights, uint8 [nbytes], or None if the run has none."""
        memory = split_memory(self._weights, self._nbytes)
        return memory[2] if len(memory) > 2 else None

    def export_memory(self, worker: int, incarnation: int) -> ExportedMemory:
        """Returns the memory for one incarnation (life) of a worker, and allocates its gradient slots the first time.

        Raises ResourceError if the device has too little memory, or the error that the device has failed with.
        """
        key = worker, incarnation
        if key not in self._exported:
            purpose = f"the gradient slots of worker {worker}"
            slots = self._allocate_zeros(self._gradient_slots, self._slot_nbytes, purpose)
            self._exported[key] = ExportedMemory(self._weights, slots, self._shared_streams)
            self.wait()  # until the slots are zeroed: from now on nobody else writes them
        return self._exported[key]

    def slot(self, worker: int, incarnation: int, number: int) -> Tensor:
        """Returns one gradient slot of a worker's incarnation, uint8 [slot_nbytes], for use on the current stream."""
        if self._shared_streams is not None:
            self.current_stream.wait_stream(self._shared_streams.writing)
        slots = self._exported[worker, incarnation].slots
        return slots[number * self._slot_nbytes :][: self._slot_nbytes]

    def upload(self, host: Tensor) -> Tensor:
        """Returns a copy of host memory on the device, for the current stream. `host` is contiguous, and must stay
        until `wait`."""
        with self._inward:
            uploaded = torch.empty(host.shape, dtype=host.dtype, device=self.device)
            uploaded.copy_(host, non_blocking=True)
        return self._await_copy(uploaded, host)

    def fetch(self, gradient: Tensor, other: DeviceStore) -> Tensor:
        """Returns a copy, on this device, of a gradient in another store. Nothing that is queued may still write the
        gradient."""
        with other._exporting, self._inward:
            fetched = torch.empty(gradient.shape, dtype=gradient.dtype, device=self.device)
            fetched.copy_(gradient.clone(), non_blocking=True)
        return self._await_copy(fetched, gradient)

    def _await_copy(self, copy: Tensor, source: Tensor) -> Tensor:
        """Lets the current stream wait for a copy that was queued on the inward stream, and retains its source until
        `wait`. Returns the copy."""
        current = self.current_stream
        current.wait_stream(self._inward)
        copy.record_stream(current)
        self.retain(source)
        return copy

    def download(self, host: Tensor, tensor: Tensor) -> None:
        """Queues a copy to host memory of what the current stream has computed. Both are contiguous, and must stay
        until `wait`."""
        self._outward.wait_stream(self.current_stream)
        with self._outward:
            host.copy_(tensor, non_blocking=True)
        self.retain(host, tensor)

    def send(
        self, tensor: Tensor, targets: Sequence[tuple[DeviceStore, Tensor]], row_numbers: Tensor | None = None
    ) -> None:
        """Queues copies of what the current stream has computed to tensors in other stores.

        `wait` waits for the copies in this store, and `wait_for_received` in the other one. `row_numbers`: int64,
        computed by the current stream. With it, `tensor` has only these rows of the targets, one after the other.
        """
        self._outward.wait_stream(self.current_stream)
        with self._outward:
            rows = tensor.clone() if row_numbers is None else tensor  # memory of a store must be cloned before
        for other, target in targets:
            other._receiving.wait_stream(other.current_stream)  # the other device may still read or write the target
            with self._outward, other._receiving:
                arrived = rows.to(other.device, non_blocking=True)
                if row_numbers is None:
                    target.copy_(arrived)
                else:
                    target.index_copy_(0, row_numbers.to(other.device, non_blocking=True), arrived)
            other.retain()
        self.retain(tensor, row_numbers)

    def wait_for_received(self) -> None:
        """Lets the current stream wait until what other stores have sent here has arrived."""
        self.current_stream.wait_stream(self._receiving)

    def retain(self, *tensors: object) -> None:
        """Retains the tensors that queued work uses until the next `wait`. The store is not idle until then."""
        self._retained.extend(tensors)
        self.is_idle = False

    def wait(self, others: Sequence[DeviceStore] = ()) -> None:
        """Blocks until all that was queued on this device, and on the devices of `others`, is done.

        In one process with the worker it blocks only until host memory has been read. Raises the error that a device
        has failed with.
        """
        stores = (self, *others)
        if self._shared_streams is None:
            self._wait_for_streams(stores)
        else:
            record_host_event(self._inward, spins=self._spins).synchronize()
        for store in stores:
            store._retained.clear()
            store.is_idle = True

    def _wait_for_streams(self, stores: Sequence[DeviceStore]) -> None:
        """Blocks until all that was queued for these stores, the first of which is this one, is done."""
        current = self.current_stream
        for store in stores:
            for stream in (store.current_stream, store._receiving, store._outward):
                current.wait_stream(stream)
        record_host_event(current, spins=self._spins).synchronize()
        for store in stores[1:]:
            store.current_stream.query()  # raises if the device has failed: the wait above may not notice that

    def _allocate_zeros(self, count: int, nbytes: int, purpose: str) -> Tensor:
        """Allocates zeros for `count` parts of `nbytes` bytes. Raises ResourceError if there is too little memory.

        `purpose`: what they are for, for the message.
        """
        try:
            return self._allocate(self.device, count * nbytes).zero_()
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            raise ResourceError(
                f"the coordinator has no room on {self.device} for {purpose}, {count} x {-(-nbytes // _MIB):,} MiB"
                f"{describe_free_memory()}; lower pool.gradient_slots or model sizes, or set pool.exchange to host"
            ) from None


def split_memory(memory: Tensor, nbytes: int) -> list[Tensor]:
    """Cuts memory into equal parts of `nbytes` bytes, in order."""
    return [memory[begin : begin + nbytes] for begin in range(0, len(memory), nbytes)]
