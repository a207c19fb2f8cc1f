"""Opens and shortens the logs of a run's processes, logs/ROLE-N.log, and of its programs.

A log that can't be opened does not end the run.
"""

from __future__ import annotations

import contextlib
import logging
import os
from pathlib import Path

from pool.run_folder.access import make_folder, open_file

log = logging.getLogger(__name__)

KEPT = 1 << 20  # bytes of a log that remain when it is shortened
LINE = "%(asctime)s %(levelname)s %(message)s"  # format of a line in the supervisor's log


def open_log(path: Path) -> int:
    """Opens a log for a process's output. Returns its descriptor, or that of /dev/null if the log can't be opened."""
    try:
        make_folder(path.parent)
        return open_file(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    except OSError as error:
        log.warning("%s can't be written: %s", path, error.strerror)
        return os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)


def shorten_log(fd: int) -> int:
    """Shortens a log that has grown to twice KEPT bytes, to its last lines of about KEPT bytes. Returns how many bytes
    were cut off.

    The log's program may append to it (O_APPEND) meanwhile. What it writes in the instant between the last look at the
    log and the cut is lost, nothing else. A disk that gives errors leaves the log as it is, or shorter.
    """
    with contextlib.suppress(OSError):
        size = os.fstat(fd).st_size
        if size <= 2 * KEPT:
            return 0
        kept = os.pread(fd, KEPT, size - KEPT)
        kept = kept[kept.find(b"\n") + 1 :]
        since = os.pread(fd, KEPT, size)
        os.ftruncate(fd, 0)
        os.write(fd, kept + since)
        return size - len(kept)
    return 0


def log_to_folder(logs: Path) -> None:
    """Sends the supervisor's own log lines to its log in the folder `logs`."""
    output = os.fdopen(open_log(logs / "supervisor-0.log"), "a", encoding="utf-8")
    logging.basicConfig(level=logging.INFO, stream=output, format=LINE, force=True)
