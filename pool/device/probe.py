"""Looks at the GPUs of a run: names, memory, links, how fast copies are. In the planner, a process that ends before the
first worker starts: to look opens the devices, which nobody may have done who is forked from, and takes memory there.

Nothing here can end a run. What can't be found out is said in the card's `problem`; a worker meets it again, and says
what to do.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from loader.plugins.error_text import in_words
from pool.device.cards import Card, Speeds
from pool.device.cuda_visible import VARIABLE, alone
from pool.device.names import Device, parse_device
from pool.device.page_lock import page_lock
from pool.device.pci import link_of
from pool.kernels.cuda.compiler import kernels_in_words
from pool.shm.segment import Segment, create

log = logging.getLogger(__name__)

_MIB = 1 << 20
_LEAST = 64 << 10  # bytes of the first copy
_LONGEST = 16 * _MIB  # of a copy between host and card
_OWN = 256 * _MIB  # of one within a card's memory: more than its caches hold
_HOST = 128 * _MIB  # of one within the host's memory
_MATRIX = (128, 4096)  # rows of the first matrices, and of the largest
_ENOUGH = 1e-3  # seconds of what is measured
_GROWTH = 4
_REPEATS = 3

_registered: list[Segment] = []  # with a driver, until this process ends


def look_at_cards(devices: Sequence[str], module: str) -> tuple[Card, ...]:
    """Those of a run's devices that have memory of their own, each once. `module`: `testing.device_module`."""
    named = {spec: parse_device(spec, module) for spec in dict.fromkeys(devices)}
    accelerators = {spec: device for spec, device in named.items() if device.is_accelerator}
    cards = [_looked_at(spec, device) for spec, device in accelerators.items()]
    return tuple(replace(card, peers=_peers(accelerators, card.device)) for card in cards)


def _looked_at(spec: str, device: Device) -> Card:
    properties = torch.get_device_module(device.kind).get_device_properties(device.index)
    card = Card(spec, properties.name, properties.total_memory, properties.total_memory, capability="")
    if device.kind == "cuda":
        card = replace(
            card,
            capability=f"{properties.major}.{properties.minor}",
            visible=_visible(device, properties),
            kernels=kernels_in_words(f"sm_{properties.major}{properties.minor}"),
        )
    try:
        torch.accelerator.set_device_index(device.index)
        torch.zeros(1, device=device.torch_name)
        card = replace(card, free=_free(card.nbytes))
        card = _measured(card, torch.device(device.torch_name))
    except (RuntimeError, OSError, MemoryError) as error:
        log.warning("%s: %s", spec, error)
        card = replace(card, problem=in_words(error))
    return replace(card, link=link_of(properties))  # after the copies: a link at rest is slower


def _visible(device: Device, properties: Any) -> str:
    """Empty where the driver is not NVIDIA's. The name that a slice of a card has is not known here."""
    if torch.version.cuda is None:
        return ""
    uuid = getattr(properties, "uuid", None)
    known = uuid is not None and "MIG" not in properties.name
    return alone(os.environ.get(VARIABLE), device.index, f"GPU-{uuid}" if known else "")


def _free(nbytes: int) -> int:
    """Of the current device's memory, as far as it says."""
    with contextlib.suppress(RuntimeError, AttributeError, NotImplementedError):
        return int(torch.accelerator.get_memory_info()[0])
    return nbytes


def _measured(card: Card, device: torch.device) -> Card:
    """As a worker has the ring and its slots: registered with the driver, the ring read-only then."""
    most = min(_LONGEST, card.free // 16 // _MIB * _MIB)
    if most == 0:
        return replace(card, problem=f"{card.free / _MIB:.1f} MiB of its memory are free: no copies were measured")
    ring, slot = (_segment(most, writable=writable) for writable in (False, True))
    locked = all([page_lock(ring), page_lock(slot)])
    ring.protect()
    speeds = Speeds(
        inward=_inward(device, torch.from_numpy(ring.array)),
        outward=_outward(device, torch.from_numpy(slot.array)),
        memory=_own_memory(device, card.free),
        host=_hosts_memory(),
        products=_products(device),
    )
    return replace(card, page_locked=locked, speeds=speeds)


def _segment(nbytes: int, *, writable: bool) -> Segment:
    fd = create("probe", nbytes, lambda _: None)
    segment = Segment(fd, writable=writable, registered=not writable)
    os.close(fd)
    _registered.append(segment)
    return segment


def _inward(device: torch.device, ring: Tensor) -> float:
    """GB/s."""

    def copies(nbytes: int) -> Callable[[], object]:
        there = torch.empty(nbytes, dtype=torch.uint8, device=device)
        return lambda: there.copy_(ring[:nbytes], non_blocking=True)

    return 1e-9 * _rate(device, copies, _LEAST, ring.numel())


def _outward(device: torch.device, slot: Tensor) -> float:
    """GB/s."""

    def copies(nbytes: int) -> Callable[[], object]:
        there = torch.zeros(nbytes, dtype=torch.uint8, device=device)
        return lambda: slot[:nbytes].copy_(there, non_blocking=True)

    return 1e-9 * _rate(device, copies, _LEAST, slot.numel())


def _own_memory(device: torch.device, free: int) -> float:
    """GB/s of reads and writes together."""

    def copies(nbytes: int) -> Callable[[], object]:
        source, to = (torch.zeros(nbytes, dtype=torch.uint8, device=device) for _ in range(2))
        return lambda: to.copy_(source)

    return 2e-9 * _rate(device, copies, _LEAST, min(_OWN, free // 8))


@cache
def _hosts_memory() -> float:
    """GB/s of reads and writes together."""
    source, to = (torch.zeros(_HOST, dtype=torch.uint8) for _ in range(2))
    times = []
    for _ in range(_REPEATS):
        begin = time.perf_counter()
        to.copy_(source)
        times.append(time.perf_counter() - begin)
    return 2e-9 * _HOST / min(times)


def _products(device: torch.device) -> float:
    """1e9 operations/s."""

    def products(n: int) -> Callable[[], object]:
        matrix = torch.ones(n, n, device=device)
        return lambda: matrix @ matrix

    return 2e-9 * _rate(device, products, *_MATRIX, power=3)


def _rate(
    device: torch.device, make: Callable[[int], Callable[[], object]], least: int, most: int, power: int = 1
) -> float:
    """Units ** power a second of what `make` gives for so many units, which grow until it takes long enough."""
    units = min(least, most)
    while True:
        run = make(units)
        run()
        seconds = min(_seconds(device, run) for _ in range(_REPEATS))
        if seconds >= _ENOUGH or units >= most:
            return float(units) ** power / seconds
        units = min(most, _GROWTH * units)


def _seconds(device: torch.device, run: Callable[[], object]) -> float:
    torch.accelerator.synchronize(device)
    begin = time.perf_counter()
    run()
    torch.accelerator.synchronize(device)
    return max(time.perf_counter() - begin, 1e-7)


def _peers(named: dict[str, Device], spec: str) -> tuple[str, ...]:
    """The others whose memory a device may use."""
    own = named[spec]
    if own.kind != "cuda":
        return ()
    others = {other: device for other, device in named.items() if device.index != own.index}
    return tuple(
        other for other, device in others.items() if torch.cuda.can_device_access_peer(own.index, device.index)
    )
