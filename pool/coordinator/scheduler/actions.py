"""Actions that the scheduler decides on: plain data. The coordinator's executor carries them out one after the other;
in tests, the simulated coordinator does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from loader.stream.interface import Cursor
from pool.checkpoint.plateau import Plateau, ReduceOnPlateau
from pool.checkpoint.validations import Validations
from pool.exchange.groups import Contribution
from pool.protocol.identity import Peer
from pool.protocol.messages import FeederOrders, MetricValue, ShareReport, WorkerOrders


@dataclass(frozen=True)
class Reduce:
    """Add gradients of one bucket to the step's sum (I2)."""

    step: int
    bucket: int
    contributions: tuple[Contribution, ...]  # each the gradients of a group, ascending by group index
    covered: range  # indices of groups: each is in the sum afterwards, or was left out of the step
    is_first: bool  # the step's sum of the bucket begins with these gradients
    is_last: bool  # the step's sum of the bucket is complete with these gradients
    num_batches: int  # in the whole step, without those that are left out


@dataclass(frozen=True)
class Update:
    """Let the optimizer step the bucket: the gradients of all batches are there, and no batch can be left out any
    more."""

    step: int
    bucket: int
    num_batches: int  # in the sum
    reduction: Reduce | None  # what is not in the sum yet: may be added up in the same pass over memory

    @property
    def starts_sum(self) -> bool:
        """True if no gradient of this step was added up before."""
        return self.num_batches == 0 if self.reduction is None else self.reduction.is_first


@dataclass(frozen=True)
class AnnounceShare:
    """Send the other machines the report on the batches of this machine's share. The share won't change any more."""

    report: ShareReport


@dataclass(frozen=True)
class SendPartialSum:
    """Send the other machines this machine's sum of one bucket's gradients, which has its whole share."""

    step: int
    bucket: int


@dataclass(frozen=True)
class BadBatch:
    """Leave a batch out of its step. If `is_fatal`, end the run, because there is no step without the batch."""

    step: int
    batch: int
    reason: str
    cursor: Cursor | None  # where the batch begins in the stream; None: another machine has it
    is_fatal: bool
    members: tuple[int, ...] = ()  # that the batch is bad for; empty: all that are trained
    frozen_members: tuple[int, ...] = ()  # that are not trained any more because of the batch
    machine: int | None = None  # the other machine that has the batch


@dataclass(frozen=True)
class CopyBuffers:
    """Copy a member's buffers to the next version of the weights, from where the worker of the step's first batch has
    left them."""

    step: int
    member: int
    source: Contribution | None  # None: the buffers stay as they were before the step, also if some were copied


@dataclass(frozen=True)
class Freeze:
    """Train the member no further. It keeps the weights and the optimizer state from before this step."""

    step: int
    member: int


@dataclass(frozen=True)
class Commit:
    """Complete and publish version step + 1 of the weights: all buckets of the step are updated (I3)."""

    step: int
    losses: tuple[tuple[float, ...], ...]  # by member, then by batch: of those that made the member's step
    next_cursor: Cursor  # where the next step's first batch begins
    unused: tuple[int, ...] = ()  # by member: how many batches in a row were left out; 0 after a good step
    is_validated_next: bool = False  # before anything else is done, the new version is validated
    batches_ready: int = 0  # of later steps, in the ring
    metrics: tuple[MetricValue, ...] = ()  # of a step that is measured: by member the mean over its batches


@dataclass(frozen=True)
class CollectArrays:
    """Copy the arrays that a worker has left for a validation batch, before the worker gets another assignment (I4)."""

    batch: int
    worker: int


@dataclass(frozen=True)
class FinishValidation:
    """Compute each member's metrics from the collected arrays: all batches of a validation are computed. The scheduler
    goes on when it has the results (`StepScheduler.on_validation`)."""

    version: int
    losses: tuple[float, ...]  # by member: mean over the batches


@dataclass(frozen=True)
class ReduceRates:
    """Lower the learning rates of members whose validations have stopped improving."""

    step: int
    rules: Mapping[int, ReduceOnPlateau]  # by member


@dataclass(frozen=True)
class SaveValidation:
    """Put the results of validations into the state, and save the newest version if that is due."""

    validations: Validations
    plateaus: tuple[Plateau, ...]  # by member


@dataclass(frozen=True)
class Notify:
    """Show a line to the run's user."""

    text: str


@dataclass(frozen=True)
class OrderWorker:
    """Send a worker its orders."""

    peer: Peer
    orders: WorkerOrders


@dataclass(frozen=True)
class OrderFeeder:
    """Send the feeder its orders."""

    peer: Peer
    orders: FeederOrders


@dataclass(frozen=True)
class AbortRun:
    """End the run with an error."""

    reason: str


@dataclass(frozen=True)
class EndRun:
    """End the run: all steps are committed and validated, or the run was drained."""


Action = (
    Reduce
    | Update
    | AnnounceShare
    | SendPartialSum
    | BadBatch
    | CopyBuffers
    | Freeze
    | Commit
    | CollectArrays
    | FinishValidation
    | ReduceRates
    | SaveValidation
    | Notify
    | OrderWorker
    | OrderFeeder
    | AbortRun
    | EndRun
)
