"""The state of a run on its way to where snapshots are made of it.

On a device it is copied to page-locked memory on a stream beside the one that steps, which waits on the device, not in
this process, before it changes what is still to be copied: the optimizer's state and averages are changed by the next
step, and are copied first; the weights are another version's memory until the step behind it (I3). Rows that several
devices share out come together there. In host memory the state is read where it lies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from pool.checkpoint.store import Checkpoint
from pool.crash_points import crash_point


class Copied(Protocol):
    @property
    def state(self) -> Checkpoint:
        """All tensors in host memory, to be read when they have arrived."""

    @property
    def is_there(self) -> bool:
        """Its tensors have arrived."""

    def wait(self) -> None:
        """Until they have. Raises what the device has failed with."""

    def superseded(self) -> None:
        """The version after it is complete. What is done from now on may write where its weights lie."""


class Copies(Protocol):
    def begin(self, state: Checkpoint) -> Copied:
        """Between two steps. The one before is not read any more."""


@dataclass(frozen=True)
class WhereItLies:
    """A Copied that need not be copied: read before the next step begins."""

    state: Checkpoint
    is_there: bool = True

    def wait(self) -> None:
        """It is there."""

    def superseded(self) -> None:
        """It has been read."""


class InHostMemory:
    """Copies of a state that needs none."""

    def begin(self, state: Checkpoint) -> Copied:
        return WhereItLies(state)


@dataclass(frozen=True)
class _OnItsWay:
    state: Checkpoint
    arrived: Mapping[torch.device, torch.Event]

    @property
    def is_there(self) -> bool:
        return all(event.query() for event in self.arrived.values())

    def wait(self) -> None:
        for event in self.arrived.values():
            event.synchronize()

    def superseded(self) -> None:
        _wait_on_devices(self.arrived)


class FromDevices:
    """Copies of a state on one device or several, by way of the same memory each time."""

    def __init__(self, devices: Sequence[torch.device]) -> None:
        self._streams = {device: torch.Stream(device=device) for device in devices}
        self._places: dict[str, Tensor] = {}

    def begin(self, state: Checkpoint) -> Copied:
        for device, stream in self._streams.items():
            stream.wait_stream(torch.accelerator.current_stream(device))
        optimizer = self._copied("optimizer", state.optimizer_tensors, state.divided)
        average = self._copied("average", state.average)
        _wait_on_devices(self._events())
        weights = self._copied("weights", state.weights)
        copied = replace(state, weights=weights, optimizer_tensors=optimizer, divided={}, average=average)
        crash_point("coordinator.state_on_its_way")
        return _OnItsWay(copied, self._events())

    def _events(self) -> dict[torch.device, torch.Event]:
        return {device: stream.record_event() for device, stream in self._streams.items()}

    def _copied(
        self, kind: str, tensors: Mapping[str, Tensor], divided: Mapping[str, Sequence[Tensor]] | None = None
    ) -> dict[str, Tensor]:
        copies = {}
        for name, tensor in tensors.items():
            parts = [tensor] if divided is None or name not in divided else divided[name]
            copies[name] = self._copy(f"{kind} {name}", tensor, parts)
        return copies

    def _copy(self, key: str, tensor: Tensor, parts: Sequence[Tensor]) -> Tensor:
        """`parts`: of the tensor, one after the other. A number of steps, which is the host's, is changed by the next
        one, too."""
        if tensor.device.type == "cpu":
            return tensor.detach().clone()
        whole = self._places.get(key)
        if whole is None or whole.shape != tensor.shape:
            whole = self._places[key] = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        places = [whole] if len(parts) == 1 else torch.split(whole, [len(part) for part in parts])
        for place, part in zip(places, parts, strict=True):
            with self._streams[part.device]:
                place.copy_(part.detach(), non_blocking=True)
        return whole


def _wait_on_devices(events: Mapping[torch.device, torch.Event]) -> None:
    """Lets what is queued from now on wait on its device."""
    for device, event in events.items():
        torch.accelerator.current_stream(device).wait_event(event)
