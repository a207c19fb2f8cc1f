"""Provides the timer by which processes resend their state (I5).

The timer does not wait for silence. With several senders a connection is never silent, so a lost message would stay
lost.
"""

from __future__ import annotations

import time

RESEND_SECONDS = 0.5
RESEND_MS = int(1000 * RESEND_SECONDS)  # a poller's longest wait


class ResendTimer:
    """Tells every RESEND_SECONDS that the state is to be sent again."""

    def __init__(self) -> None:
        self._next = time.monotonic() + RESEND_SECONDS

    def due(self) -> bool:
        """Returns True once in RESEND_SECONDS."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + RESEND_SECONDS
        return True
