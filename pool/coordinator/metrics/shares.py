"""Computes which part of a run bounds its speed, from the times that workers and coordinator report. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from pool.protocol.messages import Shares


@dataclass(frozen=True)
class Spent:
    """Seconds since the run began: the first three added up over all workers, the others of the coordinator."""

    computing: float = 0.0
    waiting_for_batches: float = 0.0
    waiting_for_weights: float = 0.0
    reducing: float = 0.0
    optimizing: float = 0.0
    waiting_for_machines: float = 0.0

    @property
    def of_workers(self) -> float:
        """The seconds that all workers have spent, added up."""
        return self.computing + self.waiting_for_batches + self.waiting_for_weights


def compute_shares(before: Spent, now: Spent, workers: int) -> Shares | None:
    """Returns what shares of the run's time its parts take between two measurements; None if no time has passed.

    While the coordinator adds up gradients, steps the optimizer, or waits for other machines, all workers may be
    waiting for it. If they compute meanwhile, the coordinator does not bound the run. So its time counts only as far as
    workers waited.
    """
    total = now.of_workers - before.of_workers
    if total <= 0:
        return None
    waiting = max(0.0, now.waiting_for_weights - before.waiting_for_weights)
    reducing = workers * max(0.0, now.reducing - before.reducing)
    optimizing = workers * max(0.0, now.optimizing - before.optimizing)
    machines = workers * max(0.0, now.waiting_for_machines - before.waiting_for_machines)
    of_coordinator = reducing + optimizing + machines
    overlap = min(1.0, waiting / of_coordinator) if of_coordinator > 0 else 0.0
    return Shares(
        compute=max(0.0, now.computing - before.computing) / total,
        loader=max(0.0, now.waiting_for_batches - before.waiting_for_batches) / total,
        reduce=overlap * reducing / total,
        optimizer=overlap * optimizing / total,
        machines=overlap * machines / total,
        weights=max(0.0, waiting - overlap * of_coordinator) / total,
    )
