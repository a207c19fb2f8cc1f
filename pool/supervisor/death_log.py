"""The deaths of a run's processes, newest last, as far as the supervisor can describe them."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Sequence

from loader.exit_codes import EXIT_CRASH_LOOP
from pool.errors import RunError
from pool.protocol.blame import DeathInBatch
from pool.protocol.identity import WORKER, Peer
from pool.run_folder.access import shown
from pool.shm.memory import Held
from pool.supervisor.deaths import Death, account
from pool.supervisor.failover import still_to_know
from pool.supervisor.prepare.run_plan import RunPlan
from pool.supervisor.processes.child import Child
from pool.supervisor.processes.children import Children
from pool.supervisor.resources.system_memory import oom_kills


class DeathLog:
    def __init__(self, children: Children) -> None:
        self.deaths: list[Death] = []
        self._children = children
        self._oom_kills = oom_kills()
        self._held: Held | None = None  # the batch that the newest one was computing

    def add(self, run: RunPlan, child: Child, how: str) -> Death:
        """Describes the death of a child; `how`: in words."""
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
        """Returns the number of deaths by role."""
        return Counter(death.peer.role for death in self.deaths)

    def in_batches(self, before: Sequence[DeathInBatch], done: int) -> tuple[DeathInBatch, ...]:
        """Returns the deaths in batches that a coordinator has to know of which begins now: those that its predecessor
        had to, and that one's own, which is the newest. `done`: steps."""
        deaths = [*before]
        if self._held is not None:
            newest = self.deaths[-1]
            raised = shown(f"{newest.raised}; traceback in {newest.log}") if newest.raised else ""
            deaths.append(DeathInBatch(self._held.purpose, self._held.step, self._held.batch, raised))
        return still_to_know(deaths, done)

    def error(self, why: str, exit_code: int) -> RunError:
        """Returns the end of the run that follows from the newest death; a crash loop tells of all of them."""
        if exit_code == EXIT_CRASH_LOOP:
            return RunError(f"{account(self.deaths)}\n{why}", exit_code)
        return RunError(f"{self.deaths[-1].line()}; {why}", exit_code)

    def _held_batch(self, run: RunPlan, child: Child) -> Held | None:
        """Returns the batch that a dead process was computing, unless another role of it has raised."""
        worker = next(iter(run.guests(child.peer)), child.peer)
        held, failure = self._children.held_batch(worker), child.failure
        return held if worker == child.peer or failure is None or failure.of_worker else None


def _card_of(run: RunPlan, peer: Peer) -> str:
    """Returns a worker's device, if it is a GPU; else empty."""
    card = run.planned.card(run.planned.devices[peer.index]) if peer.role == WORKER else None
    return "" if card is None else card.device
