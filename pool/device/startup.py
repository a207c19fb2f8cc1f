"""Opens a device in the process that computes on it, before anything else there uses it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from loader.plugins.error_text import format_error_with_location
from pool.device.cards import VISIBLE_DEVICES, Card, parse_visible_devices
from pool.device.lost import is_device_lost, is_lost_when_opened
from pool.device.memory import describe_free_memory, is_out_of_memory
from pool.device.names import Device
from pool.errors import LostDeviceError, ResourceError


def hide_other_devices(devices: Sequence[Device], cards: Sequence[Card | None]) -> list[Device]:
    """Restricts this process to its own cards where that is possible. Returns the devices under the names that they
    have then.

    A process that sees its own cards alone calls them cuda:0, cuda:1 ... The driver reads CUDA_VISIBLE_DEVICES once,
    when it is first used, and must not have been used before. `cards`: the description of each device, if there is one.
    """
    names = [card.visible for card in cards if card is not None and card.visible]
    value = ",".join(names)
    can_hide = len(names) == len(devices) and parse_visible_devices(value) == tuple(names)
    if not can_hide:
        return list(devices)
    os.environ[VISIBLE_DEVICES] = value
    return [replace(device, index=index) for index, device in enumerate(devices)]


def open_device(device: torch.device, who: str, spec: str, way_out: str) -> None:
    """Makes a device current, so that new tensors, seeds and libraries use it, and waits for a first operation.

    `who`: the process, for messages; `spec`: the device's name in the run; `way_out`: what the user can do instead.
    Raises ResourceError if the device has no memory left, which tells to free some or to take the way out. Raises
    LostDeviceError if the first operation fails as that of a broken card does, and RuntimeError for any other error.
    """
    try:
        torch.accelerator.set_device_index(device.index)
        torch.zeros(1, device=device).cpu()  # waits until the device has computed
    except RuntimeError as error:
        if is_lost_when_opened(error):
            raise LostDeviceError(f"{spec} can't be used: {format_error_with_location(error)}", [spec]) from None
        if not is_out_of_memory(error):
            raise
        raise ResourceError(
            f"{who}: {spec} has no memory left to begin with: {format_error_with_location(error)}"
            f"{describe_free_memory()}; free it, or {way_out}"
        ) from None


@contextlib.contextmanager
def naming_lost_devices(*names: str, devices: Sequence[torch.device] = ()) -> Iterator[None]:
    """Turns an error that says that a device can't be used into LostDeviceError with the device's name in the run.

    `devices`: if there are several names, this process's devices in the same order. An error does not say which device
    it is of, so each is tried. Devices that answer are not suspected, unless all do.
    """
    try:
        yield
    except RuntimeError as error:
        if not is_device_lost(error):
            raise
        suspects = _find_lost(names, devices) if len(names) > 1 else []
        if not suspects:
            suspects = list(names)
        subject = suspects[0] if len(suspects) == 1 else f"one of {', '.join(suspects)}"
        raise LostDeviceError(f"{subject} can't be used: {format_error_with_location(error)}", suspects) from None


def _find_lost(names: Sequence[str], devices: Sequence[torch.device]) -> list[str]:
    """Returns the names of the devices that can't compute any more."""
    return [name for name, device in zip(names, devices, strict=True) if not _can_compute(device)]


def _can_compute(device: torch.device) -> bool:
    """Returns whether a device can still compute."""
    try:
        torch.zeros(1, device=device).cpu()
    except RuntimeError as error:
        return not is_device_lost(error)
    return True
