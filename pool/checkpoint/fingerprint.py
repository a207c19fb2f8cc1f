"""The fingerprint of a run: everything that its bits depend on, as text by name; differences are told in one line.

`pool.numerics` finds it out. How many workers there are and which devices of one kind they use is no part of
it (I2). Free of torch: the supervisor compares at a resume.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

Fingerprint = Mapping[str, str]
UNKNOWN = "not known"
NATIVE_CODE = "native code"
DEVICES = "devices"
ARITHMETIC = "torch's settings"
CONSTANTS = "tensors besides the weights"
LAYOUT = ("buckets", "optimizer")  # what the state of a checkpoint is made for
_OWN_VERSION = re.compile(r" \(sparsepool [^()]*\)")
IMPLEMENTATION = ("foreach", "fused", "capturable", "differentiable", "maximize")  # optimizer's: they choose the code
# between the parts of an entry that lists several things
_SEPARATORS = {
    "environment": re.compile(r" (?=[A-Z][A-Z0-9_]*=)"),
    DEVICES: re.compile("; "),
    NATIVE_CODE: re.compile(" "),
    CONSTANTS: re.compile(", "),
    ARITHMETIC: re.compile(", "),
}


def differing_keys(then: Fingerprint, now: Fingerprint) -> list[str]:
    """Returns the names of the entries that differ. The version of sparsepool, which older builds wrote behind its
    optimizers, is none: it says nothing of their numbers."""
    return [key for key in {**now, **then} if _without_version(then, key) != _without_version(now, key)]


def _without_version(fingerprint: Fingerprint, key: str) -> str:
    return _OWN_VERSION.sub("", fingerprint.get(key, UNKNOWN))


def differences(then: Fingerprint, now: Fingerprint) -> str:
    """Describes each entry that differs, by the parts in which it does; empty if none does."""
    different = []
    for key in differing_keys(then, now):
        is_now, was = now.get(key, UNKNOWN), then.get(key, UNKNOWN)
        different.append(f"{key}: {own_parts(key, is_now, was)} now, {own_parts(key, was, is_now)} then")
    return "; ".join(different)


def own_parts(key: str, value: str, other: str) -> str:
    """Returns the parts of an entry's value that the other value does not have: the whole value, unless the entry lists
    several things."""
    separator = _SEPARATORS.get(key)
    if separator is None or UNKNOWN in (value, other):
        return value
    others = separator.split(other)
    own = [part for part in separator.split(value) if part and part not in others]
    return ", ".join(own) if own else "nothing"
