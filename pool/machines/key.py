"""Makes and reads the key of a run on several machines, which authenticates and encrypts their messages.

The key is the secret half of a CURVE key pair (https://rfc.zeromq.org/spec/26/). All machines have the same key. Each
proves to the others that it has it, so a stranger can neither take part nor read a message.
"""

from __future__ import annotations

from pathlib import Path

import zmq

from pool.config.secret_file import read_secret, write_secret
from pool.errors import ConfigError

LENGTH = 40  # characters of Z85


def write_key(path: Path) -> None:
    """Writes a new key to a file that only its owner can read. Raises ConfigError if the file exists or can't be
    written."""
    if not zmq.has("curve"):
        raise ConfigError("this libzmq was built without CURVE: install pyzmq's own wheel")
    _, secret = zmq.curve_keypair()
    try:
        write_secret(path, secret.decode())
    except FileExistsError:
        raise ConfigError(f"{path}: is there already; remove it to make another key") from None
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None


def read_key(path: Path) -> str:
    """Reads the key from a file. Raises ConfigError if the file does not exist, belongs to another user, can be read by
    others, or holds no key."""
    try:
        text = read_secret(path, "--key", LENGTH)
    except OSError as error:
        raise ConfigError(f"--key: {path}: {error.strerror}; make one with pool machines --new-key {path}") from None
    try:
        if len(text) != LENGTH:
            raise ValueError
        zmq.curve_public(text.encode())
    except (ValueError, zmq.ZMQError):
        raise ConfigError(f"--key: {path} holds no key; make one with pool machines --new-key {path}") from None
    return text
