"""A job: one assignment on its way through a worker, and the stages that it goes through."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from pool.protocol.messages import Assignment, Outcome


class Stage(Enum):
    """The progress of a job."""

    WAITING = auto()
    PREPARING = auto()  # reads its batch, no weights
    PREPARED = auto()
    COMPUTING = auto()  # reads its batch and its version of the weights
    FINISHED = auto()


NEXT_STAGES = {
    Stage.WAITING: (Stage.PREPARING, Stage.COMPUTING),
    Stage.PREPARING: (Stage.PREPARED, Stage.COMPUTING),  # on a GPU the computing waits for the copy, not the job
    Stage.PREPARED: (Stage.COMPUTING,),
    Stage.COMPUTING: (Stage.FINISHED,),
    Stage.FINISHED: (),
}


@dataclass(eq=False)
class Job:
    """One assignment, its progress and its results.

    The computing thread keeps its job even if the coordinator revokes the assignment and the queue forgets it. The
    result of a revoked job changes nothing, even if the same batch was assigned again.
    """

    assignment: Assignment
    incarnation: int  # of the coordinator that assigned it: its version 7 is not version 7 of another coordinator
    stage: Stage = Stage.WAITING
    frozen: tuple[int, ...] = ()  # networks of an ensemble that are no longer trained when the job begins
    buckets: list[int] = field(default_factory=list)  # whose gradients are complete in the gradient slot
    absent: tuple[int, ...] = ()  # parameters that got no gradient
    outcomes: tuple[Outcome, ...] = ()  # one for each batch

    def enter(self, stage: Stage) -> None:
        """Moves the job to a stage, which NEXT_STAGES must allow."""
        assert stage in NEXT_STAGES[self.stage], f"{self.assignment}: {stage.name} after {self.stage.name}"
        self.stage = stage

    @property
    def is_started(self) -> bool:
        """Returns whether the job reads weights, or has read them."""
        return self.stage in (Stage.COMPUTING, Stage.FINISHED)
