"""Decides what follows the death of a process. Pure: from facts to a decision with its reason."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from loader.exit_codes import EXIT_CRASH_LOOP
from pool.process.failure import Failure
from pool.protocol.identity import COORDINATOR, WORKER, Peer
from pool.supervisor.lost_devices import LostDevices

PAUSES = (0.0, 0.1, 0.5, 2.0, 5.0)  # seconds before the first, second, ... restart since the last completed step


@dataclass(frozen=True)
class Decision:
    """Tells whether a dead process is restarted, with the reason."""

    restart: bool
    reason: str
    pause: float = 0.0  # seconds to wait before the restart
    exit_code: int = EXIT_CRASH_LOOP  # exit code of the run, if the process is not restarted
    leave_out: bool = False  # the run goes on without the process


@dataclass
class RestartPolicy:
    """Decides whether a process that has died is restarted.

    Each role and index has a budget of deaths without progress. A completed step makes every budget whole again. A
    device that can't be used in two lives of a process is left out of the run, as long as a worker has another device.
    """

    budget: int
    devices: LostDevices = field(default_factory=lambda: LostDevices({}))
    done: int = -1  # number of steps completed
    _deaths: Counter[tuple[str, int]] = field(default_factory=Counter)
    # signature of the newest exception, by role and index
    _exceptions: dict[tuple[str, int], str] = field(default_factory=dict)
    _excused: set[Peer] = field(default_factory=set)  # killed by the supervisor for what is not their fault

    def record_progress(self, step: int) -> None:
        """Records that the run has completed `step` steps, and resets all budgets if that is more than before."""
        if step > self.done:
            self.done = step
            self._deaths.clear()
            self._exceptions.clear()

    def decide(
        self,
        peer: Peer,
        failure: Failure | None = None,
        *,
        batch: int | None = None,
        needed: bool = True,
    ) -> Decision:
        """Decides what follows the unexpected death of a process.

        `failure`: the exception that ended the process, if one did; `batch`: the batch in which it was raised;
        `needed`: the run can't go on without the process now. A process that is not needed is restarted without limit.
        An exception in a batch does not count, since the coordinator limits those and gives up such a batch.
        """
        if self.is_left_out(peer):
            return self._go_on_without_worker()
        if failure is not None and failure.lost:
            if peer.role == COORDINATOR:
                return self._decide_lost_by_coordinator(failure.lost)
            return self._decide_lost_by_worker(peer.index)
        if peer in self._excused:
            return Decision(True, "restarted")
        if failure is not None and failure.started and batch is not None:
            return Decision(True, "restarted; a batch that raises twice is not tried again")
        return self._count_death(peer, failure, needed=needed)

    def _count_death(self, peer: Peer, failure: Failure | None, *, needed: bool) -> Decision:
        """Counts a death against the budget of its role and index, and decides whether the process is restarted."""
        self._deaths[peer.role_index] += 1
        count = self._deaths[peer.role_index]
        if not needed and count > self.budget:
            return Decision(True, f"nobody waits for it: tried again in {PAUSES[-1]:g} s", PAUSES[-1])
        if failure is not None:
            if not failure.started:
                return Decision(False, "it never got ready", exit_code=failure.exit_code)
            if self._exceptions.get(peer.role_index) == failure.signature:
                return Decision(False, "the same exception ended it before", exit_code=failure.exit_code)
            self._exceptions[peer.role_index] = failure.signature
        if count > self.budget:
            return Decision(False, f"it died {count} times without a step done (pool.restarts = {self.budget})")
        pause = PAUSES[min(count, len(PAUSES)) - 1]
        delay = f" in {pause:g} s" if pause else ""
        limit = f"more than {self.budget} end the run (pool.restarts)"
        return Decision(True, f"restarted{delay}: death {count} since the last step; {limit}", pause)

    def is_left_out(self, peer: Peer) -> bool:
        """Tells whether a process is a worker whose device was left out of the run."""
        return peer.role == WORKER and self.devices.is_left_out(peer.index)

    def excuse(self, peer: Peer) -> None:
        """Records that the supervisor kills a process for a reason that is not its fault, so the death does not
        count."""
        self._excused.add(peer)

    def _decide_lost_by_worker(self, worker: int) -> Decision:
        """Decides what follows when a worker's device has ended the worker."""
        device = self.devices.of_worker[worker]
        if not self.devices.count_worker_failure(worker):
            return _try_once_more()
        if not self.devices.remaining(device):
            return _end_without_devices()
        self.devices.leave_out(device)
        return self._go_on_without_worker()

    def _go_on_without_worker(self) -> Decision:
        return Decision(False, f"left out, the run goes on with {self._list_devices()}", leave_out=True)

    def _decide_lost_by_coordinator(self, suspects: tuple[str, ...]) -> Decision:
        """Decides what follows when a device has ended the coordinator. `suspects`: devices of which one has failed."""
        loss = self.devices.count_coordinator_failure(suspects)
        if loss.left_out is None:
            return _try_once_more()
        if not self.devices.remaining(loss.left_out):
            return _end_without_devices()
        self.devices.leave_out(loss.left_out)
        reason = f"the run goes on with {self._list_devices()}"
        if len(loss.suspects) > 1:
            names = ", ".join(loss.suspects)
            reason = f"which of {names} it is can't be told: {loss.left_out} is left out, {reason}"
        return Decision(True, reason)

    def _list_devices(self) -> str:
        return ", ".join(self.devices.remaining().values())


def _try_once_more() -> Decision:
    return Decision(True, f"tried once more in {PAUSES[2]:g} s", PAUSES[2])


def _end_without_devices() -> Decision:
    return Decision(False, "no other device is left: mend it or name others in pool.devices, then --resume")
