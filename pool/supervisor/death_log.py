"""Records the deaths of a run's processes, with all that the supervisor can find out about each."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Sequence

from loader.exit_codes import EXIT_CRASH_LOOP
from pool.errors import RunError
from pool.protocol.blame import DeathInBatch
from pool.protocol.identity import WORKER, Peer
from pool.run_folder.access import show_real_paths
from pool.shm.memory import BatchInWork
from pool.supervisor.deaths import Death, describe_deaths
from pool.supervisor.failover import relevant_deaths
from pool.supervisor.prepare.run_plan import RunPlan
from pool.supervisor.processes.child import Child
from pool.supervisor.processes.children import Children
from pool.supervisor.resources.system_memory import count_oom_kills


class DeathLog:
    """Keeps the deaths of a run, the newest last, and describes them for the user and for a restarted coordinator."""

    def __init__(self, children: Children) -> None:
        self.deaths: list[Death] = []
        self._children = children
        self._oom_kills = count_oom_kills()
        self._batch: BatchInWork | None = None  # the batch that the process of the newest death was computing

    def add(self, run: RunPlan, child: Child, ending: str) -> Death:
        """Records the death of a child, and returns its description. `ending`: signal or exit code, as `Child.reap`
        returns it."""
        self._batch = self._find_batch(run, child)
        earlier_oom_kills, self._oom_kills = self._oom_kills, count_oom_kills()
        was_killed = child.returncode == -signal.SIGKILL
        failure = child.failure
        peer = child.peer
        exception = ""
        if failure is not None and failure.lost:
            ending = f"ended: {failure.reason}"
        elif failure is not None:
            exception = failure.reason
        if failure is not None and failure.of_worker:
            (peer,) = run.guests(peer)
        death = Death(
            peer,
            ending,
            killed_since=child.killed_since,
            out_of_memory=was_killed and self._oom_kills > earlier_oom_kills,
            batch=None if self._batch is None else self._batch.batch,
            last_lines=child.last_lines(),
            exception=exception,
            log=child.log,
            crashed_in=child.crashed_in(),
            gpu=_worker_gpu(run, peer),
        )
        self.deaths.append(death)
        return death

    def count_roles(self) -> Counter[str]:
        """Returns the number of deaths of each role."""
        return Counter(death.peer.role for death in self.deaths)

    def deaths_in_batches(self, earlier: Sequence[DeathInBatch], done: int) -> tuple[DeathInBatch, ...]:
        """Returns the deaths of workers in batches, for a new coordinator.

        `earlier`: the deaths that its predecessor was given; `done`: number of completed steps. Deaths in completed
        steps are left out, unless they make a batch unusable. The newest death is added if it was in a batch.
        """
        deaths = [*earlier]
        if self._batch is not None:
            newest = self.deaths[-1]
            exception = ""
            if newest.exception:
                exception = show_real_paths(f"{newest.exception}; traceback in {newest.log}")
            deaths.append(DeathInBatch(self._batch.purpose, self._batch.step, self._batch.batch, exception))
        return relevant_deaths(deaths, done)

    def error(self, reason: str, exit_code: int) -> RunError:
        """Returns the error that ends the run because of the newest death. For a crash loop it describes all deaths."""
        if exit_code == EXIT_CRASH_LOOP:
            return RunError(f"{describe_deaths(self.deaths)}\n{reason}", exit_code)
        return RunError(f"{self.deaths[-1].describe()}; {reason}", exit_code)

    def _find_batch(self, run: RunPlan, child: Child) -> BatchInWork | None:
        """Returns the batch that a dead process was computing, or None.

        A worker in the coordinator's process has not died of its batch if the exception was the coordinator's.
        """
        guests = run.guests(child.peer)
        if not guests:
            return self._children.held_batch(child.peer)
        batch = self._children.held_batch(guests[0])
        failed_in_coordinator = child.failure is not None and not child.failure.of_worker
        return None if failed_in_coordinator else batch


def _worker_gpu(run: RunPlan, peer: Peer) -> str:
    """Returns the name of a worker's device if it is a GPU, else an empty string."""
    if peer.role != WORKER:
        return ""
    card = run.planned.card(run.planned.devices[peer.index])
    return "" if card is None else card.device
