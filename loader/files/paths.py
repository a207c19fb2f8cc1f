"""Paths that a user has written, ~ for home included."""

from __future__ import annotations

from pathlib import Path


def expanded(text: str, key: str) -> Path:
    """The path `text`, as it would be in a shell. Raises ValueError that names `key`."""
    if "\0" in text:
        raise ValueError(f"{key}: {text!r}: a path has no NUL characters")
    try:
        path = Path(text).expanduser()
        path.exists()
    except RuntimeError:  # no such user, or one without a home
        raise ValueError(f"{key}: {text!r}: the home folder is not known") from None
    except OSError as error:  # a name that is too long, say
        raise ValueError(f"{key}: {text!r}: {error.strerror}") from None
    return path


def absolute(text: str, key: str) -> Path:
    """Returns the path from the root. Raises ValueError that names `key`, also if the current folder is gone."""
    path = expanded(text, key)
    try:
        return path.absolute()
    except OSError as error:
        raise ValueError(f"{key}: {text!r}: the current folder can't be found: {error.strerror}") from None
