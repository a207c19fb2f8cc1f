"""Decides what follows a death. Pure: from facts to a decision, with a sentence that says why."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from loader.exit_codes import EXIT_CRASH_LOOP
from pool.process.failure import Failure
from pool.protocol.identity import Peer

PAUSES = (0.0, 0.1, 0.5, 2.0, 5.0)  # seconds before the first, second, ... restart without a step done


@dataclass(frozen=True)
class Decision:
    restart: bool
    why: str
    pause: float = 0.0  # seconds to wait before it
    exit_code: int = EXIT_CRASH_LOOP  # of the run, if there is none


@dataclass
class RestartPolicy:
    """A budget of deaths per place without progress; a step done makes it whole again."""

    budget: int
    _deaths: Counter[tuple[str, int]] = field(default_factory=Counter)
    _raised: dict[tuple[str, int], str] = field(default_factory=dict)  # signature of the newest exception, by place
    _step: int = -1

    def progress(self, step: int) -> None:
        """The run has done `step` steps."""
        if step > self._step:
            self._step = step
            self._deaths.clear()
            self._raised.clear()

    def died(
        self, peer: Peer, failure: Failure | None = None, *, batch: int | None = None, needed: bool = True
    ) -> Decision:
        """A process is dead that was not told to end.

        `failure`: the exception that ended it, if one did; `batch`: in which batch. The coordinator decides whether a
        batch can be computed and limits such deaths, so they don't count here.
        `needed`: the run can't go on without it now; if it can, the process is restarted without limit.
        """
        if failure is not None and failure.started and batch is not None:
            return Decision(True, "restarted; a batch that raises twice is not tried again")
        self._deaths[peer.place] += 1
        number = self._deaths[peer.place]
        pause = PAUSES[min(number, len(PAUSES)) - 1]
        if not needed and number > self.budget:
            return Decision(True, f"nobody waits for it: tried again in {PAUSES[-1]:g} s", PAUSES[-1])
        if failure is not None:
            if not failure.started:
                return Decision(False, "it never got ready", exit_code=failure.exit_code)
            if self._raised.get(peer.place) == failure.signature:
                return Decision(False, "the same exception ended it before", exit_code=failure.exit_code)
            self._raised[peer.place] = failure.signature
        if number > self.budget:
            return Decision(False, f"it died {number} times without a step done (pool.restarts = {self.budget})")
        when = f"in {pause:g} s " if pause else ""
        return Decision(True, f"restarted {when}(death {number} of {self.budget} without a step done)", pause)
