"""One assignment on its way through a worker."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from pool.protocol.messages import Assignment, Outcome


class Stage(Enum):
    WAITING = auto()
    PREPARING = auto()  # reads its batch, no weights
    PREPARED = auto()
    COMPUTING = auto()  # reads its batch and its version of the weights
    FINISHED = auto()


NEXT = {
    Stage.WAITING: (Stage.PREPARING, Stage.COMPUTING),
    Stage.PREPARING: (Stage.PREPARED, Stage.COMPUTING),  # on a device what computes waits for the copy
    Stage.PREPARED: (Stage.COMPUTING,),
    Stage.COMPUTING: (Stage.FINISHED,),
    Stage.FINISHED: (),
}


@dataclass(eq=False)
class Job:
    """The computing thread keeps it even after the queue has forgotten it: the result of a revoked job changes nothing,
    even if the same batch was assigned again."""

    assignment: Assignment
    incarnation: int  # of the coordinator that assigned it: version 7 of another one is not this version 7
    stage: Stage = Stage.WAITING
    frozen: tuple[int, ...] = ()  # members that are not trained any more, when it is begun
    buckets: list[int] = field(default_factory=list)  # complete in the gradient slot
    absent: tuple[int, ...] = ()
    outcomes: tuple[Outcome, ...] = ()  # one a batch

    def enter(self, stage: Stage) -> None:
        assert stage in NEXT[self.stage], f"{self.assignment}: {stage.name} after {self.stage.name}"
        self.stage = stage

    @property
    def begun(self) -> bool:
        return self.stage in (Stage.COMPUTING, Stage.FINISHED)
