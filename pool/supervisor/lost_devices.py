"""Decides which devices a run leaves out because they can't be used any more. Pure.

A device that fails ends processes. A worker uses one device, so the failed one is certain. A coordinator that uses
several may be ended by an error that any of them can have caused. Then all of these are suspected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pool.exchange.exchange_choice import Exchange, without_lost_devices

MAX_FAILURES = 2  # failures of a device in different lives of a process, after which the run goes on without the device


@dataclass(frozen=True)
class LossDecision:
    """Tells which device to leave out after a failed device has ended the coordinator, and which devices are
    suspected."""

    left_out: str | None  # device to leave out; None: all devices are tried once more
    suspects: Sequence[str] = ()  # devices of which any may be the failed one


@dataclass
class LostDevices:
    """Counts failures of devices, and keeps the devices that are left out. Devices have torch's names, such as
    `cuda:0`."""

    of_worker: Mapping[int, str]  # device of each worker, by index
    left_out: set[str] = field(default_factory=set)
    # number of each worker's lives that its device has ended
    _worker_failures: Counter[int] = field(default_factory=Counter)
    # number of the coordinator's lives in which a device was suspected, since it runs on its present devices
    _suspicions: Counter[str] = field(default_factory=Counter)

    def is_left_out(self, worker: int) -> bool:
        """Tells whether the device of a worker is left out. `worker`: its index."""
        return self.of_worker.get(worker) in self.left_out

    def remaining(self, excluded: str | None = None) -> Mapping[int, str]:
        """Returns the devices that are still in use, by index of their worker, without the device `excluded`."""
        unused = {*self.left_out, excluded}
        return {worker: device for worker, device in self.of_worker.items() if device not in unused}

    def workers_on(self, device: str) -> Sequence[int]:
        """Returns the indices of the workers that use a device."""
        return [worker for worker, worker_device in self.of_worker.items() if worker_device == device]

    def exchange_without_lost(self, exchange: Exchange) -> Exchange:
        """Returns an exchange (where sums and weights lie) that uses no left-out device. Returns the same object if
        none of its devices is left out."""
        lost = [device for device in exchange.devices if device in self.left_out]
        return without_lost_devices(exchange, lost, self.remaining()) if lost else exchange

    def count_worker_failure(self, worker: int) -> bool:
        """Counts a life of a worker that its device has ended. Returns whether the device is now to be left out."""
        self._worker_failures[worker] += 1
        return self._worker_failures[worker] >= MAX_FAILURES

    def count_coordinator_failure(self, suspects: Sequence[str]) -> LossDecision:
        """Counts a life of the coordinator that a device has ended. Returns which device is to be left out, if any.

        `suspects`: the devices that may have failed.
        """
        already_left_out = [device for device in suspects if device in self.left_out]
        if already_left_out:  # a worker's failure was seen earlier
            return LossDecision(already_left_out[0], already_left_out)
        failed_in_workers = {self.of_worker[worker] for worker in self._worker_failures}
        confirmed = [device for device in suspects if device in failed_in_workers]
        self._suspicions.update(confirmed or suspects)
        suspects = [device for device in confirmed or suspects if self._suspicions[device] >= MAX_FAILURES]
        if not suspects:
            return LossDecision(None)
        return LossDecision(suspects[0], suspects)

    def leave_out(self, device: str) -> None:
        """Leaves out a device, and forgets all suspicions, since the next coordinator runs on other devices."""
        self.left_out.add(device)
        self._suspicions.clear()
