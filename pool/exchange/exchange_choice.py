"""The exchange of a run: the planner chooses it, everybody is told. Free of torch."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Exchange:
    devices: tuple[str, ...] = ()  # in torch's words, accelerators that gradients and weights lie on; empty: the host
    workers: tuple[tuple[int, ...], ...] = ()  # on each of these, by index: they use its memory where it lies
    why: str = ""  # for people; empty: there was nothing to choose
    lost: tuple[int, ...] | None = None  # workers on the devices that it began with, if one of them is lost
    one_process: bool = False  # the only worker runs in the coordinator's process

    @property
    def on_device(self) -> bool:
        return bool(self.devices)

    @property
    def workers_there(self) -> tuple[int, ...]:
        """Workers on any of the devices."""
        return tuple(sorted(worker for workers in self.workers for worker in workers))

    @property
    def where(self) -> str:
        """For people."""
        return ", ".join(self.devices) or "the host"

    @property
    def without_room(self) -> tuple[int, ...]:
        """Workers in whose segments no room is reserved for gradients: those on the devices that it began with."""
        return self.workers_there if self.lost is None else self.lost

    def __str__(self) -> str:
        by_whom = " in the worker's own process" if self.one_process else ""
        return f"gradients are added up on {self.where}{by_whom}" + (f": {self.why}" if self.why else "")


HOST = Exchange()


def after_loss(exchange: Exchange, lost: Collection[str], others: Mapping[int, str]) -> Exchange:
    """Returns the exchange of a run that goes on without these devices of `exchange`, by the memory that is reserved.

    `others`: the devices of the workers that are left, at least one, by index. If no device of `exchange` is left, the
    first of them takes its place.
    """
    devices = [device for device in exchange.devices if device not in lost] or [next(iter(others.values()))]
    workers = (tuple(index for index, name in others.items() if name == device) for device in devices)
    gone = [device for device in exchange.devices if device in lost]
    why = f"{', '.join(gone)} {'is' if len(gone) == 1 else 'are'} lost"
    return Exchange(tuple(devices), tuple(workers), why, exchange.without_room)
