"""Calls of prctl(2), which Python does not have."""

from __future__ import annotations

import ctypes
import os
import signal

_SET_PDEATHSIG = 1
_SET_NAME = 15
_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None, use_errno=True)


def die_with_parent(number: signal.Signals = signal.SIGKILL) -> None:
    """A signal when the parent dies, or the thread of it that started this process; says nothing of one that is dead
    already. Raises OSError."""
    _prctl(_SET_PDEATHSIG, number)


def adopt_orphans(*, wanted: bool = True) -> None:
    """Orphans among this process's descendants become its children, or no longer. Raises OSError."""
    _prctl(_SET_CHILD_SUBREAPER, int(wanted))


def show_as(name: str) -> None:
    """Sets the name that `top` and `ps -o comm` show for this process: the first 15 bytes of `name`. Raises OSError."""
    _prctl(_SET_NAME, name.encode())


def _prctl(option: int, argument: int | bytes) -> None:
    value = argument if isinstance(argument, bytes) else ctypes.c_ulong(argument)
    if _LIBC.prctl(option, value, ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option}: {os.strerror(ctypes.get_errno())}")
