"""The fingerprint of a run: everything that its bits depend on, as text by name; differences are told in one line.

`pool.numerics` finds it out. How many workers there are and which devices of one kind they use is no part of
it (I2). Free of torch: the supervisor compares at a resume.
"""

from __future__ import annotations

from collections.abc import Mapping

Fingerprint = Mapping[str, str]
UNKNOWN = "not known"
LAYOUT = ("buckets", "optimizer")  # what the state of a checkpoint is made for
IMPLEMENTATION = ("foreach", "fused", "capturable", "differentiable", "maximize")  # optimizer's: they choose the code


def differences(then: Fingerprint, now: Fingerprint) -> str:
    """Each entry that differs with both values; empty if none does."""
    keys = [key for key in {**now, **then} if then.get(key, UNKNOWN) != now.get(key, UNKNOWN)]
    return "; ".join(f"{key}: {now.get(key, UNKNOWN)} now, {then.get(key, UNKNOWN)} then" for key in keys)
