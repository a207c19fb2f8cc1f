"""When a checkpoint is due. Pure: decides from steps, outcomes and the time that it is given."""

from __future__ import annotations

FIRST_PAUSE = 10.0  # seconds after a failed attempt; doubles with each
LONGEST_PAUSE = 600.0


class Schedule:
    """One that is due while another is written, or in the pause after a failure, is written as soon as that ends."""

    def __init__(self, every: int, saved: int) -> None:
        """`every`: steps between checkpoints, 0: none but the last; `saved`: step of the newest, -1: none."""
        self.saved = saved
        self._every = every
        self._due = False
        self._failures = 0
        self._not_before = 0.0

    def committed(self, step: int, now: float) -> bool:
        """`step` steps are done: whether to write a checkpoint of them, if nothing is being written."""
        self._due |= self._every > 0 and step % self._every == 0
        return self._due and now >= self._not_before

    def begun(self) -> None:
        self._due = False

    def ended(self, step: int, now: float, *, well: bool) -> float:
        """An attempt has ended: seconds until the next one may begin, 0 after a good one."""
        if well:
            self.saved = step
            self._failures = 0
            return 0.0
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0**self._failures)
        self._failures += 1
        self._due = True
        self._not_before = now + pause
        return pause
