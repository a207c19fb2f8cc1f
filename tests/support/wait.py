"""Waiting for a condition, never for a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 60) -> None:
    """Polls until the condition holds; fails after the deadline."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        pause.wait(0.005)
