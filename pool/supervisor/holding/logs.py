"""The logs of a run's processes, logs/ROLE-N.log. One that can't be opened is no reason to end a run."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from pool.run_dir import make_folder, open_file

log = logging.getLogger(__name__)


def open_log(path: Path) -> int:
    """A descriptor for a process's output; of nothing at all if the log can't be opened."""
    try:
        make_folder(path.parent)
        return open_file(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    except OSError as error:
        log.warning("%s can't be written: %s", path, error.strerror)
        return os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)


def log_into(logs: Path) -> None:
    """The supervisor's own lines."""
    output = os.fdopen(open_log(logs / "supervisor-0.log"), "a", encoding="utf-8")
    logging.basicConfig(level=logging.INFO, stream=output, format="%(asctime)s %(levelname)s %(message)s", force=True)
