"""Standard input, output and error that are closed, or whose other end is."""

from __future__ import annotations

import contextlib
import os
import sys


def open_closed_streams() -> None:
    """Puts the null device where the caller has closed a standard stream, so that no other file takes its number."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(fd, True)
    os.close(fd)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 (lives as long as we)


def stdout_fails() -> bool:
    """Whether what is buffered for it can't be written. An unbuffered one (PYTHONUNBUFFERED) does not tell."""
    try:
        sys.stdout.flush()
    except OSError:
        return True
    return False


def give_up_stdout() -> None:
    """Sends to the null device what is still buffered and what will be written, so that nothing complains later."""
    with contextlib.suppress(OSError, ValueError):
        fd = sys.stdout.fileno()
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, fd)
        os.close(null)
