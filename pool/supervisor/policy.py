"""What to do about a death. Pure: facts in, a decision and a sentence that says why out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from pool.protocol.identity import Peer


@dataclass(frozen=True)
class Decision:
    restart: bool
    why: str


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

    def died(self, peer: Peer, *, was_ready: bool) -> Decision:
        """A process is dead that was not told to end."""
        if not was_ready:
            return Decision(False, "it never got ready")
        self._deaths[peer.place] += 1
        if self._deaths[peer.place] > self.budget:
            return Decision(False, f"it died {self._deaths[peer.place]} times without a step done")
        return Decision(True, f"restarted (death {self._deaths[peer.place]} of {self.budget} without a step done)")
