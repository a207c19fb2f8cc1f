"""Reads or makes the token of the page's address, and checks host names that may show the page."""

from __future__ import annotations

import re
import secrets
from pathlib import Path

from pool.config.secret_file import read_secret, write_secret
from pool.errors import ConfigError

_TOKEN = re.compile(r"[A-Za-z0-9._~-]{16,200}")  # characters without a meaning in an address
_NAME = re.compile(r"[\w-]+(\.[\w-]+)*", re.ASCII)


def read_token(path: Path) -> str:
    """Returns the token in a file. A file that does not exist is written with a new token. Raises ConfigError."""
    try:
        token = _read_or_make(path)
    except OSError as error:
        raise ConfigError(f"--token-file: {path}: {error.strerror}") from None
    if _TOKEN.fullmatch(token) is None:
        raise ConfigError(
            f"--token-file: {path} holds no token: 16 to 200 letters, digits and -._~ in a line; remove it, and it is "
            "made anew"
        )
    return token


def check_name(name: str) -> str:
    """Checks that `name` is a host's name, without port and path, and returns it. Raises ConfigError."""
    if _NAME.fullmatch(name) is None:
        raise ConfigError(f"--allow-host: {name}; the name of a host is expected, without port and path")
    return name


def _read_or_make(path: Path) -> str:
    """Returns the text of the file, or writes a new token to it if it does not exist. Raises OSError or ConfigError."""
    try:
        return read_secret(path, "--token-file", 200)
    except FileNotFoundError:
        token = secrets.token_urlsafe(24)
        write_secret(path, token)
        return token
