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
LAYOUT = ("buckets", "optimizer")  # what the state of a checkpoint is made for
_OWN_VERSION = re.compile(r" \(sparsepool [^()]*\)")
IMPLEMENTATION = ("foreach", "fused", "capturable", "differentiable", "maximize")  # optimizer's: they choose the code


def differing_keys(then: Fingerprint, now: Fingerprint) -> list[str]:
    """Returns the names of the entries that differ. The version of sparsepool, which older builds wrote behind its
    optimizers, is none: it says nothing of their numbers."""
    return [key for key in {**now, **then} if _without_version(then, key) != _without_version(now, key)]


def _without_version(fingerprint: Fingerprint, key: str) -> str:
    return _OWN_VERSION.sub("", fingerprint.get(key, UNKNOWN))


def differences(then: Fingerprint, now: Fingerprint) -> str:
    """Each entry that differs with both values; empty if none does."""
    keys = differing_keys(then, now)
    return "; ".join(f"{key}: {now.get(key, UNKNOWN)} now, {then.get(key, UNKNOWN)} then" for key in keys)
