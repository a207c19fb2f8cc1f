"""The fingerprint of a run: everything that its bits depend on, as text by name.

`pool.numerics` collects the entries. This module compares two fingerprints and describes their differences in one
line. The number of workers, and which devices of one kind they use, are no part of a fingerprint (invariant I2).
Free of torch, because the supervisor compares fingerprints at a resume.
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
LAYOUT = ("buckets", "optimizer")  # entries that the state of a checkpoint must match
_OWN_VERSION = re.compile(r" \(sparsepool [^()]*\)")
IMPLEMENTATION = ("foreach", "fused", "capturable", "differentiable", "maximize")  # arguments that choose the code
# separates the parts of an entry that is a list
_SEPARATORS = {
    "environment": re.compile(r" (?=[A-Z][A-Z0-9_]*=)"),
    DEVICES: re.compile("; "),
    NATIVE_CODE: re.compile(" "),
    CONSTANTS: re.compile(", "),
    ARITHMETIC: re.compile(", "),
}


def differing_keys(then: Fingerprint, now: Fingerprint) -> list[str]:
    """Returns the names of the entries in which two fingerprints differ.

    Older builds added the version of sparsepool to the name of its optimizers. Such a version is ignored, because it
    does not tell whether the optimizer's results changed.
    """
    return [key for key in {**now, **then} if _without_version(then, key) != _without_version(now, key)]


def _without_version(fingerprint: Fingerprint, key: str) -> str:
    return _OWN_VERSION.sub("", fingerprint.get(key, UNKNOWN))


def differences(then: Fingerprint, now: Fingerprint) -> str:
    """Describes each entry in which two fingerprints differ, with the values now and then. Returns "" if none differs.

    Of an entry that lists several things only the parts that differ are named.
    """
    lines = []
    for key in differing_keys(then, now):
        new, old = now.get(key, UNKNOWN), then.get(key, UNKNOWN)
        lines.append(f"{key}: {own_parts(key, new, old)} now, {own_parts(key, old, new)} then")
    return "; ".join(lines)


def own_parts(key: str, value: str, other: str) -> str:
    """Returns the parts of an entry's `value` that are missing in `other`, separated by commas; "nothing" if there are
    none.

    Returns the whole value if the entry `key` is not a list, or if one of the values is not known.
    """
    separator = _SEPARATORS.get(key)
    if separator is None or UNKNOWN in (value, other):
        return value
    other_parts = separator.split(other)
    missing = [part for part in separator.split(value) if part and part not in other_parts]
    return ", ".join(missing) if missing else "nothing"
