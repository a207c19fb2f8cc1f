"""Settings of a run that the scheduler needs; they never change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pool.checkpoint.plateau import ReduceOnPlateau
from pool.checkpoint.validations import LOWEST_LOSS, Goal
from pool.coordinator.scheduler.early_stopping import EarlyStopping
from pool.exchange.groups import Groups
from pool.metrics.layout import is_measured
from pool.metrics.validation_pass import ValidationPass


@dataclass(frozen=True)
class Rules:
    steps: int
    batches_per_step: int
    member_of: tuple[int, ...]  # of each bucket the member that it is of
    gradient_slots: int  # of each worker
    has_buffers: bool
    validate_every: int  # steps; 0: never
    validation: ValidationPass
    on_bad_batch: Literal["stop", "skip"] = "stop"
    collects: bool = False  # workers leave arrays for metrics with each validation batch
    batches_per_group: int = 1
    goal: Goal = LOWEST_LOSS  # which number of a validation the run goes by
    early_stopping: int | None = None  # validations without improvement; None: the run goes on
    plateaus: tuple[ReduceOnPlateau | None, ...] = ()  # of each member; empty: validations change no learning rate
    machines: int = 1  # that compute a step together
    machine: int = 0  # this one
    metrics_every: int = 0  # steps between those whose own batches are measured; 0: none are
    metrics: tuple[str, ...] = ()  # that each member has

    @property
    def num_buckets(self) -> int:
        return len(self.member_of)

    @property
    def members(self) -> int:
        """Networks that are trained."""
        return 1 + max(self.member_of)

    def metrics_of(self, step: int) -> tuple[str, ...]:
        """Returns the metrics that each batch of the step has."""
        return self.metrics if is_measured(step, self.metrics_every) else ()

    @property
    def groups(self) -> Groups:
        return Groups(self.batches_per_step, self.batches_per_group)

    @property
    def share(self) -> range:
        """The places of a step whose groups are computed on this machine."""
        return self.groups.share(self.machine, self.machines)

    @property
    def other_shares(self) -> dict[int, range]:
        """The places of the other machines' groups, by machine."""
        others = (machine for machine in range(self.machines) if machine != self.machine)
        return {machine: self.groups.share(machine, self.machines) for machine in others}

    @property
    def stopping(self) -> EarlyStopping:
        return EarlyStopping(self.early_stopping, self.goal, self.steps)
