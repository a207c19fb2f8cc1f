"""The GPUs of a run: what the planner finds out about each, for the other processes and for people, and which of them a
process sees. Plain data and pure functions.

Each worker sees its own card alone, by CUDA_VISIBLE_DEVICES, so nothing that it or a library does can land on another,
and a library that opens all cards it sees takes no memory there. The rules are the driver's: the list ends at the first
entry that names no card, and shows nothing if an entry comes twice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

VARIABLE = "CUDA_VISIBLE_DEVICES"
_NUMBER = re.compile(r"\s*\+?(\d+)")
_NAMES = ("GPU-", "MIG-")


@dataclass(frozen=True)
class Kernels:
    """The project's own for a card."""

    there: bool  # or torch's own operations compute
    words: str  # what of them is compiled; why they are not there


@dataclass(frozen=True)
class Card:
    device: str  # its name in the run, cuda:0
    name: str
    nbytes: int  # of its memory
    free: int  # of that, before the run
    capability: str  # 9.0; empty: it is no CUDA device
    visible: str = ""  # CUDA_VISIBLE_DEVICES of a process that is to see this card alone; empty: as it is
    page_locked: bool = True  # memory as the ring's can be registered with it
    peers: tuple[str, ...] = ()  # devices of the run whose memory it may use
    kernels: Kernels | None = None  # None: it is no CUDA device
    problem: str = ""  # why some of this is not known


def entries(variable: str | None) -> tuple[str, ...] | None:
    """Returns those of the variable's value that count, in order: numbers, or names (`GPU-...`, `MIG-...`). None: it
    hides nothing."""
    if variable is None:
        return None
    kind = next((name for name in _NAMES if variable.startswith(name)), "")
    listed: list[str] = []
    for entry in variable.split(","):
        if kind:
            if not entry.startswith(kind):
                break
            name = entry.strip()
        else:
            number = _NUMBER.match(entry)
            if number is None:
                break
            name = str(int(number[1]))
        if name in listed:
            return ()
        listed.append(name)
    return tuple(listed)


def alone(variable: str | None, index: int, uuid: str = "") -> str:
    """Returns the value with which a process sees device `index` of this one and no other. `uuid`: the card's own name,
    `GPU-...`, if it is known; it stays the same when another card is lost. A name that the user gave is kept."""
    listed = entries(variable)
    entry = str(index) if listed is None else listed[index]
    return entry if entry.startswith(_NAMES) or not uuid else uuid


def hidden_in_words(variable: str | None) -> str:
    """Returns words about a setting that hides cards; empty if none does."""
    if variable is None:
        return ""
    return f", with {VARIABLE}={variable}" if variable else f", {VARIABLE} is empty, which hides all"
