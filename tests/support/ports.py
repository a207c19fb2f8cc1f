"""Ports of this machine."""

from __future__ import annotations

import socket


def free_port() -> int:
    """One that nothing listens at."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])
