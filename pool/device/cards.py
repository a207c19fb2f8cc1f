"""Describes the GPUs of a run, and which of them a process sees. Plain data and pure functions.

The planner process fills the descriptions for other processes and for the user. Each worker sees its own card alone, by
CUDA_VISIBLE_DEVICES, so nothing that the worker or a library does can land on another card, and a library that opens
all cards it sees takes no memory there. The driver's rules hold for the variable: the list ends at the first entry that
names no card, and shows nothing if an entry comes twice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"
_NUMBER = re.compile(r"\s*\+?(\d+)")
_NAME_PREFIXES = ("GPU-", "MIG-")


@dataclass(frozen=True)
class KernelSupport:
    """Whether this project's own kernels can run on a card."""

    available: bool  # True if they can run; else torch's own operations compute
    description: str  # for the user: which of them are compiled, or why they can't run


@dataclass(frozen=True)
class Card:
    """One GPU of a run, or another device with memory of its own."""

    device: str  # the card's name in the run, such as cuda:0
    name: str
    nbytes: int  # bytes of the card's memory
    free: int  # bytes of it that were free before the run
    capability: str  # CUDA's compute capability, such as 9.0; empty for other devices
    visible: str = ""  # CUDA_VISIBLE_DEVICES for a process that is to see this card alone; empty: leave it as it is
    page_locked: bool = True  # the card's driver can page-lock memory such as the ring's
    peers: tuple[str, ...] = ()  # devices of the run whose memory it may use
    kernels: KernelSupport | None = None  # None for other devices than CUDA's
    problem: str = ""  # the reason why some of this is unknown, empty if nothing is


def parse_visible_devices(variable: str | None) -> tuple[str, ...] | None:
    """Returns the valid entries of CUDA_VISIBLE_DEVICES in order: numbers, or names (`GPU-...`, `MIG-...`).

    None if the variable is not set and hides nothing.
    """
    if variable is None:
        return None
    prefix = next((prefix for prefix in _NAME_PREFIXES if variable.startswith(prefix)), "")
    entries: list[str] = []
    for text in variable.split(","):
        entry = _parse_entry(text, prefix)
        if entry is None:
            break
        if entry in entries:
            return ()
        entries.append(entry)
    return tuple(entries)


def _parse_entry(text: str, prefix: str) -> str | None:
    """Returns one entry of the variable, None if it names no card. `prefix`: of the names, empty for numbers."""
    if prefix:
        return text.strip() if text.startswith(prefix) else None
    number = _NUMBER.match(text)
    return None if number is None else str(int(number[1]))


def visible_devices_value(variable: str | None, index: int, uuid: str = "") -> str:
    """Returns the value of CUDA_VISIBLE_DEVICES with which a process sees only this process's device number `index`.

    `variable`: this process's own value; `uuid`: the card's own name, `GPU-...`, if it is known. That name stays the
    same when another card is lost. A name that the user gave is kept.
    """
    entries = parse_visible_devices(variable)
    entry = str(index) if entries is None else entries[index]
    if not uuid or entry.startswith(_NAME_PREFIXES):
        return entry
    return uuid


def describe_hidden_cards(variable: str | None) -> str:
    """Returns a phrase for the user about a setting that hides cards, empty if none does."""
    if variable is None:
        return ""
    return f", with {VISIBLE_DEVICES}={variable}" if variable else f", {VISIBLE_DEVICES} is empty, which hides all"
