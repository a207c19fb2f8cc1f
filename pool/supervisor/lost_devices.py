"""Decides which devices a run leaves out because they can't be used any more. Pure.

A device that fails ends processes. A worker uses one device, so the failed one is known. A coordinator that uses
several may be ended by an error that any of them can have caused. Then all of these are suspected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pool.exchange.exchange_choice import Exchange, without_lost_devices

LIVES = 2  # failures of a device in two lives of a process, after which the run goes on without the device


@dataclass(frozen=True)
class Verdict:
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
    _lives: Counter[int] = field(default_factory=Counter)  # number of each worker's lives that its device has ended
    # number of the coordinator's lives in which a device was suspected, since it runs on its present devices
    _suspected: Counter[str] = field(default_factory=Counter)

    def is_left_out(self, worker: int) -> bool:
        """Tells whether the device of a worker is left out. `worker`: its index."""
        return self.of_worker.get(worker) in self.left_out

    def others(self, but: str | None = None) -> Mapping[int, str]:
        """Returns the devices that are still in use, by index of their worker, except the device `but`."""
        gone = {*self.left_out, but}
        return {worker: device for worker, device in self.of_worker.items() if device not in gone}

    def workers_on(self, device: str) -> Sequence[int]:
        """Returns the indices of the workers that use a device."""
        return [worker for worker, its in self.of_worker.items() if its == device]

    def exchange_without_lost(self, exchange: Exchange) -> Exchange:
        """Returns an exchange (where sums and weights lie) that uses no left-out device. The same one if it uses
        none."""
        lost = [device for device in exchange.devices if device in self.left_out]
        return without_lost_devices(exchange, lost, self.others()) if lost else exchange

    def worker_ended(self, worker: int) -> bool:
        """Counts a life of a worker that its device has ended. Returns whether the device is now to be left out."""
        self._lives[worker] += 1
        return self._lives[worker] >= LIVES

    def coordinator_ended(self, suspects: Sequence[str]) -> Verdict:
        """Counts a life of the coordinator that a device has ended. Returns which device is to be left out, if any.

        `suspects`: the devices that may have failed.
        """
        if known := [device for device in suspects if device in self.left_out]:
            return Verdict(known[0], known)  # a worker's failure was seen earlier
        named = {self.of_worker[worker] for worker in self._lives}
        suspects = [device for device in suspects if device in named] or suspects
        self._suspected.update(suspects)
        suspects = [device for device in suspects if self._suspected[device] >= LIVES]
        return Verdict(suspects[0], suspects) if suspects else Verdict(None)

    def leave_out(self, device: str) -> None:
        """Leaves out a device, and forgets suspicions against others."""
        self.left_out.add(device)
        self._suspected.clear()  # they came from a coordinator on other devices than now
