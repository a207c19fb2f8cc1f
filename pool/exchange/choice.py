"""Which exchange a run has: the planner chooses, everybody is told. Free of torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Exchange:
    devices: tuple[str, ...] = ()  # in torch's words, accelerators that gradients and weights lie on; empty: the host
    workers: tuple[tuple[int, ...], ...] = ()  # on each of these, by index: they use its memory where it lies
    why: str = ""  # for people; empty: there was nothing to choose
    lost: tuple[int, ...] | None = None  # workers on the device that it began with, if that is lost

    @property
    def on_device(self) -> bool:
        return bool(self.devices)

    @property
    def local(self) -> tuple[int, ...]:
        """Workers on any of the devices."""
        return tuple(sorted(worker for workers in self.workers for worker in workers))

    @property
    def where(self) -> str:
        """For people."""
        return ", ".join(self.devices) or "the host"

    @property
    def without_room(self) -> tuple[int, ...]:
        """Workers in whose segments no room is reserved for gradients: those on the device that it began with."""
        return self.local if self.lost is None else self.lost

    def __str__(self) -> str:
        return f"gradients are added up on {self.where}" + (f": {self.why}" if self.why else "")


HOST = Exchange()


def after_loss(exchange: Exchange, others: Mapping[int, str]) -> Exchange:
    """That of a run that goes on without the only device of `exchange`, by the memory that is reserved. `others`: in
    torch's words the devices of the workers that are left, by index: the first takes the lost one's place, else the
    host."""
    why = f"{exchange.where} is lost"
    if not others:
        return Exchange(why=why, lost=exchange.without_room)
    device = next(iter(others.values()))
    local = tuple(index for index, name in others.items() if name == device)
    return Exchange((device,), (local,), why, exchange.without_room)
