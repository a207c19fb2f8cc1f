"""Copies a run's state from GPUs to host memory, where snapshots are made of it.

The copy goes to page-locked memory, on a stream of its own. The stream that steps the optimizer waits for it on the
device, so this process does not. The optimizer's state and the averages are changed by the next step, so they are
copied first. The weights are copied last, because their memory is not written before the step after the next (I3).
Tensors whose rows lie on several devices are put together in the copy. State in host memory is read where it lies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from pool.checkpoint.store import Checkpoint
from pool.crash_points import crash_point


class StateCopy(Protocol):
    """A copy of a state that is made, or being made."""

    @property
    def state(self) -> Checkpoint:
        """The state with all tensors in host memory. They must not be read before the copy is complete."""

    @property
    def is_complete(self) -> bool:
        """True if all tensors of the state have arrived in host memory."""

    def wait(self) -> None:
        """Waits until all tensors of the state have arrived in host memory. Raises what the device has failed with."""

    def protect(self) -> None:
        """Notes that the version of the weights after the copied one is complete. Work queued on the device from now on
        may write the memory that is being copied, so it is made to wait for the copy."""


class StateCopies(Protocol):
    """Makes copies of a run's state in host memory."""

    def start(self, state: Checkpoint) -> StateCopy:
        """Begins to copy a run's state to host memory, between two steps. An earlier copy must not be read any more."""


@dataclass(frozen=True)
class UncopiedState:
    """A StateCopy of a state that lies in host memory and is not copied: it is read before the next step begins."""

    state: Checkpoint
    is_complete: bool = True

    def wait(self) -> None:
        """Returns at once, because nothing is copied."""

    def protect(self) -> None:
        """Does nothing: the state has been read."""


class HostCopies:
    """The StateCopies of a state that lies in host memory: nothing is copied."""

    def start(self, state: Checkpoint) -> StateCopy:
        return UncopiedState(state)


@dataclass(frozen=True)
class _DeviceCopy:
    """A StateCopy whose tensors are being copied from devices. `arrived`: by device, the event that its copies are
    complete."""

    state: Checkpoint
    arrived: Mapping[torch.device, torch.Event]

    @property
    def is_complete(self) -> bool:
        return all(event.query() for event in self.arrived.values())

    def wait(self) -> None:
        for event in self.arrived.values():
            event.synchronize()

    def protect(self) -> None:
        _wait_on_devices(self.arrived)


class DeviceCopies:
    """The StateCopies of a state on one device or several. The same host memory is used for each copy."""

    def __init__(self, devices: Sequence[torch.device]) -> None:
        self._streams = {device: torch.Stream(device=device) for device in devices}
        self._memory: dict[str, Tensor] = {}

    def start(self, state: Checkpoint) -> StateCopy:
        for device, stream in self._streams.items():
            stream.wait_stream(torch.accelerator.current_stream(device))
        optimizer = self._copy_all("optimizer", state.optimizer_tensors, state.divided)
        average = self._copy_all("average", state.average)
        _wait_on_devices(self._events())
        weights = self._copy_all("weights", state.weights)
        copied = replace(state, weights=weights, optimizer_tensors=optimizer, divided={}, average=average)
        crash_point("coordinator.state_on_its_way")
        return _DeviceCopy(copied, self._events())

    def _events(self) -> dict[torch.device, torch.Event]:
        """Records on each copying stream an event for all that is queued there, by device."""
        return {device: stream.record_event() for device, stream in self._streams.items()}

    def _copy_all(
        self, kind: str, tensors: Mapping[str, Tensor], divided: Mapping[str, Sequence[Tensor]] | None = None
    ) -> dict[str, Tensor]:
        """Begins to copy tensors by name. `kind`: tells weights, averages and optimizer state apart in the memory for
        copies. `divided`: by name the parts of tensors that lie on several devices."""
        copies = {}
        for name, tensor in tensors.items():
            parts = [tensor] if divided is None or name not in divided else divided[name]
            copies[name] = self._copy(f"{kind} {name}", tensor, parts)
        return copies

    def _copy(self, key: str, tensor: Tensor, parts: Sequence[Tensor]) -> Tensor:
        """Begins to copy one tensor, and returns the copy. `parts`: the pieces whose rows make up the tensor, in order.
        A tensor in host memory, such as a number of steps, is cloned at once, because the next step changes it."""
        if tensor.device.type == "cpu":
            return tensor.detach().clone()
        whole = self._memory.get(key)
        if whole is None or whole.shape != tensor.shape:
            whole = self._memory[key] = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        places = [whole] if len(parts) == 1 else torch.split(whole, [len(part) for part in parts])
        for place, part in zip(places, parts, strict=True):
            with self._streams[part.device]:
                place.copy_(part.detach(), non_blocking=True)
        return whole


def _wait_on_devices(events: Mapping[torch.device, torch.Event]) -> None:
    """Makes work that is queued from now on wait for the events, each on its device."""
    for device, event in events.items():
        torch.accelerator.current_stream(device).wait_event(event)
