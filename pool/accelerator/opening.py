"""Begins to use a device, in the process that computes on it: before anything else there does."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace

import torch

from loader.plugins.words import told
from pool.accelerator.lost import device_lost
from pool.accelerator.visible import VARIABLE
from pool.devices import Device
from pool.errors import LostDeviceError, ResourceError
from pool.nn.memory import memory_of_device, out_of_memory
from pool.preflight.cards import Card


def own_device(device: Device, card: Card | None) -> Device:
    """The device as this process has it. One that sees its own card alone calls it cuda:0; the driver is asked once,
    when it is first used, and must not have been before."""
    if card is None or not card.visible:
        return device
    os.environ[VARIABLE] = card.visible
    return replace(device, index=0)


def open_device(device: torch.device, who: str, spec: str, way_out: str) -> None:
    """New tensors, seeds and libraries are this device's. `who`: the process; `spec`: the device's name in the run.
    Raises ResourceError if it has no memory for that, which tells to free it or to take the way out."""
    try:
        torch.accelerator.set_device_index(device.index)
        torch.zeros(1, device=device)
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        raise ResourceError(
            f"{who}: {spec} has no memory left to begin with: {told(error)}{memory_of_device()}; free it, or {way_out}"
        ) from None


@contextlib.contextmanager
def naming_lost_devices(spec: str) -> Iterator[None]:
    """Raises LostDeviceError for what says that the device can't be used."""
    try:
        yield
    except RuntimeError as error:
        if not device_lost(error):
            raise
        raise LostDeviceError(f"{spec} can't be used: {told(error)}") from None
