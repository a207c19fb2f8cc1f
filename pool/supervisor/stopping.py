"""How a run is stopped: the first signal finishes the step, the second ends it now. Pure: counts and the time in."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Stop:
    begin: bool = False  # tell everybody to finish the step
    now: bool = False  # end the run as it is
    say: str = ""


class StopPlan:
    def __init__(self, timeout: float) -> None:
        """`timeout`: seconds that finishing the step and writing the checkpoint may take."""
        self.begun = False
        self._timeout = timeout
        self._deadline = 0.0

    def signals(self, count: int, now: float) -> Stop:
        """So many signals have come."""
        if count > 1:
            return Stop(now=True, say="stopped at once; nothing more is saved")
        if count > 0 and not self.begun:
            self.begun = True
            self._deadline = now + self._timeout
            return Stop(begin=True, say="stopping: finishing the step and writing a checkpoint (once more: stop now)")
        if self.begun and now > self._deadline:
            return Stop(now=True, say=f"stopped after pool.stop_timeout = {self._timeout:g} s; nothing more is saved")
        return Stop()
