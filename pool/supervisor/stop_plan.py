"""How a run is stopped: the first signal finishes the step, the second ends it now. Pure: counts and the time in."""

from __future__ import annotations

from enum import Enum, auto


class Ending(Enum):
    NOT_ASKED = auto()
    FINISHING = auto()  # the step, and a checkpoint of it
    NOW = auto()  # as it is


NEXT = {
    Ending.NOT_ASKED: (Ending.FINISHING, Ending.NOW),
    Ending.FINISHING: (Ending.NOW,),
    Ending.NOW: (),
}


class StopPlan:
    def __init__(self, timeout: float) -> None:
        """`timeout`: seconds that finishing the step and writing the checkpoint may take, waiting for room on the disk
        not counted."""
        self.ending = Ending.NOT_ASKED
        self._timeout = timeout
        self._deadline = 0.0

    def signals(self, count: int, now: float, *, waits: bool = False) -> str:
        """Takes in that `count` signals have come, and says to the user why `ending` is another now; empty if it is
        not. `waits`: for room on the disk."""
        if self.ending is Ending.NOW:
            return ""
        if count > 1:
            return self._enter(Ending.NOW, "stopped at once; nothing more is saved")
        if waits:
            self._deadline = now + self._timeout
        if self.ending is Ending.FINISHING and now > self._deadline:
            return self._enter(
                Ending.NOW, f"stopped after pool.stop_timeout = {self._timeout:g} s; nothing more is saved"
            )
        if count > 0 and self.ending is Ending.NOT_ASKED:
            self._deadline = now + self._timeout
            return self._enter(
                Ending.FINISHING, "stopping: finishing the step and writing a checkpoint (once more: stop now)"
            )
        return ""

    def _enter(self, ending: Ending, why: str) -> str:
        assert ending in NEXT[self.ending], f"{ending.name} after {self.ending.name}"
        self.ending = ending
        return why
