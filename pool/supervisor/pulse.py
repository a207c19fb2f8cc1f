"""Who has stopped moving. Pure: beats and the time go in, the names of the stuck come out.

Silence only ever leads to a kill; what the silent one owned is given away when its death is seen (I4).
"""

from __future__ import annotations

from dataclasses import dataclass

from pool.protocol.identity import Peer


@dataclass(frozen=True)
class Stuck:
    peer: Peer
    why: str


class Pulse:
    """Of all processes that have said hello. Times are seconds of one monotonic clock."""

    def __init__(self, timeout: float, poll_interval: float) -> None:
        self._timeout = timeout
        self._poll_interval = poll_interval
        self._heard: dict[Peer, float] = {}
        self._still_since: dict[Peer, float] = {}
        self._last_look: float | None = None

    def beat(self, peer: Peer, still: float, now: float) -> None:
        """A process speaks; its loop has not moved for `still` seconds."""
        self._heard[peer] = now
        self._still_since[peer] = now - still

    def forget(self, peer: Peer) -> None:
        """A process is dead."""
        self._heard.pop(peer, None)
        self._still_since.pop(peer, None)

    def stuck(self, now: float) -> list[Stuck]:
        """Whom to kill. Time in which we ourselves did not run (a stopped or suspended machine) counts for nobody."""
        lost = 0.0 if self._last_look is None else max(0.0, now - self._last_look - 2 * self._poll_interval)
        self._last_look = now
        found = []
        for peer in sorted(self._heard):
            self._heard[peer] += lost
            self._still_since[peer] += lost
            if now - self._heard[peer] > self._timeout:
                found.append(Stuck(peer, f"silent for {now - self._heard[peer]:.1f} s"))
            elif now - self._still_since[peer] > self._timeout:
                found.append(Stuck(peer, f"has not moved for {now - self._still_since[peer]:.1f} s"))
        return found
