"""Tells whether the disk of a run's folder takes anything more."""

from __future__ import annotations

import os
from pathlib import Path

_LEAST = 64 << 10  # bytes: with less no file of a run can be relied on to be written


def has_room(folder: Path) -> bool:
    """Tells whether the file system of a folder has blocks and names left for this user; True if that is not known."""
    try:
        there = os.statvfs(folder)
    except OSError:
        return True
    has_names = there.f_files == 0 or there.f_favail > 0  # some count no names
    return has_names and there.f_bavail * there.f_frsize >= _LEAST
