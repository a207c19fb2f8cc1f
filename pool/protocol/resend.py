"""Provides the timer by which processes resend their state (I5).

The timer does not wait for silence. With several senders a connection is never silent, so a lost message would stay
lost.
"""

from __future__ import annotations

import time

SAY_AGAIN_SECONDS = 0.5
SAY_AGAIN_MS = int(1000 * SAY_AGAIN_SECONDS)  # a poller's longest wait


class SayAgain:
    """Tells every SAY_AGAIN_SECONDS that the state is to be sent again."""

    def __init__(self) -> None:
        self._next = time.monotonic() + SAY_AGAIN_SECONDS

    def due(self) -> bool:
        """Returns True once in SAY_AGAIN_SECONDS."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + SAY_AGAIN_SECONDS
        return True
