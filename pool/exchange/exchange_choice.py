"""Describes the exchange of a run: in which memory gradients are added up, and which workers use it directly.

The planner chooses the exchange. The other processes get its choice. Free of torch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Exchange:
    """The memory in which a run adds up gradients and keeps the weights: the host's, or that of one or several
    accelerators."""

    devices: tuple[str, ...] = ()  # torch's names of the accelerators that hold gradients and weights; empty: the host
    workers: tuple[tuple[int, ...], ...] = ()  # indices of the workers on each device, which use its memory directly
    reason: str = ""  # for the choice, for the user; empty: there was no choice
    initial_workers: tuple[int, ...] | None = None  # workers on the devices of the run's begin, if one was lost since
    one_process: bool = False  # the only worker runs in the coordinator's process

    @property
    def on_device(self) -> bool:
        return bool(self.devices)

    @property
    def workers_on_devices(self) -> tuple[int, ...]:
        """Returns the indices of the workers on any of the devices, ascending."""
        return tuple(sorted(worker for workers in self.workers for worker in workers))

    @property
    def place_name(self) -> str:
        """Returns the names of the devices, or "the host", for a message to the user."""
        return ", ".join(self.devices) or "the host"

    @property
    def workers_without_slots(self) -> tuple[int, ...]:
        """Returns the workers whose shared segments have no room for gradients: those on the devices with which the run
        began."""
        return self.workers_on_devices if self.initial_workers is None else self.initial_workers

    def __str__(self) -> str:
        process = " in the worker's own process" if self.one_process else ""
        reason = f": {self.reason}" if self.reason else ""
        return f"gradients are added up on {self.place_name}{process}{reason}"


HOST = Exchange()


def without_lost_devices(exchange: Exchange, lost: Collection[str], remaining: Mapping[int, str]) -> Exchange:
    """Returns the exchange with which a run continues after it has lost devices.

    `remaining`: the devices of the remaining workers, at least one, by worker index. If no device of `exchange` is
    left, the first of these takes its place. Shared memory stays reserved as it was when the run began.
    """
    devices = [device for device in exchange.devices if device not in lost]
    if not devices:
        devices = [next(iter(remaining.values()))]
    workers = (tuple(index for index, name in remaining.items() if name == device) for device in devices)
    lost_here = [device for device in exchange.devices if device in lost]
    reason = f"{', '.join(lost_here)} {'is' if len(lost_here) == 1 else 'are'} lost"
    return Exchange(tuple(devices), tuple(workers), reason, exchange.workers_without_slots)
