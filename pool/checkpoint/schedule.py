"""When a checkpoint or a snapshot is due. Pure: decides from steps, outcomes and the time that it is given."""

from __future__ import annotations

FIRST_PAUSE = 10.0  # seconds after a failed attempt; doubles with each
LONGEST_PAUSE = 600.0

LONG_COPY = 0.1  # seconds; snapshots that take longer than this are taken less often, if they must be
SHARE = 0.1  # of the time that such snapshots may take


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


class SnapshotSpacing:
    """Every few steps; of large states less often."""

    def __init__(self, every: int) -> None:
        """`every`: steps between snapshots, 0: none."""
        self._every = every
        self._not_before = 0.0

    def due(self, step: int, now: float) -> bool:
        """`step` steps are done."""
        return self._every > 0 and step % self._every == 0 and now >= self._not_before

    def taken(self, begin: float, end: float) -> None:
        """One was, for whatever reason, from `begin` to `end`."""
        if (duration := end - begin) > LONG_COPY:
            self._not_before = end + duration * (1 / SHARE - 1)
