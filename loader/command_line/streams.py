"""Repairs standard input, output and error where they are closed or nobody reads them, and sizes of a terminal that
can't be."""

from __future__ import annotations

import contextlib
import os
import re
import sys

_SIZES = ("COLUMNS", "LINES", "TERMINAL_WIDTH")  # rich, shutil and typer read them, each with rules of its own
_SIZE = re.compile(r"0*[1-9][0-9]{0,4}", re.ASCII)


def open_closed_streams() -> None:
    """Opens the null device in place of standard streams that the caller has closed, so that no other file takes their
    numbers."""
    descriptor = os.open(os.devnull, os.O_RDWR)
    while descriptor <= 2:  # the lowest free number: one that the caller has closed
        os.set_inheritable(descriptor, True)
        descriptor = os.open(os.devnull, os.O_RDWR)
    os.close(descriptor)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 (lives as long as we)


def remove_invalid_terminal_sizes() -> None:
    """Removes impossible widths and heights of a terminal (0, negative, no number) from the environment. The terminal's
    own size counts then, and 80 columns without one. Rich would hide every line of width 0."""
    for name in _SIZES:
        if not _SIZE.fullmatch(os.environ.get(name, "1")):
            del os.environ[name]


def is_stdout_broken() -> bool:
    """Returns whether the buffer of standard output can't be written. Unbuffered output (PYTHONUNBUFFERED) can't be
    checked."""
    try:
        sys.stdout.flush()
    except OSError:
        return True
    return False


def discard_stdout() -> None:
    """Redirects standard output, with the bytes that are still buffered, to the null device, so that no later flush
    fails."""
    with contextlib.suppress(OSError, ValueError):
        stdout = sys.stdout.fileno()
        null_device = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null_device, stdout)
        os.close(null_device)
