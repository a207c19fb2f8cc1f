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
    """Of all processes. Times are seconds of one monotonic clock."""

    def __init__(self, timeout: float, start_timeout: float, poll_interval: float) -> None:
        """`timeout`: of one that has said hello; `start_timeout`: of one that has not."""
        self._timeout = timeout
        self._start_timeout = start_timeout
        self._poll_interval = poll_interval
        self._started: dict[Peer, float] = {}  # those that have not said hello yet
        self._heard: dict[Peer, float] = {}
        self._still_since: dict[Peer, float] = {}
        self._last_look: float | None = None

    def start(self, peer: Peer, now: float) -> None:
        """A process is started; its first beat says that it is ready."""
        self._started[peer] = now

    def beat(self, peer: Peer, still: float, now: float) -> None:
        """A process speaks; its loop has not moved for `still` seconds."""
        self._started.pop(peer, None)
        self._heard[peer] = now
        self._still_since[peer] = now - still

    def forget(self, peer: Peer) -> None:
        """A process is dead, or as good as dead."""
        for times in (self._started, self._heard, self._still_since):
            times.pop(peer, None)

    def stuck(self, now: float) -> list[Stuck]:
        """Whom to kill. Time in which we ourselves did not run (a stopped or suspended machine) counts for nobody."""
        lost = 0.0 if self._last_look is None else max(0.0, now - self._last_look - 2 * self._poll_interval)
        self._last_look = now
        for times in (self._started, self._heard, self._still_since):
            for peer in times:
                times[peer] += lost
        late = [
            Stuck(peer, f"did not get ready within {self._start_timeout:g} s (pool.start_timeout)")
            for peer, started in sorted(self._started.items())
            if now - started > self._start_timeout
        ]
        return late + [Stuck(peer, why) for peer in sorted(self._heard) if (why := self._why_stuck(peer, now))]

    def _why_stuck(self, peer: Peer, now: float) -> str:
        silent, still = now - self._heard[peer], now - self._still_since[peer]
        if silent > self._timeout:
            return f"was silent for {silent:.1f} s (pool.hang_timeout)"
        if still > self._timeout:
            return f"has not moved for {still:.1f} s (pool.hang_timeout)"
        return ""
