"""Reads and writes status.json, in which a run's supervisor publishes its state (`pool runs`, `pool status`, user
code).

The file is written when the run has begun, whenever a process is restarted, and at the end. The file does not say
whether the run still goes on. A lock in the run folder does, which the kernel releases when the supervisor dies,
whatever the cause.
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
LONGEST = 1 << 20  # most bytes of a status.json that is read
BLOCK = 4096  # bytes of the smallest disk block, which a file has however short it is

State = Literal["running", "finished", "stopped", "crashed"]


@dataclass(frozen=True)
class Status:
    """Describes one life of a run, from a start of its supervisor to the supervisor's end."""

    started: float  # seconds since 1970
    restarts: int = 0  # restarts of processes, those in earlier lives of the run included
    ended: float | None = None
    exit_code: int | None = None  # None: the run goes on, or its supervisor was killed
    reason: str = ""  # the last lines for the user, if the run failed


_SCHEMA = TypeAdapter(Status)


def write_status(folder: Path, status: Status) -> None:
    """Writes status.json, by replacing the file.

    If the disk has no room for a second file, the old one is overwritten. If that fails too, the old file stays: a run
    does not end because of its status.
    """
    try:
        files.replace_file(folder / STATUS, _encoded(status))
    except OSError as error:
        if error.errno in SPACE_ERRORS:
            with suppress(OSError):
                _overwrite(folder / STATUS, status)


def _encoded(status: Status) -> bytes:
    return json.dumps(asdict(status), indent=1).encode()


def _overwrite(path: Path, status: Status) -> None:
    """Writes a status over the old file, within the one disk block that the file has already. Raises OSError."""
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
    """Reads status.json. Returns None if there is none, or none that this version of sparsepool can read."""
    try:
        return _SCHEMA.validate_json(files.read_all(folder / STATUS, LONGEST))
    except (OSError, ValueError):
        return None


def goes_on(folder: Path) -> bool:
    """Tells whether a supervisor holds the lock of a run folder. Raises OSError if the lock can't be tested."""
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
    """Returns how a run has ended that goes on no more. `all_steps`: there is a checkpoint of the last step."""
    if status is None or status.exit_code is None:  # the supervisor was killed, perhaps after the last step
        return "finished" if all_steps else "crashed"
    if status.exit_code == EXIT_DONE:
        return "finished"
    return "stopped" if was_stopped(status.exit_code, status.reason) else "crashed"


def was_stopped(exit_code: int, reason: str) -> bool:
    """Tells whether a run was stopped in order before its last step, by its exit code.

    The cause may be a signal, or another machine that was stopped or lost. The latter is no failure here and has no
    reason.
    """
    return exit_code > EXIT_SIGNALLED or (exit_code == EXIT_CRASH_LOOP and not reason)
