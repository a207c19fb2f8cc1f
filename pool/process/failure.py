"""Why a process ends by an exception: in one line for its user, with the place in the user's own code.

The line is what `Failure` carries from a dying process to the supervisor, through its lifeline. Free of torch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pydantic import TypeAdapter

from loader.errors import DataError
from loader.exit_codes import EXIT_DATA, EXIT_FAILED
from loader.plugins.error_text import LONGEST_REASON, error_line, place_of, shortened, text_of
from pool.errors import LostDeviceError, PoolError
from pool.process.document import to_json

_SEGMENTATION_FAULT = "Fatal Python error: Segmentation fault"
_THREAD = re.compile(r"^(Current thread|Thread) [^\n]*\n((?:  File [^\n]*\n?)+)", re.MULTILINE)
_FRAME = re.compile(r'^  File "(.*)", line (\d+) in (\S+)$', re.MULTILINE)


@dataclass(frozen=True)
class Failure:
    """The reason that a process gives when it ends."""

    reason: str  # one line
    exit_code: int  # of the run, if this ends it
    started: bool  # it had got ready
    signature: str = ""  # type and place of an exception; empty: a restart would certainly raise it again
    lost: tuple[str, ...] = ()  # the device that can't be used any more, or those that it may be
    of_worker: bool = False  # in the coordinator's process

    def to_bytes(self) -> bytes:
        return to_json(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Failure | None:
        """None for anything that is no failure: the user's code could reach the socket too."""
        try:
            return _FAILURE.validate_json(data, strict=True)
        except ValueError:
            return None


_FAILURE = TypeAdapter(Failure)


def failure_of(error: BaseException, *, started: bool) -> Failure:
    """A PoolError or DataError is for its user to mend; any other exception may not come again after a restart."""
    if isinstance(error, PoolError | DataError):
        code = error.exit_code if isinstance(error, PoolError) else EXIT_DATA
        reason = shortened(text_of(error), LONGEST_REASON)
        return Failure(reason, code, started, lost=error.suspects if isinstance(error, LostDeviceError) else ())
    return Failure(error_line(error), EXIT_FAILED, started, f"{type(error).__name__} {place_of(error)}")


def crash_place(log: str) -> str:
    """Returns the innermost line, torch's apart, that a process ran when a SIGSEGV struck it, from what Python's
    faulthandler has written; empty if there is none.

    One of torch's own threads may be struck, which runs no Python: then no thread is the current one, and the main
    thread, which comes last, waits for it. If two are struck at once, the process may die before anything is written.
    """
    dumps = _THREAD.findall(log) if _SEGMENTATION_FAULT in log else []
    current = [frames for thread, frames in dumps if thread == "Current thread"]
    frames = _FRAME.findall((current or [frames for _, frames in dumps])[-1]) if dumps else []
    place = next((frame for frame in frames if "/torch/" not in frame[0]), None)
    return "" if place is None else f"{place[2]} ({place[0]}:{place[1]})"
