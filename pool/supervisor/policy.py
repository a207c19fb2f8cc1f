"""What to do about a death. Pure: facts in, a decision and a sentence that says why out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from pool.protocol.identity import Peer

PAUSES = (0.0, 0.1, 0.5, 2.0, 5.0)  # seconds before the first, second, ... restart without a step done


@dataclass(frozen=True)
class Decision:
    restart: bool
    why: str
    pause: float = 0.0  # seconds to wait before it


@dataclass
class RestartPolicy:
    """A budget of deaths per place without progress; a step done makes it whole again."""

    budget: int
    _deaths: Counter[tuple[str, int]] = field(default_factory=Counter)
    _step: int = -1

    def progress(self, step: int) -> None:
        """The run has done `step` steps."""
        if step > self._step:
            self._step = step
            self._deaths.clear()

    def died(self, peer: Peer, *, can_start: bool, needed: bool = True) -> Decision:
        """A process is dead that was not told to end. One that gave up while starting would do so again.

        `needed`: the run can't go on without it now; if not, it is tried again however often that fails.
        """
        self._deaths[peer.place] += 1
        number = self._deaths[peer.place]
        pause = PAUSES[min(number, len(PAUSES)) - 1]
        if not needed and (number > self.budget or not can_start):
            return Decision(True, f"nobody waits for it: tried again in {PAUSES[-1]:g} s", PAUSES[-1])
        if not can_start:
            return Decision(False, "it never got ready")
        if number > self.budget:
            return Decision(False, f"it died {number} times without a step done (pool.restarts = {self.budget})")
        when = f"in {pause:g} s " if pause else ""
        return Decision(True, f"restarted {when}(death {number} of {self.budget} without a step done)", pause)
