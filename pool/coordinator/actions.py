"""What the books tell the coordinator to do. Plain data: the books decide, the coordinator acts."""

from __future__ import annotations

from dataclasses import dataclass

from pool.protocol.identity import Peer
from pool.protocol.messages import CursorState, FeederOrders, WorkerOrders


@dataclass(frozen=True)
class Source:
    """One batch's gradients: which worker's memory, which slot in it, which parameters got none."""

    batch: int
    worker: int
    slot: int
    absent: tuple[int, ...]


@dataclass(frozen=True)
class Fold:
    """Add these batches' gradients of one bucket to the step's sum, left to right (I2)."""

    step: int
    bucket: int
    sources: tuple[Source, ...]
    first: bool  # of the step: the sum begins here
    last: bool  # the sum is complete
    batches: int  # that make the step


@dataclass(frozen=True)
class Update:
    """The optimizer may step the bucket: all batches are there, and what is still to come of this step can't change
    which of them count."""

    step: int
    bucket: int
    batches: int  # in the sum
    fold: Fold | None  # what is not in the sum yet: may be added up in the same pass


@dataclass(frozen=True)
class BadBatch:
    """The batch takes no part in its step; if `fatal`, there is no step without it."""

    step: int
    batch: int
    why: str
    cursor: CursorState  # where it begins in the stream
    fatal: bool


@dataclass(frozen=True)
class TakeBuffers:
    """The model's buffers after the step's first batch become those of the next version."""

    step: int
    source: Source | None  # None: the old ones stay, also if some have been taken


@dataclass(frozen=True)
class Commit:
    """All buckets of the step are folded: version step + 1 is complete (I3)."""

    step: int
    losses: tuple[float, ...]  # of the batches that made the step, in batch order
    next_cursor: CursorState  # where the next step's first batch begins
    validated_next: bool = False  # before anything else is done, the new version is validated


@dataclass(frozen=True)
class Validated:
    """The mean loss of the validation batches with this version of the weights."""

    version: int
    loss: float


@dataclass(frozen=True)
class OrderWorker:
    peer: Peer
    orders: WorkerOrders


@dataclass(frozen=True)
class OrderFeeder:
    peer: Peer
    orders: FeederOrders


@dataclass(frozen=True)
class GiveUp:
    """The run can't go on."""

    why: str


@dataclass(frozen=True)
class End:
    """Nothing is left to do: all steps are committed and validated, or the run was told to drain."""


Action = Fold | Update | BadBatch | TakeBuffers | Commit | Validated | OrderWorker | OrderFeeder | GiveUp | End
