"""The timer on which state is resent (I5).

With several senders the line is never idle, so waiting for silence would leave a lost message lost.
"""

from __future__ import annotations

import time

SAY_AGAIN_SECONDS = 0.5
SAY_AGAIN_MS = int(1000 * SAY_AGAIN_SECONDS)  # a poller's longest wait


class SayAgain:
    def __init__(self) -> None:
        self._next = time.monotonic() + SAY_AGAIN_SECONDS

    def due(self) -> bool:
        """True once in SAY_AGAIN_SECONDS."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + SAY_AGAIN_SECONDS
        return True
