"""The token in the page's address, and the names of hosts that may show it."""

from __future__ import annotations

import re
import secrets
from pathlib import Path

from pool.config.secret_file import read_secret, write_secret
from pool.errors import ConfigError

_TOKEN = re.compile(r"[A-Za-z0-9._~-]{16,200}")  # letters that mean nothing in an address
_NAME = re.compile(r"[\w-]+(\.[\w-]+)*", re.ASCII)


def token_in(path: Path) -> str:
    """Returns the token in a file, which is made with a new one if it is not there. Raises ConfigError."""
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
    """Returns a host's name. Raises ConfigError for what is none, such as an address with a port."""
    if _NAME.fullmatch(name) is None:
        raise ConfigError(f"--allow-host: {name}; the name of a host is expected, without port and path")
    return name


def _read_or_make(path: Path) -> str:
    """Raises OSError, ConfigError."""
    try:
        return read_secret(path, "--token-file", 200)
    except FileNotFoundError:
        token = secrets.token_urlsafe(24)
        write_secret(path, token)
        return token
