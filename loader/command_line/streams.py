"""Standard input, output and error that are closed, or whose other end is; and how wide a terminal is said to be."""

from __future__ import annotations

import contextlib
import os
import re
import sys

_SIZES = ("COLUMNS", "LINES", "TERMINAL_WIDTH")  # rich, shutil and typer read them, each with rules of its own
_SIZE = re.compile(r"0*[1-9][0-9]{0,4}", re.ASCII)


def open_closed_streams() -> None:
    """Puts the null device where the caller has closed a standard stream, so that no other file takes its number."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(fd, True)
    os.close(fd)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 (lives as long as we)


def forget_impossible_sizes() -> None:
    """Takes what is no width or height (0, below, no number) out of the environment: the terminal's own counts then,
    and 80 columns where there is none. Rich would hide every line of width 0."""
    for name in _SIZES:
        if not _SIZE.fullmatch(os.environ.get(name, "1")):
            del os.environ[name]


def stdout_fails() -> bool:
    """Tells whether what is buffered for standard output can't be written. An unbuffered one (PYTHONUNBUFFERED) does
    not tell."""
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
