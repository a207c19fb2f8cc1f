"""Paths as a user writes them, with ~ for the home folder."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path


def expand_path(text: str, key: str) -> Path:
    """Returns the path `text`, with ~ replaced as in a shell. Raises ValueError that names `key`, the setting it comes
    from."""
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


def absolute_path(text: str, key: str) -> Path:
    """Returns the absolute path of `text`. Raises ValueError that names `key`, also if the current folder has been
    deleted."""
    path = expand_path(text, key)
    try:
        return path.absolute()
    except OSError as error:
        raise ValueError(f"{key}: {text!r}: the current folder can't be found: {error.strerror}") from None


class NoFileError(ValueError):
    """Raised if a pattern matches no file. The files may be created later."""


def find_files(patterns: Sequence[str], key: str) -> list[Path]:
    """Finds the files that the patterns (* and ?, ~ for home) name: in the order given, sorted within a pattern.

    Raises NoFileError that names `key` (the config key the patterns came from) if one matches nothing, ValueError if
    one matches a folder.
    """
    files: list[Path] = []
    for pattern in patterns:
        path = expand_path(pattern, key)
        # A name that exists is taken as it is, so that brackets in a file's name need no quoting.
        names = [str(path)] if path.exists() else sorted(glob.glob(str(path)))  # noqa: PTH207 (absolute patterns)
        matches = [Path(name) for name in names]
        if not matches:
            raise NoFileError(f"{key}: no file matches {pattern!r}")
        for match in matches:
            if match.is_dir():
                raise ValueError(f"{key}: {str(match)!r} is a folder; name the files in it, as '{match}/*'")
        files += matches
    return files
