"""Describes the exchange of a run: in which memory gradients are added up, and which workers use it directly.

The planner chooses it and the other processes are told. Free of torch.
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
    why: str = ""  # the reason for the choice, for the user; empty: there was no choice
    lost: tuple[int, ...] | None = None  # if a device was lost: workers on the devices with which the run began
    one_process: bool = False  # the only worker runs in the coordinator's process

    @property
    def on_device(self) -> bool:
        return bool(self.devices)

    @property
    def workers_there(self) -> tuple[int, ...]:
        """Returns the indices of the workers on any of the devices, ascending."""
        return tuple(sorted(worker for workers in self.workers for worker in workers))

    @property
    def where(self) -> str:
        """Returns the names of the devices, or "the host", for a message to the user."""
        return ", ".join(self.devices) or "the host"

    @property
    def without_room(self) -> tuple[int, ...]:
        """Returns the workers whose shared segments have no room for gradients: those on the devices with which the run
        began."""
        return self.workers_there if self.lost is None else self.lost

    def __str__(self) -> str:
        by_whom = " in the worker's own process" if self.one_process else ""
        return f"gradients are added up on {self.where}{by_whom}" + (f": {self.why}" if self.why else "")


HOST = Exchange()


def after_loss(exchange: Exchange, lost: Collection[str], others: Mapping[int, str]) -> Exchange:
    """Returns the exchange with which a run goes on after it has lost devices.

    `others`: the devices of the remaining workers, at least one, by worker index. If no device of `exchange` is left,
    the first of `others` takes its place. Shared memory stays reserved as it was when the run began.
    """
    devices = [device for device in exchange.devices if device not in lost] or [next(iter(others.values()))]
    workers = (tuple(index for index, name in others.items() if name == device) for device in devices)
    gone = [device for device in exchange.devices if device in lost]
    why = f"{', '.join(gone)} {'is' if len(gone) == 1 else 'are'} lost"
    return Exchange(tuple(devices), tuple(workers), why, exchange.without_room)
