"""Describes the exception that ends a process, in one line for the user, with the place in the user's own code.

A dying process sends this line as a `Failure` through its lifeline (socket to the supervisor). Free of torch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pydantic import TypeAdapter

from loader.errors import DataError
from loader.exit_codes import EXIT_DATA, EXIT_FAILED
from loader.plugins.error_text import (
    MAX_REASON_LENGTH,
    error_location,
    error_message,
    format_error_with_location,
    shorten,
)
from pool.errors import LostDeviceError, PoolError
from pool.process.document import to_json

_SEGMENTATION_FAULT = "Fatal Python error: Segmentation fault"
_THREAD = re.compile(r"^(Current thread|Thread) [^\n]*\n((?:  File [^\n]*\n?)+)", re.MULTILINE)
_FRAME = re.compile(r'^  File "(.*)", line (\d+) in (\S+)$', re.MULTILINE)


@dataclass(frozen=True)
class Failure:
    """Holds the reason that a process gives the supervisor when an exception ends it."""

    reason: str  # one line for the user
    exit_code: int  # exit code of the run, if the failure ends it
    started: bool  # the process had got ready before
    signature: str = ""  # type and place of an exception; empty: the same error would come after a restart
    lost: tuple[str, ...] = ()  # the device that can't be used any more, or several of which one can't
    of_worker: bool = False  # the worker failed that runs in the coordinator's process

    def to_bytes(self) -> bytes:
        """Encodes the failure as JSON."""
        return to_json(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Failure | None:
        """Decodes a failure. Returns None for any other bytes, which the user's code could have written to the
        socket."""
        try:
            return _FAILURE.validate_json(data, strict=True)
        except ValueError:
            return None


_FAILURE = TypeAdapter(Failure)


def describe_failure(error: BaseException, *, started: bool) -> Failure:
    """Describes an exception that ends a process. `started`: whether the process had got ready.

    A PoolError or DataError is for the user to mend, so it has no signature. Any other exception may not come again
    after a restart. Its signature is its type and place, to be compared with that of the next exception.
    """
    if isinstance(error, PoolError | DataError):
        code = error.exit_code if isinstance(error, PoolError) else EXIT_DATA
        reason = shorten(error_message(error), MAX_REASON_LENGTH)
        return Failure(reason, code, started, lost=error.suspects if isinstance(error, LostDeviceError) else ())
    return Failure(
        format_error_with_location(error), EXIT_FAILED, started, f"{type(error).__name__} {error_location(error)}"
    )


def find_crash_line(log: str) -> str:
    """Finds the line of Python code that was running when a SIGSEGV struck a process.

    `log`: text in which Python's faulthandler has written the stack of every thread. Returns function, file and line of
    the innermost frame outside torch, or an empty string if there is none.

    One of torch's own threads may be struck, which runs no Python. Then no thread is marked as the current one, and the
    main thread counts, which comes last in the text and waits for torch's thread. If two threads are struck at once,
    the process may die before anything is written.
    """
    if _SEGMENTATION_FAULT not in log:
        return ""
    stacks = _THREAD.findall(log)
    current_stacks = [frames for thread, frames in stacks if thread == "Current thread"]
    if current_stacks:
        frames = current_stacks[-1]
    elif stacks:
        _, frames = stacks[-1]
    else:
        return ""
    for file, line, function in _FRAME.findall(frames):
        if "/torch/" not in file:
            return f"{function} ({file}:{line})"
    return ""
