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
from pool.device.cards import VARIABLE, Card, KernelSupport, alone
from pool.device.names import Device, parse_device
from pool.device.page_lock import page_lock
from pool.kernels.cuda.compiler import kernels_in_words, why_no_kernels
from pool.shm.segment import Segment, create

log = logging.getLogger(__name__)

_MIB = 1 << 20

_registered: list[Segment] = []  # segments registered with a driver, kept until this process ends


def describe_cards(devices: Sequence[str]) -> tuple[Card, ...]:
    """Returns a description of each device of a run that has memory of its own, each device once."""
    named = {spec: parse_device(spec) for spec in dict.fromkeys(devices)}
    accelerators = {spec: device for spec, device in named.items() if device.is_accelerator}
    cards = [_look_at(spec, device) for spec, device in accelerators.items()]
    return tuple(replace(card, peers=_peers(accelerators, card.device)) for card in cards)


def _look_at(spec: str, device: Device) -> Card:
    """Opens a device and returns its description. What fails is named in the description's `problem`. `spec`: its name
    in the run."""
    properties = torch.get_device_module(device.kind).get_device_properties(device.index)
    card = Card(spec, properties.name, properties.total_memory, properties.total_memory, capability="")
    if device.kind == "cuda":
        architecture = f"sm_{properties.major}{properties.minor}"
        card = replace(
            card,
            capability=f"{properties.major}.{properties.minor}",
            visible=_visible(device, properties),
            kernels=_kernels(architecture),
        )
    try:
        torch.accelerator.set_device_index(device.index)
        torch.zeros(1, device=device.torch_name).cpu()  # waits: a lost device refuses here
        card = replace(card, free=_free(card.nbytes))
        card = replace(card, page_locked=_can_page_lock())
    except (RuntimeError, OSError, MemoryError) as error:
        log.warning("%s: %s", spec, error)
        card = replace(card, problem=format_error(error))
    return card


def _kernels(architecture: str) -> KernelSupport:
    why_not = why_no_kernels(architecture)
    return KernelSupport(available=not why_not, description=why_not or kernels_in_words(architecture))


def _visible(device: Device, properties: Any) -> str:
    """Returns the value of CUDA_VISIBLE_DEVICES with which a process sees this device alone. Empty where the driver is
    not NVIDIA's.

    The name of a slice of a card (MIG) is not known here. Such a device keeps its number, or the name that the user
    gave.
    """
    if torch.version.cuda is None:
        return ""
    uuid = getattr(properties, "uuid", None)
    known = uuid is not None and "MIG" not in properties.name
    return alone(os.environ.get(VARIABLE), device.index, f"GPU-{uuid}" if known else "")


def _free(nbytes: int) -> int:
    """Returns the free bytes of the current device's memory, or `nbytes` if the device does not tell."""
    with contextlib.suppress(RuntimeError, AttributeError, NotImplementedError):
        return int(torch.accelerator.get_memory_info()[0])
    return nbytes


def _can_page_lock() -> bool:
    """Returns whether the current device can page-lock memory as a worker has it: the ring, read-only afterwards, and a
    gradient slot."""
    ring, slot = (_segment(_MIB, writable=writable) for writable in (False, True))
    locked = all([page_lock(ring), page_lock(slot)])
    ring.make_read_only()
    return locked


def _segment(nbytes: int, *, writable: bool) -> Segment:
    fd = create("probe", nbytes, lambda _: None)
    segment = Segment(fd, writable=writable, registered=not writable)
    os.close(fd)
    _registered.append(segment)
    return segment


def _peers(named: dict[str, Device], spec: str) -> tuple[str, ...]:
    """Returns the other CUDA devices whose memory a device can access directly."""
    own = named[spec]
    if own.kind != "cuda":
        return ()
    others = {other: device for other, device in named.items() if device.index != own.index}
    return tuple(
        other for other, device in others.items() if torch.cuda.can_device_access_peer(own.index, device.index)
    )
