"""The devices that a run leaves out. Pure.

A device that can't be used ends processes. A worker uses one, so it says which that is. A coordinator that uses several
may be ended by an error that any of them can have caused: then all of these are suspected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pool.exchange.exchange_choice import Exchange, after_loss

LIVES = 2  # of a process that end because its device can't be used; then the run goes on without the device


@dataclass(frozen=True)
class Verdict:
    """Decides what is to be done about a coordinator that has ended so."""

    left_out: str | None  # the run goes on without this device; None: all are tried once more
    suspects: Sequence[str] = ()  # each may be the one that is lost


@dataclass
class LostDevices:
    """All devices by their names in torch's words."""

    of_worker: Mapping[int, str]  # the device of each, by index
    left_out: set[str] = field(default_factory=set)
    _lives: Counter[int] = field(default_factory=Counter)  # of workers, that ended with their device
    _suspected: Counter[str] = field(default_factory=Counter)  # in lives of the coordinator, on the devices that it has

    def is_left_out(self, worker: int) -> bool:
        return self.of_worker.get(worker) in self.left_out

    def others(self, but: str | None = None) -> Mapping[int, str]:
        """Returns the devices of the workers that are left without that device, by index."""
        gone = {*self.left_out, but}
        return {worker: device for worker, device in self.of_worker.items() if device not in gone}

    def workers_on(self, device: str) -> Sequence[int]:
        return [worker for worker, its in self.of_worker.items() if its == device]

    def exchange_without_lost(self, exchange: Exchange) -> Exchange:
        """Returns an exchange that uses no device which is left out: the same one if it uses none."""
        lost = [device for device in exchange.devices if device in self.left_out]
        return after_loss(exchange, lost, self.others()) if lost else exchange

    def worker_ended(self, worker: int) -> bool:
        """The device of a worker has ended it; whether that was its last life."""
        self._lives[worker] += 1
        return self._lives[worker] >= LIVES

    def coordinator_ended(self, suspects: Sequence[str]) -> Verdict:
        """One of these devices has ended the coordinator, which uses them all."""
        if known := [device for device in suspects if device in self.left_out]:
            return Verdict(known[0], known)  # a worker's last life was faster
        named = {self.of_worker[worker] for worker in self._lives}
        suspects = [device for device in suspects if device in named] or suspects
        self._suspected.update(suspects)
        suspects = [device for device in suspects if self._suspected[device] >= LIVES]
        return Verdict(suspects[0], suspects) if suspects else Verdict(None)

    def leave_out(self, device: str) -> None:
        self.left_out.add(device)
        self._suspected.clear()  # those of its lives on other devices than it has now
