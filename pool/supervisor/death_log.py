"""Records the deaths of a run's processes, newest last, with all that the supervisor can find out about each."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Sequence

from loader.exit_codes import EXIT_CRASH_LOOP
from pool.errors import RunError
from pool.protocol.blame import DeathInBatch
from pool.protocol.identity import WORKER, Peer
from pool.run_folder.access import shown
from pool.shm.memory import BatchInWork
from pool.supervisor.deaths import Death, account
from pool.supervisor.failover import still_to_know
from pool.supervisor.prepare.run_plan import RunPlan
from pool.supervisor.processes.child import Child
from pool.supervisor.processes.children import Children
from pool.supervisor.resources.system_memory import oom_kills


class DeathLog:
    """Describes each death, and what a restarted coordinator or the user has to know of it."""

    def __init__(self, children: Children) -> None:
        self.deaths: list[Death] = []
        self._children = children
        self._oom_kills = oom_kills()
        self._held: BatchInWork | None = None  # the batch that the process of the newest death was computing

    def add(self, run: RunPlan, child: Child, how: str) -> Death:
        """Records the death of a child. `how`: how it ended, in words. Returns the description."""
        self._held = self._held_batch(run, child)
        before, self._oom_kills = self._oom_kills, oom_kills()
        killed = child.returncode == -signal.SIGKILL
        failure = child.failure
        lost = failure.reason if failure is not None and failure.lost else ""
        peer = child.peer
        if failure is not None and failure.of_worker:
            (peer,) = run.guests(peer)
        death = Death(
            peer,
            f"ended: {lost}" if lost else how,
            killed_since=child.killed_since,
            out_of_memory=killed and self._oom_kills > before,
            batch=None if self._held is None else self._held.batch,
            last_lines=child.last_lines(),
            raised="" if failure is None or lost else failure.reason,
            log=child.log,
            crashed_in=child.crashed_in(),
            card=_card_of(run, peer),
        )
        self.deaths.append(death)
        return death

    def count_roles(self) -> Counter[str]:
        """Returns the number of deaths of each role."""
        return Counter(death.peer.role for death in self.deaths)

    def in_batches(self, before: Sequence[DeathInBatch], done: int) -> tuple[DeathInBatch, ...]:
        """Returns the deaths of workers in batches, for a coordinator that begins now.

        `before`: those that its predecessor was given; `done`: number of completed steps, whose batches are left out.
        If the newest death was in a batch, it is added.
        """
        deaths = [*before]
        if self._held is not None:
            newest = self.deaths[-1]
            raised = shown(f"{newest.raised}; traceback in {newest.log}") if newest.raised else ""
            deaths.append(DeathInBatch(self._held.purpose, self._held.step, self._held.batch, raised))
        return still_to_know(deaths, done)

    def error(self, why: str, exit_code: int) -> RunError:
        """Returns the error that ends the run because of the newest death. For a crash loop it describes all deaths."""
        if exit_code == EXIT_CRASH_LOOP:
            return RunError(f"{account(self.deaths)}\n{why}", exit_code)
        return RunError(f"{self.deaths[-1].line()}; {why}", exit_code)

    def _held_batch(self, run: RunPlan, child: Child) -> BatchInWork | None:
        """Returns the batch that a dead process was computing. None if the exception came from the coordinator in that
        process."""
        worker = next(iter(run.guests(child.peer)), child.peer)
        held, failure = self._children.held_batch(worker), child.failure
        return held if worker == child.peer or failure is None or failure.of_worker else None


def _card_of(run: RunPlan, peer: Peer) -> str:
    """Returns the device of a worker if it is a GPU, else an empty string."""
    card = run.planned.card(run.planned.devices[peer.index]) if peer.role == WORKER else None
    return "" if card is None else card.device
