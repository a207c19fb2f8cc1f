"""Calls prctl(2), for which Python has no function."""

from __future__ import annotations

import ctypes
import os
import signal

_SET_PDEATHSIG = 1
_SET_NAME = 15
_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None, use_errno=True)


def die_with_parent(number: signal.Signals = signal.SIGKILL) -> None:
    """Has the kernel send this process a signal when its parent dies, or the parent's thread that started it. Raises
    OSError.

    Nothing is sent if the parent is dead already.
    """
    _prctl(_SET_PDEATHSIG, number)


def adopt_orphans(*, wanted: bool = True) -> None:
    """Makes this process the new parent of its descendants whose own parent dies, or ends that (`wanted`). Raises
    OSError."""
    _prctl(_SET_CHILD_SUBREAPER, int(wanted))


def set_process_name(name: str) -> None:
    """Sets the name that `top` and `ps -o comm` show for this process: the first 15 bytes of `name`. Raises OSError."""
    _prctl(_SET_NAME, name.encode())


def _prctl(option: int, argument: int | bytes) -> None:
    """Calls prctl with one argument. Raises OSError."""
    value = argument if isinstance(argument, bytes) else ctypes.c_ulong(argument)
    if _LIBC.prctl(option, value, ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option}: {os.strerror(ctypes.get_errno())}")
