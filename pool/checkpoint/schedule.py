"""When a snapshot or a checkpoint is due. Pure: decides from steps, outcomes and the time that it is given."""

from __future__ import annotations

FIRST_PAUSE = 10.0  # seconds after a failed attempt; doubles with each
LONGEST_PAUSE = 600.0

FINAL_SECONDS = 3600.0  # in which the last checkpoint is tried again
FINAL_MINUTES = round(FINAL_SECONDS / 60)
FINAL_PAUSE = 1.0  # seconds after its first failure; within it the supervisor makes a deleted run folder again
LONGEST_FINAL_PAUSE = 30.0  # nothing else is left to do

SNAPSHOT_SECONDS = 10.0  # between snapshots: what a death of the coordinator may cost
LONG_COPY = 0.1  # seconds; snapshots that take longer than this are taken less often, if they must be
SHARE = 0.1  # of the time that such snapshots may take


class Schedule:
    """A checkpoint that is due while another is written, or in the pause after a failure, is written as soon as that
    ends."""

    def __init__(
        self,
        every: int,
        saved: int,
        *,
        seconds: float = 0.0,
        nets: int = 0,
        snapshots: int | None = 0,
        now: float = 0.0,
    ) -> None:
        """`every`: steps between checkpoints, 0: none but the last; `saved`: step of the newest, -1: none; `seconds`:
        the longest time between two, 0: any; `nets`: steps between those that nets are exported from, 0: none;
        `snapshots`: steps between snapshots, 0: none, None: they are taken by time."""
        self.saved = saved
        self.nets = nets
        self.exported = saved // nets * nets if nets and saved > 0 else 0  # the newest one for nets, 0: none
        self.snapshots = SnapshotSpacing(snapshots)
        self._every = every
        self._seconds = seconds
        self._begun = now
        self._due = False
        self._failures = 0
        self._not_before = 0.0

    def is_net(self, step: int) -> bool:
        """A net has to be exported from this step."""
        return self.nets > 0 and step > 0 and step % self.nets == 0

    def committed(self, step: int, now: float) -> bool:
        """`step` steps are done: whether to write a checkpoint of them, if nothing is being written."""
        self._due |= self._every > 0 and step % self._every == 0
        self._due |= self._seconds > 0 and now - self._begun >= self._seconds
        return self._due and now >= self._not_before

    def begun(self, now: float) -> None:
        self._due = False
        self._begun = now

    def ended(self, step: int, now: float, *, well: bool) -> float:
        """An attempt has ended: seconds until the next one may begin, 0 after a good one."""
        if well:
            self.saved = step
            self.exported = max(self.exported, step) if self.is_net(step) else self.exported
            self._failures = 0
            return 0.0
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0**self._failures)
        self._failures += 1
        self._due = True
        self._not_before = now + pause
        return pause


class FinalAttempts:
    """Decides how often, and for how long, the checkpoint of a run's last step is tried. A full disk can be emptied
    meanwhile; nothing but this process has the steps since the checkpoint before."""

    def __init__(self) -> None:
        self._failed: float | None = None  # time of the first failure
        self._pause = FINAL_PAUSE
        self._not_before = 0.0

    @property
    def waits(self) -> bool:
        """One has failed, and there will be another."""
        return self._failed is not None

    def due(self, now: float) -> bool:
        return now >= self._not_before

    def succeeded(self) -> None:
        """Notes that a checkpoint was written."""
        self._failed = None

    def failed(self, now: float) -> bool:
        """Notes a failed attempt. Returns True if there will be another."""
        self._failed = now if self._failed is None else self._failed
        self._not_before = now + self._pause
        self._pause = min(LONGEST_FINAL_PAUSE, 2 * self._pause)
        return now - self._failed < FINAL_SECONDS


class SnapshotSpacing:
    """Decides when snapshots are due: every few seconds or steps, of large states less often. The first of a process is
    due at once, so that a coordinator that dies again and again makes progress."""

    def __init__(self, every: int | None) -> None:
        """`every`: steps between snapshots, 0: none, None: SNAPSHOT_SECONDS."""
        self._every = 1 if every is None else every
        self._seconds = SNAPSHOT_SECONDS if every is None else 0.0
        self._not_before = 0.0

    def due(self, step: int, now: float) -> bool:
        """`step` steps are done."""
        return self._every > 0 and step % self._every == 0 and now >= self._not_before

    def taken(self, begin: float, end: float) -> None:
        """One was, for whatever reason, from `begin` to `end`."""
        duration = end - begin
        pause = duration * (1 / SHARE - 1) if duration > LONG_COPY else 0.0
        self._not_before = max(begin + self._seconds, end + pause)
