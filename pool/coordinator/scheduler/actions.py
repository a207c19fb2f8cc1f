"""Actions that the scheduler decides on: plain data. They are carried out in their order, each to its end, by the
coordinator's executor and by the simulated coordinator of the tests."""

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
    """Add these gradients of one bucket to the step's sum before the rest of it is there (I2)."""

    step: int
    bucket: int
    contributions: tuple[Contribution, ...]  # each the gradients of a group, in a gradient slot; ascending by place
    places: range  # that the sum covers afterwards; a group without a contribution at one of them was left out
    first: bool  # the sum of the step begins with these
    last: bool  # the sum is complete with these
    batches: int  # in the whole step, those that are left out not counted


@dataclass(frozen=True)
class Update:
    """The optimizer may step the bucket: its gradients of all batches are there, and no batch can be left out any
    more."""

    step: int
    bucket: int
    batches: int  # in the sum
    reduction: Reduce | None  # what is not in the sum yet: may be added up in the same pass

    @property
    def begins(self) -> bool:
        """Nothing of this step is in the sum yet."""
        return self.batches == 0 if self.reduction is None else self.reduction.first


@dataclass(frozen=True)
class AnnounceShare:
    """Tell the other machines what the batches of this one's share have come to: nothing of that will change."""

    report: ShareReport


@dataclass(frozen=True)
class SendPartialSum:
    """Send the other machines what is in the sum of one bucket: all of this machine's share."""

    step: int
    bucket: int


@dataclass(frozen=True)
class BadBatch:
    """The batch takes no part in its step; if `fatal`, there is no step without it."""

    step: int
    batch: int
    why: str
    cursor: Cursor | None  # where it begins in the stream; None: another machine has it
    fatal: bool
    members: tuple[int, ...] = ()  # that it is bad for; empty: all that are trained
    freezes: tuple[int, ...] = ()  # members that go no further because of it
    machine: int | None = None  # the other one


@dataclass(frozen=True)
class CopyBuffers:
    """A member's buffers after the step's first batch become those of the next version."""

    step: int
    member: int
    source: Contribution | None  # None: the old ones stay, also if some have been taken


@dataclass(frozen=True)
class Freeze:
    """The member keeps the weights and the state of the optimizer that it has before this step."""

    step: int
    member: int


@dataclass(frozen=True)
class Commit:
    """All buckets of the step are updated: version step + 1 of the weights is to be completed and published (I3)."""

    step: int
    losses: tuple[tuple[float, ...], ...]  # of each member: of the batches that made its step, in their order
    next_cursor: Cursor  # where the next step's first batch begins
    unused: tuple[int, ...] = ()  # of each member: how many batches in a row it could not use; 0 after a good step
    validated_next: bool = False  # before anything else is done, the new version is validated
    ready: int = 0  # batches of later steps that are in the ring
    metrics: tuple[MetricValue, ...] = ()  # of a step that is measured: of each member the mean over its batches


@dataclass(frozen=True)
class CollectArrays:
    """Take the arrays that the worker has collected of this validation batch, before anything else is assigned to it
    (I4)."""

    batch: int
    worker: int


@dataclass(frozen=True)
class FinishValidation:
    """All batches of a validation are computed: make each member's numbers of what was collected. The scheduler goes on
    when it has them (`StepScheduler.measured`)."""

    version: int
    losses: tuple[float, ...]  # means of the batches, one a member


@dataclass(frozen=True)
class ReduceRates:
    """The validations of these members get no better: the next steps are made with lower learning rates."""

    step: int
    rules: Mapping[int, ReduceOnPlateau]  # by member


@dataclass(frozen=True)
class SaveValidation:
    """The newest version is validated: the state holds what is known now, and what is due is saved."""

    known: Validations
    plateaus: tuple[Plateau, ...]  # of each member


@dataclass(frozen=True)
class Notify:
    """A line for the run's user."""

    text: str


@dataclass(frozen=True)
class OrderWorker:
    peer: Peer
    orders: WorkerOrders


@dataclass(frozen=True)
class OrderFeeder:
    peer: Peer
    orders: FeederOrders


@dataclass(frozen=True)
class AbortRun:
    """The run can't go on."""

    why: str


@dataclass(frozen=True)
class EndRun:
    """Nothing is left to do: all steps are committed and validated, or the run was told to drain."""


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
