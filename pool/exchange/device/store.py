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
from pool.device.memory import memory_of_device, out_of_memory
from pool.errors import ResourceError

_MIB = 1 << 20


@dataclass(frozen=True)
class Queues:
    """The streams of coordinator and worker where both run in one process. Each waits for the other's stream on the
    device, in no thread."""

    stepping: torch.Stream  # the coordinator's, which adds up and steps
    writing: torch.Stream  # the worker's, which copies gradients to its slots


@dataclass(frozen=True)
class ExportedMemory:
    """The part of the coordinator's memory on a device that one worker uses, uint8."""

    weights: Tensor  # both versions of nbytes each, then their average if the run has one; the worker only reads them
    slots: Tensor  # [gradient slots x slot_nbytes]: the worker's own
    queues: Queues | None = None  # if the worker runs in the coordinator's process


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
        self._weights = self._allocated(2 + averages, nbytes, "versions of the weights")
        self._exported: dict[tuple[int, int], ExportedMemory] = {}  # by worker and incarnation
        self._inward = torch.Stream(device=device)  # copies here what is added up, from host and other devices
        self._lending = torch.Stream(device=device)  # copies gradients that are added up on another device
        self._outward = torch.Stream(device=device)  # copies what was stepped here to the host and to other devices
        self._arriving = torch.Stream(device=device)  # writes here what was stepped on another device
        self._queues = Queues(self.here, torch.Stream(device=device)) if in_one_process else None
        self._kept: list[object] = []
        self.is_idle = True

    @property
    def here(self) -> torch.Stream:
        """Returns the calling thread's current stream on the device."""
        return torch.accelerator.current_stream(self.device)

    @property
    def halves(self) -> list[Tensor]:
        """Returns the memory of the versions with even and with odd numbers, uint8 [nbytes] each."""
        return split_memory(self._weights, self._nbytes)[:2]

    @property
    def average(self) -> Tensor | None:
        """Returns the memory of the averaged weights, uint8 [nbytes], or None if the run has none."""
        return next(iter(split_memory(self._weights, self._nbytes)[2:]), None)

    def export_memory(self, worker: int, incarnation: int) -> ExportedMemory:
        """Returns the memory for one incarnation (life) of a worker, and allocates its gradient slots the first time.

        Raises ResourceError if the device has too little memory, or the error that the device has failed with.
        """
        key = worker, incarnation
        if key not in self._exported:
            slots = self._allocated(self._gradient_slots, self._slot_nbytes, f"the gradient slots of worker {worker}")
            self._exported[key] = ExportedMemory(self._weights, slots, self._queues)
            self.wait()  # until the slots are zeroed: from now on nobody else writes them
        return self._exported[key]

    def slot(self, worker: int, incarnation: int, number: int) -> Tensor:
        """Returns one gradient slot of a worker's incarnation, uint8 [slot_nbytes], for use on the current stream."""
        if self._queues is not None:
            self.here.wait_stream(self._queues.writing)
        return self._exported[worker, incarnation].slots[number * self._slot_nbytes :][: self._slot_nbytes]

    def upload(self, host: Tensor) -> Tensor:
        """Returns a copy of host memory on the device, for the current stream. `host` is contiguous, and must stay
        until `wait`."""
        with self._inward:
            there = torch.empty(host.shape, dtype=host.dtype, device=self.device)
            there.copy_(host, non_blocking=True)
        return self._brought(there, host)

    def fetch(self, gradient: Tensor, other: DeviceStore) -> Tensor:
        """Returns a copy, on this device, of a gradient in another store. Nothing that is queued may still write the
        gradient."""
        with other._lending, self._inward:
            there = torch.empty(gradient.shape, dtype=gradient.dtype, device=self.device)
            there.copy_(gradient.clone(), non_blocking=True)
        return self._brought(there, gradient)

    def _brought(self, there: Tensor, source: Tensor) -> Tensor:
        """Lets the current stream wait for a copy that was queued on the inward stream, and keeps its source until
        `wait`. Returns the copy."""
        here = self.here
        here.wait_stream(self._inward)
        there.record_stream(here)
        self.used(source)
        return there

    def download(self, host: Tensor, there: Tensor) -> None:
        """Queues a copy of what the current stream has computed to host memory. Both are contiguous, and must stay
        until `wait`."""
        self._outward.wait_stream(self.here)
        with self._outward:
            host.copy_(there, non_blocking=True)
        self.used(host, there)

    def send(self, made: Tensor, places: Sequence[tuple[DeviceStore, Tensor]], numbers: Tensor | None = None) -> None:
        """Queues copies of what the current stream has computed to places in other stores.

        `wait` waits for the copies here, and `received` on the other store. `numbers`: int64, computed by the current
        stream. With it, `made` has only these rows of the places, one after the other.
        """
        self._outward.wait_stream(self.here)
        with self._outward:
            rows = made.clone() if numbers is None else made  # memory of a store must be cloned before it is sent
        for other, place in places:
            other._arriving.wait_stream(other.here)  # the other device may still read or write the place
            with self._outward, other._arriving:
                arrived = rows.to(other.device, non_blocking=True)
                if numbers is None:
                    place.copy_(arrived)
                else:
                    place.index_copy_(0, numbers.to(other.device, non_blocking=True), arrived)
            other.used()
        self.used(made, numbers)

    def received(self) -> None:
        """Lets the current stream wait until what other stores have sent here has arrived."""
        self.here.wait_stream(self._arriving)

    def used(self, *tensors: object) -> None:
        """Notes that work was queued since the last `wait`, and keeps the tensors that the work uses until the next
        one."""
        self._kept.extend(tensors)
        self.is_idle = False

    def wait(self, others: Sequence[DeviceStore] = ()) -> None:
        """Blocks until all that was queued on this device, and on the devices of `others`, is done.

        In one process with the worker it blocks only until host memory has been read. Raises the error that a device
        has failed with.
        """
        if self._queues is not None:
            record_host_event(self._inward, spins=self._spins).synchronize()
            self._kept.clear()
            self.is_idle = True
            return
        stores, here = (self, *others), self.here
        for store in stores:
            for stream in (store.here, store._arriving, store._outward):
                here.wait_stream(stream)
        record_host_event(here, spins=self._spins).synchronize()
        for store in others:
            store.here.query()  # raises if the device has failed: the wait above may not notice that
        for store in stores:
            store._kept.clear()
            store.is_idle = True

    def _allocated(self, count: int, nbytes: int, what: str) -> Tensor:
        """Returns zeros for `count` parts of `nbytes` bytes. Raises ResourceError, naming `what` they are for, if
        memory is too little."""
        try:
            return self._allocate(self.device, count * nbytes).zero_()
        except RuntimeError as error:
            if not out_of_memory(error):
                raise
            raise ResourceError(
                f"the coordinator has no room on {self.device} for {what}, {count} x {-(-nbytes // _MIB):,} MiB"
                f"{memory_of_device()}; lower pool.gradient_slots or model sizes, or set pool.exchange to host"
            ) from None


def split_memory(memory: Tensor, nbytes: int) -> list[Tensor]:
    """Cuts memory into equal parts of `nbytes` bytes, in order."""
    return [memory[begin : begin + nbytes] for begin in range(0, len(memory), nbytes)]
