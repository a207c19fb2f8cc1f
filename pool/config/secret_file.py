"""Reads and writes files that contain a secret, which nobody but their owner may read."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from loader.files.regular import open_regular
from pool.errors import ConfigError


def write_secret(path: Path, text: str) -> None:
    """Creates a file with a line of text that only its owner can read. Raises FileExistsError, OSError."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(f"{text}\n")


def read_secret(path: Path, option: str, max_length: int) -> str:
    """Returns the text of a file, without surrounding spaces.

    Of a text longer than `max_length` characters more than `max_length` are returned, so that the caller notices.
    Raises OSError. Raises ConfigError, with the name of the `option`, if the file belongs to another user or others may
    read it.
    """
    with os.fdopen(open_regular(path), encoding="ascii", errors="replace") as file:
        status = os.fstat(file.fileno())
        text = file.read(max_length + 2).strip()
    if status.st_uid not in (os.geteuid(), 0):
        raise ConfigError(f"{option}: {path} belongs to another user")
    forbidden = stat.S_IRWXG | stat.S_IRWXO
    if status.st_uid != os.geteuid():  # a file of root may be read by a group
        forbidden = stat.S_IRWXO
    if status.st_mode & forbidden:
        raise ConfigError(f"{option}: {path} may be read by others than its owner: chmod 600 {path}")
    return text
