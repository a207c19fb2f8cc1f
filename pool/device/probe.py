"""Finds out about the GPUs of a run: names, memory, peers, whether memory can be page-locked.

This is done in the planner, a process that ends before the first worker starts. Probing opens the devices, which the
fork server must never do, and takes memory there.

Nothing here can end a run. The card's `problem` names what can't be found out. A worker meets the problem again, and
reports what to do.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from loader.plugins.error_text import format_error
from pool.device.cards import VISIBLE_DEVICES, Card, KernelSupport, visible_devices_value
from pool.device.names import Device, parse_device
from pool.device.page_lock import page_lock
from pool.kernels.cuda.compiler import describe_kernels, explain_missing_kernels
from pool.shm.segment import Segment, create_segment

log = logging.getLogger(__name__)

_MIB = 1 << 20

_registered: list[Segment] = []  # segments registered with a driver, kept until this process ends


def describe_cards(devices: Sequence[str]) -> tuple[Card, ...]:
    """Returns a description of each device of a run that has memory of its own, each device once."""
    parsed = {spec: parse_device(spec) for spec in dict.fromkeys(devices)}
    accelerators = {spec: device for spec, device in parsed.items() if device.is_accelerator}
    cards = [_describe_card(spec, device) for spec, device in accelerators.items()]
    return tuple(replace(card, peers=_find_peers(accelerators, card.device)) for card in cards)


def _describe_card(spec: str, device: Device) -> Card:
    """Opens a device and returns its description, in which `problem` names what fails. `spec`: its name in the run."""
    properties = torch.get_device_module(device.kind).get_device_properties(device.index)
    card = Card(spec, properties.name, properties.total_memory, properties.total_memory, capability="")
    if device.kind == "cuda":
        card = replace(
            card,
            capability=f"{properties.major}.{properties.minor}",
            visible=_visible_devices_value(device, properties),
            kernels=_describe_kernels(f"sm_{properties.major}{properties.minor}"),
        )
    try:
        torch.accelerator.set_device_index(device.index)
        torch.zeros(1, device=device.torch_name).cpu()  # waits: a lost device refuses here
        card = replace(card, free=_read_free_nbytes(card.nbytes))
        card = replace(card, page_locked=_can_page_lock())
    except (RuntimeError, OSError, MemoryError) as error:
        log.warning("%s: %s", spec, error)
        card = replace(card, problem=format_error(error))
    return card


def _describe_kernels(architecture: str) -> KernelSupport:
    problem = explain_missing_kernels(architecture)
    if problem:
        return KernelSupport(available=False, description=problem)
    return KernelSupport(available=True, description=describe_kernels(architecture))


def _visible_devices_value(device: Device, properties: Any) -> str:
    """Returns the value of CUDA_VISIBLE_DEVICES with which a process sees this device alone. Empty where the driver is
    not NVIDIA's.

    The name of a slice of a card (MIG) is unknown to torch. Such a device keeps its number, or the name that the user
    gave.
    """
    if torch.version.cuda is None:
        return ""
    uuid = getattr(properties, "uuid", None)
    has_name = uuid is not None and "MIG" not in properties.name
    return visible_devices_value(os.environ.get(VISIBLE_DEVICES), device.index, f"GPU-{uuid}" if has_name else "")


def _read_free_nbytes(nbytes: int) -> int:
    """Returns the free bytes of the current device's memory, or `nbytes` if the device does not report them."""
    with contextlib.suppress(RuntimeError, AttributeError, NotImplementedError):
        return int(torch.accelerator.get_memory_info()[0])
    return nbytes


def _can_page_lock() -> bool:
    """Returns whether the current device can page-lock memory as a worker has it: the ring, read-only afterwards, and a
    gradient slot."""
    ring = _create_segment(_MIB, writable=False)
    slot = _create_segment(_MIB, writable=True)
    is_locked = all([page_lock(ring), page_lock(slot)])
    ring.make_read_only()
    return is_locked


def _create_segment(nbytes: int, *, writable: bool) -> Segment:
    fd = create_segment("probe", nbytes, lambda _: None)
    segment = Segment(fd, writable=writable, registered=not writable)
    os.close(fd)
    _registered.append(segment)
    return segment


def _find_peers(devices: dict[str, Device], spec: str) -> tuple[str, ...]:
    """Returns the other CUDA devices whose memory a device can access directly."""
    index = devices[spec].index
    if devices[spec].kind != "cuda":
        return ()
    others = [(name, device.index) for name, device in devices.items() if device.index != index]
    return tuple(name for name, other in others if torch.cuda.can_device_access_peer(index, other))
