"""Decides how a run is stopped: the first signal finishes the step, the second ends the run now.

Pure: counts of signals and times come in.
"""

from __future__ import annotations

from enum import Enum, auto


class Ending(Enum):
    """Stages of stopping a run."""

    NOT_ASKED = auto()
    FINISHING = auto()  # the step is finished, and a checkpoint of it written
    NOW = auto()  # the run ends at once, and nothing more is saved


NEXT = {
    Ending.NOT_ASKED: (Ending.FINISHING, Ending.NOW),
    Ending.FINISHING: (Ending.NOW,),
    Ending.NOW: (),
}


class StopPlan:
    """Decides from signals and time whether the run finishes its step or ends now."""

    def __init__(self, timeout: float) -> None:
        """Begins with a run that nobody has stopped.

        `timeout`: seconds for finishing the step and writing the checkpoint. Waiting for room on the disk does not
        count.
        """
        self.ending = Ending.NOT_ASKED
        self._timeout = timeout
        self._deadline = 0.0

    def update(self, num_signals: int, now: float, *, waits_for_disk: bool = False) -> str:
        """Updates `ending` by the number of signals so far and the time. Returns a line for the user if `ending` has
        changed, else an empty string.

        `waits_for_disk`: the run waits for room on the disk, which extends the deadline.
        """
        if self.ending is Ending.NOW:
            return ""
        if num_signals > 1:
            return self._enter(Ending.NOW, "stopped at once; nothing more is saved")
        if waits_for_disk:
            self._deadline = now + self._timeout
        if self.ending is Ending.FINISHING and now > self._deadline:
            return self._enter(
                Ending.NOW, f"stopped after pool.stop_timeout = {self._timeout:g} s; nothing more is saved"
            )
        if num_signals > 0 and self.ending is Ending.NOT_ASKED:
            self._deadline = now + self._timeout
            return self._enter(
                Ending.FINISHING, "stopping: finishing the step and writing a checkpoint (once more: stop now)"
            )
        return ""

    def _enter(self, ending: Ending, line: str) -> str:
        """Enters a stage. Returns the line for the user."""
        assert ending in NEXT[self.ending], f"{ending.name} after {self.ending.name}"
        self.ending = ending
        return line
