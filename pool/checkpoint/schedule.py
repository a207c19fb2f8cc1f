"""Decides when a snapshot or a checkpoint is due. Pure: it gets steps, outcomes and the time as arguments.

Times are in seconds.
"""

from __future__ import annotations

FIRST_PAUSE = 10.0  # seconds after the first failed attempt; doubles with each
LONGEST_PAUSE = 600.0

FINAL_SECONDS = 3600.0  # for which attempts to write the last checkpoint go on
FINAL_MINUTES = round(FINAL_SECONDS / 60)
FINAL_PAUSE = 1.0  # seconds after its first failure; within it the supervisor makes a deleted run folder again
LONGEST_FINAL_PAUSE = 30.0  # short, because nothing else is left to do

SNAPSHOT_SECONDS = 10.0  # between snapshots: the most work that a death of the coordinator costs
LONG_COPY = 0.1  # seconds; snapshots that take longer are taken less often, as SHARE demands
SHARE = 0.1  # largest fraction of the time that long snapshots may take


def is_net_step(step: int, every: int) -> bool:
    """Returns whether a network is exported from the weights after `step` steps. `every`: steps between two exports
    (`train.export_every`), 0: none."""
    return every > 0 and step > 0 and step % every == 0


class Schedule:
    """Decides when checkpoints are due, by steps and by time.

    A checkpoint that becomes due while another one is written, or in the pause after a failed attempt, is written as
    soon as that is over.
    """

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
        """Starts the schedule of one process.

        `every`: steps between checkpoints; 0: only the last step has one.
        `saved`: step of the newest checkpoint; -1: there is none.
        `seconds`: longest time between two checkpoints; 0: no limit.
        `nets`: steps between checkpoints from which a network is exported; 0: none.
        `snapshots`: steps between snapshots; 0: none; None: every SNAPSHOT_SECONDS.
        """
        self.saved = saved
        self.nets = nets
        self.exported = saved // nets * nets if nets and saved > 0 else 0  # newest step with a network; 0: none
        self.snapshots = SnapshotSpacing(snapshots)
        self._every = every
        self._seconds = seconds
        self._last_start = now  # time of the newest attempt
        self._is_due = False
        self._num_failures = 0  # in a row
        self._earliest = 0.0  # time before which no attempt may begin

    def is_net(self, step: int) -> bool:
        """Returns whether a network has to be exported from the checkpoint of this step."""
        return is_net_step(step, self.nets)

    def is_due(self, step: int, now: float) -> bool:
        """Returns whether to write a checkpoint after `step` steps, provided that none is being written. To be called
        after each step."""
        self._is_due |= self._every > 0 and step % self._every == 0
        self._is_due |= self._seconds > 0 and now - self._last_start >= self._seconds
        return self._is_due and now >= self._earliest

    def record_start(self, now: float) -> None:
        """Records that an attempt to write a checkpoint has begun at time `now`."""
        self._is_due = False
        self._last_start = now

    def record_end(self, step: int, now: float, *, well: bool) -> float:
        """Records how an attempt to write the checkpoint of a step has ended. `well`: the checkpoint is on the disk.

        Returns the seconds until the next attempt may begin. These are 0 after a success, 10 after a failure, and
        twice as many after each further one, up to 600.
        """
        if well:
            self.saved = step
            if self.is_net(step):
                self.exported = max(self.exported, step)
            self._num_failures = 0
            return 0.0
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0**self._num_failures)
        self._num_failures += 1
        self._is_due = True
        self._earliest = now + pause
        return pause


class FinalAttempts:
    """Decides how often, and for how long, the checkpoint of a run's last step is tried.

    Attempts go on for an hour after the first failure, because a full disk can be emptied meanwhile, and because
    only this process has the steps since the previous checkpoint.
    """

    def __init__(self) -> None:
        self._first_failure: float | None = None  # time
        self._pause = FINAL_PAUSE
        self._earliest = 0.0  # time before which no attempt may begin

    @property
    def waits(self) -> bool:
        """Tells whether an attempt has failed and another one will follow."""
        return self._first_failure is not None

    def is_due(self, now: float) -> bool:
        """Returns whether the next attempt may begin now."""
        return now >= self._earliest

    def record_success(self) -> None:
        """Records that the checkpoint was written."""
        self._first_failure = None

    def record_failure(self, now: float) -> bool:
        """Records a failed attempt. Returns whether there will be another one."""
        if self._first_failure is None:
            self._first_failure = now
        self._earliest = now + self._pause
        self._pause = min(LONGEST_FINAL_PAUSE, 2 * self._pause)
        return now - self._first_failure < FINAL_SECONDS


class SnapshotSpacing:
    """Decides when snapshots are due: every few seconds or steps, less often if copying the state takes long.

    The first snapshot of a process is due at once, so that a coordinator that dies again and again still makes
    progress.
    """

    def __init__(self, every: int | None) -> None:
        """Sets the spacing of snapshots. `every`: steps between snapshots; 0: none; None: by time, every
        SNAPSHOT_SECONDS."""
        self._every = 1 if every is None else every
        self._seconds = SNAPSHOT_SECONDS if every is None else 0.0
        self._earliest = 0.0  # time before which no snapshot is due

    def is_due(self, step: int, now: float) -> bool:
        """Returns whether to copy a snapshot after `step` steps."""
        return self._every > 0 and step % self._every == 0 and now >= self._earliest

    def record_snapshot(self, begin: float, end: float) -> None:
        """Records that a snapshot was copied from time `begin` to time `end`, for whatever reason."""
        duration = end - begin
        pause = duration * (1 / SHARE - 1) if duration > LONG_COPY else 0.0
        self._earliest = max(begin + self._seconds, end + pause)
