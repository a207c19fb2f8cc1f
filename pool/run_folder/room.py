"""Checks whether the disk of a run's folder is full."""

from __future__ import annotations

import os
from pathlib import Path

_LEAST = 64 << 10  # bytes; with less, writing a run's files may fail


def has_room(folder: Path) -> bool:
    """Returns whether a folder's file system has space and file names left for this user; True if that is not known."""
    try:
        there = os.statvfs(folder)
    except OSError:
        return True
    has_names = there.f_files == 0 or there.f_favail > 0  # some file systems do not count names
    return has_names and there.f_bavail * there.f_frsize >= _LEAST
