"""When it is time to say all again (I5): by the clock, whatever else is being said.

Silence is no sign to wait for: where several speak in turn there is none, and the one lost message stays lost.
"""

from __future__ import annotations

import time

SAY_AGAIN_SECONDS = 0.5
SAY_AGAIN_MS = int(1000 * SAY_AGAIN_SECONDS)  # for a poller: so long it may sleep


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
