"""Decides what follows the death of a process. Pure: from facts to a decision with a sentence that says why."""

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
    """Says whether a dead process is restarted, and why."""

    restart: bool
    why: str
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
    _raised: dict[tuple[str, int], str] = field(default_factory=dict)
    _ended: set[Peer] = field(default_factory=set)  # killed by the supervisor for what is not their fault

    def progress(self, step: int) -> None:
        """Notes that the run has completed `step` steps, which makes all budgets whole again if this is progress."""
        if step > self.done:
            self.done = step
            self._deaths.clear()
            self._raised.clear()

    def died(
        self,
        peer: Peer,
        failure: Failure | None = None,
        *,
        batch: int | None = None,
        needed: bool = True,
    ) -> Decision:
        """Decides what follows the death of a process that was not told to end.

        `failure`: the exception that ended the process, if one did; `batch`: the batch in which it was raised. Whether
        such a batch can be computed the coordinator decides, and it limits such deaths, so they don't count here.
        `needed`: the run can't go on without the process now. If it can, the process is restarted without limit.
        """
        if self.is_left_out(peer):
            return self._worker_left_out()
        if failure is not None and failure.lost:
            return self._coordinator_lost(failure.lost) if peer.role == COORDINATOR else self._worker_lost(peer.index)
        if peer in self._ended:
            return Decision(True, "restarted")
        if failure is not None and failure.started and batch is not None:
            return Decision(True, "restarted; a batch that raises twice is not tried again")
        self._deaths[peer.role_index] += 1
        number = self._deaths[peer.role_index]
        pause = PAUSES[min(number, len(PAUSES)) - 1]
        if not needed and number > self.budget:
            return Decision(True, f"nobody waits for it: tried again in {PAUSES[-1]:g} s", PAUSES[-1])
        if failure is not None:
            if not failure.started:
                return Decision(False, "it never got ready", exit_code=failure.exit_code)
            if self._raised.get(peer.role_index) == failure.signature:
                return Decision(False, "the same exception ended it before", exit_code=failure.exit_code)
            self._raised[peer.role_index] = failure.signature
        if number > self.budget:
            return Decision(False, f"it died {number} times without a step done (pool.restarts = {self.budget})")
        when = f" in {pause:g} s" if pause else ""
        limit = f"more than {self.budget} end the run (pool.restarts)"
        return Decision(True, f"restarted{when}: death {number} since the last step; {limit}", pause)

    def is_left_out(self, peer: Peer) -> bool:
        """Tells whether a process is a worker whose device was left out of the run."""
        return peer.role == WORKER and self.devices.is_left_out(peer.index)

    def ended(self, peer: Peer) -> None:
        """Notes that the supervisor kills a process for a reason that is not its fault, so the death does not count."""
        self._ended.add(peer)

    def _worker_lost(self, worker: int) -> Decision:
        device = self.devices.of_worker[worker]
        if not self.devices.worker_ended(worker):
            return _tried_once_more()
        if not self.devices.others(device):
            return _none_left()
        self.devices.leave_out(device)
        return self._worker_left_out()

    def _worker_left_out(self) -> Decision:
        return Decision(False, f"left out, the run goes on with {self._others()}", leave_out=True)

    def _coordinator_lost(self, suspects: tuple[str, ...]) -> Decision:
        """Decides what follows when a device has ended the coordinator. `suspects`: devices of which one has failed."""
        verdict = self.devices.coordinator_ended(suspects)
        if verdict.left_out is None:
            return _tried_once_more()
        if not self.devices.others(verdict.left_out):
            return _none_left()
        self.devices.leave_out(verdict.left_out)
        why = f"the run goes on with {self._others()}"
        if len(verdict.suspects) > 1:
            which = ", ".join(verdict.suspects)
            why = f"which of {which} it is can't be told: {verdict.left_out} is left out, {why}"
        return Decision(True, why)

    def _others(self) -> str:
        return ", ".join(self.devices.others().values())


def _tried_once_more() -> Decision:
    return Decision(True, f"tried once more in {PAUSES[2]:g} s", PAUSES[2])


def _none_left() -> Decision:
    return Decision(False, "no other device is left: mend it or name others in pool.devices, then --resume")
