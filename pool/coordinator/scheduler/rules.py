"""The settings of a run that the scheduler decides by. They never change."""

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
    """The settings of a run that the scheduler decides by. A member is one network of an ensemble; a bucket is
    parameters that are stepped together."""

    steps: int
    batches_per_step: int
    member_of: tuple[int, ...]  # by bucket: the member whose parameters it holds
    gradient_slots: int  # that each worker has
    has_buffers: bool
    validate_every: int  # steps; 0: never
    validation: ValidationPass
    on_bad_batch: Literal["stop", "skip"] = "stop"
    collects: bool = False  # workers leave arrays in memory with each validation batch, for metrics
    batches_per_group: int = 1
    goal: Goal = LOWEST_LOSS  # the number of a validation by which the best checkpoint is chosen
    early_stopping: int | None = None  # validations without improvement; None: the run goes on
    plateaus: tuple[ReduceOnPlateau | None, ...] = ()  # of each member; empty: validations change no learning rate
    machines: int = 1  # how many compute each step together
    machine: int = 0  # the index of this machine
    metrics_every: int = 0  # steps; every so often the training batches are measured by the metrics; 0: never
    metrics: tuple[str, ...] = ()  # names, the same for each member

    @property
    def num_buckets(self) -> int:
        return len(self.member_of)

    @property
    def members(self) -> int:
        """The number of networks that are trained."""
        return 1 + max(self.member_of)

    def metrics_of(self, step: int) -> tuple[str, ...]:
        """Returns the names of the metrics that the training batches of a step are measured by; none in most steps."""
        return self.metrics if is_measured(step, self.metrics_every) else ()

    @property
    def groups(self) -> Groups:
        """How the batches of a step are divided into groups, each computed by one worker."""
        return Groups(self.batches_per_step, self.batches_per_group)

    @property
    def share(self) -> range:
        """The indices of the groups of a step that this machine computes."""
        return self.groups.share(self.machine, self.machines)

    @property
    def remote_shares(self) -> dict[int, range]:
        """The indices of the groups of a step that each other machine computes, by machine."""
        return {
            machine: self.groups.share(machine, self.machines)
            for machine in range(self.machines)
            if machine != self.machine
        }

    @property
    def stopping_rule(self) -> EarlyStopping:
        """The rule that ends the run, or the training of a member, when validations stop improving."""
        return EarlyStopping(self.early_stopping, self.goal, self.steps)
