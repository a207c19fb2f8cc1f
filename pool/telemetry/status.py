"""status.json: what the supervisor of a run says of it to others (`pool runs`, `pool status`, code of the user's).

Written when the run has begun, whenever a process is restarted, and at the end. Whether the run goes on the lock of its
folder says, which the kernel releases when the supervisor dies, whatever it dies of.
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

from loader.errors import SPACE_ERRORS
from loader.exit_codes import EXIT_CRASH_LOOP, EXIT_DONE, EXIT_SIGNALLED
from pool.run_folder import files
from pool.run_folder.access import open_file

STATUS = "status.json"
LOCK = "lock"
LONGEST = 1 << 20  # bytes
BLOCK = 4096  # bytes that a file has on any disk, however short it is

State = Literal["running", "finished", "stopped", "crashed"]


@dataclass(frozen=True)
class Status:
    """One life of a run: from a start of its supervisor to the supervisor's end."""

    started: float  # seconds since 1970
    restarts: int = 0  # of the run's processes, in its earlier lives, too
    ended: float | None = None
    exit_code: int | None = None  # None: it goes on, or it was killed
    reason: str = ""  # the lines that it ended with, if it failed


_SCHEMA = TypeAdapter(Status)


def write_status(folder: Path, status: Status) -> None:
    """Writes the file anew; where there is no room for a second one, over the old one. Keeps it as it is if that can't
    be written either: a run does not end for it."""
    try:
        files.replace_file(folder / STATUS, _encoded(status))
    except OSError as error:
        if error.errno in SPACE_ERRORS:
            with suppress(OSError):
                _overwrite(folder / STATUS, status)


def _encoded(status: Status) -> bytes:
    return json.dumps(asdict(status), indent=1).encode()


def _overwrite(path: Path, status: Status) -> None:
    """Writes into the block that the file has already. Raises OSError."""
    data = _encoded(status)
    if len(data) > BLOCK:
        data = _encoded(replace(status, reason=f"{status.reason[: BLOCK // 16]} ..."))  # a letter is 12 bytes at most
    fd = open_file(path, os.O_WRONLY)
    try:
        os.pwrite(fd, data, 0)
        os.ftruncate(fd, len(data))
    finally:
        os.close(fd)


def read_status(folder: Path) -> Status | None:
    """Returns None if no run has written it, or none of this version."""
    try:
        return _SCHEMA.validate_json(files.read_all(folder / STATUS, LONGEST))
    except (OSError, ValueError):
        return None


def goes_on(folder: Path) -> bool:
    """Returns whether a supervisor has the folder. Raises OSError if the lock may not be looked at."""
    try:
        fd = os.open(folder / LOCK, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def state_of(status: Status | None, *, all_steps: bool) -> State:
    """How a run has ended that does not go on; `all_steps`: a checkpoint has the last step."""
    if status is None or status.exit_code is None:  # killed, perhaps behind its last step
        return "finished" if all_steps else "crashed"
    if status.exit_code == EXIT_DONE:
        return "finished"
    return "stopped" if was_stopped(status.exit_code, status.reason) else "crashed"


def was_stopped(exit_code: int, reason: str) -> bool:
    """Tells whether a run has ended in order before its last step: by a signal, or as another machine was stopped or
    lost, which is no failure here and has no reason."""
    return exit_code > EXIT_SIGNALLED or (exit_code == EXIT_CRASH_LOOP and not reason)
