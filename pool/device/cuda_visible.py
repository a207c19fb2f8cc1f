"""Which cards a process sees: CUDA_VISIBLE_DEVICES for one of those that the user's own setting shows. Pure.

Each worker sees its own card alone, so nothing that it or a library does can land on another, and a library that opens
all cards it sees takes no memory there. The rules are the driver's: the list ends at the first entry that names no
card, and shows nothing if an entry comes twice.
"""

from __future__ import annotations

import re

VARIABLE = "CUDA_VISIBLE_DEVICES"
_NUMBER = re.compile(r"\s*\+?(\d+)")
_NAMES = ("GPU-", "MIG-")


def entries(variable: str | None) -> tuple[str, ...] | None:
    """Of the variable's value, those that count, in order: numbers, or names (`GPU-...`, `MIG-...`). None: it hides
    nothing."""
    if variable is None:
        return None
    kind = next((name for name in _NAMES if variable.startswith(name)), "")
    found: list[str] = []
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
        if name in found:
            return ()
        found.append(name)
    return tuple(found)


def alone(variable: str | None, index: int, uuid: str = "") -> str:
    """The value with which a process sees device `index` of this one and no other. `uuid`: the card's own name,
    `GPU-...`, if it is known; it stays the same when another card is lost. A name that the user gave is kept."""
    listed = entries(variable)
    entry = str(index) if listed is None else listed[index]
    return entry if entry.startswith(_NAMES) or not uuid else uuid


def said(variable: str | None) -> str:
    """Words about a setting that hides cards; empty if none does."""
    if variable is None:
        return ""
    return f", with {VARIABLE}={variable}" if variable else f", {VARIABLE} is empty, which hides all"
