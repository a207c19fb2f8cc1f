"""Checks the numbers of a saved optimizer or schedule against those of a newly made one, before they are restored.

Wrong kinds of values would otherwise fail, or go unnoticed, in the optimizer's steps, which check nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pool.run_folder.strict_json import printable

_PER_GROUP = ("base_lrs", "_last_lr")  # entries of a schedule with a value for each parameter group


def check_group(own: Mapping[str, Any], saved: Mapping[str, Any]) -> None:
    """Raises ValueError, with the entry's name, if a saved parameter group does not match `own`, that of a new
    optimizer.

    `saved` must have all entries of `own`, with values of the same kinds.
    """
    if missing := own.keys() - saved.keys():
        raise ValueError(f"it has no {min(missing)}")
    for key, value in own.items():
        if key == "params":
            continue
        if not _has_same_kind(value, saved[key]) or (isinstance(value, tuple | list) and len(value) != len(saved[key])):
            raise ValueError(f"{key} is {printable(repr(saved[key]))}, where {printable(repr(value))} is usual")
    rate = saved.get("lr", 0.0)
    if not (isinstance(rate, int | float) and math.isfinite(rate) and rate >= 0):
        raise ValueError(f"lr is {printable(repr(rate))}")


def check_entries(own: Mapping[str, Any], saved: Mapping[str, Any]) -> None:
    """Checks entries that an optimizer's class adds to its state_dict. Raises ValueError, with the entry's name.

    `saved` must have the entries of `own`, those of a new optimizer, with values of the same kinds.
    """
    if own.keys() != saved.keys():
        raise ValueError(f"its entries are {printable(', '.join(saved))}, where {', '.join(own)} are usual")
    for key, value in own.items():
        if not _has_same_kind(value, saved[key]):
            raise ValueError(f"{key} is {printable(repr(saved[key]))}, where {printable(repr(value))} is usual")


def check_schedule(own: Mapping[str, Any], saved: Mapping[str, Any]) -> None:
    """Raises ValueError, with the entry's name, if the saved state of a schedule does not match `own`, that of a
    new one."""
    for key, value in saved.items():
        if key in own and not _has_same_kind(own[key], value):
            raise ValueError(
                f"{key} of the schedule is {printable(repr(value))}, where {printable(repr(own[key]))} is usual"
            )
        if key in own and key in _PER_GROUP and len(own[key]) != len(value):
            raise ValueError(f"{key} of the schedule has {len(value)} entries, not {len(own[key])}")
    position = saved.get("last_epoch", 0)
    if type(position) is int and position < 0:
        raise ValueError(f"last_epoch of the schedule is {position}")


def _has_same_kind(own: Any, saved: Any) -> bool:
    """Returns whether a saved value is of the same kind (number, text, list, table) as the value in a new object.

    A bool may have become None (foreach, fused), and what is None in a new object may have become anything.
    """
    if own is None:
        return True
    if isinstance(own, bool):
        return saved is None or isinstance(saved, bool)
    if isinstance(own, int | float):
        return isinstance(saved, int | float) and not isinstance(saved, bool)
    if isinstance(own, str):
        return isinstance(saved, str)
    if isinstance(own, tuple | list):
        return isinstance(saved, tuple | list) and (not own or all(_has_same_kind(own[0], value) for value in saved))
    if isinstance(own, Mapping):
        example = next(iter(own.values()), None)  # for entries that change their keys, such as milestones
        return isinstance(saved, Mapping) and all(
            _has_same_kind(own.get(key, example), value) for key, value in saved.items()
        )
    return True
