"""Actions that the books decide on. Plain data; `Hands` carry them out.

There are three implementations of `Hands`: the coordinator's, its history for tests, the simulated coordinator's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from loader.stream.interface import Cursor
from pool.exchange.contribution import Contribution
from pool.protocol.identity import Peer
from pool.protocol.messages import FeederOrders, WorkerOrders


@dataclass(frozen=True)
class Fold:
    """Add these gradients of one bucket to the step's sum before the rest of it is there (I2)."""

    step: int
    bucket: int
    contributions: tuple[Contribution, ...]  # those that come next, ascending by place
    first: bool  # of the step: the sum begins here
    last: bool  # the sum is complete
    batches: int  # that make the step

    def carry_out(self, hands: Hands) -> None:
        hands.fold(self)


@dataclass(frozen=True)
class Update:
    """The optimizer may step the bucket: its gradients of all batches are there, and no batch can be left out any
    more."""

    step: int
    bucket: int
    batches: int  # in the sum
    fold: Fold | None  # what is not in the sum yet: may be added up in the same pass

    @property
    def begins(self) -> bool:
        """Nothing of this step is in the sum yet."""
        return self.batches == 0 if self.fold is None else self.fold.first

    def carry_out(self, hands: Hands) -> None:
        hands.update(self)


@dataclass(frozen=True)
class BadBatch:
    """The batch takes no part in its step; if `fatal`, there is no step without it."""

    step: int
    batch: int
    why: str
    cursor: Cursor  # where it begins in the stream
    fatal: bool
    members: tuple[int, ...] = ()  # that it is bad for; empty: all that are trained
    freezes: tuple[int, ...] = ()  # members that go no further because of it

    def carry_out(self, hands: Hands) -> None:
        hands.bad_batch(self)


@dataclass(frozen=True)
class TakeBuffers:
    """A member's buffers after the step's first batch become those of the next version."""

    step: int
    member: int
    source: Contribution | None  # None: the old ones stay, also if some have been taken

    def carry_out(self, hands: Hands) -> None:
        hands.take_buffers(self)


@dataclass(frozen=True)
class Freeze:
    """The member keeps the weights and the state of the optimizer that it has before this step."""

    step: int
    member: int

    def carry_out(self, hands: Hands) -> None:
        hands.freeze(self)


@dataclass(frozen=True)
class Commit:
    """All buckets of the step are folded: version step + 1 is complete (I3)."""

    step: int
    losses: tuple[tuple[float, ...], ...]  # of each member: of the batches that made its step, in their order
    next_cursor: Cursor  # where the next step's first batch begins
    unused: tuple[int, ...] = ()  # of each member: batches of its last steps, where it has lost all of them
    validated_next: bool = False  # before anything else is done, the new version is validated

    def carry_out(self, hands: Hands) -> None:
        hands.commit(self)


@dataclass(frozen=True)
class Collect:
    """What the worker has collected of this validation batch is taken, before anything else is assigned to it (I4)."""

    batch: int
    worker: int

    def carry_out(self, hands: Hands) -> None:
        hands.collect(self)


@dataclass(frozen=True)
class Validated:
    """The mean losses of the validation batches with this version of the weights, one a member. The books go on when
    they are told what follows from it (`Books.judged`)."""

    version: int
    losses: tuple[float, ...]

    def carry_out(self, hands: Hands) -> None:
        hands.validated(self)


@dataclass(frozen=True)
class OrderWorker:
    peer: Peer
    orders: WorkerOrders

    def carry_out(self, hands: Hands) -> None:
        hands.order_worker(self)


@dataclass(frozen=True)
class OrderFeeder:
    peer: Peer
    orders: FeederOrders

    def carry_out(self, hands: Hands) -> None:
        hands.order_feeder(self)


@dataclass(frozen=True)
class GiveUp:
    """The run can't go on."""

    why: str

    def carry_out(self, hands: Hands) -> None:
        hands.give_up(self)


@dataclass(frozen=True)
class End:
    """Nothing is left to do: all steps are committed and validated, or the run was told to drain."""

    def carry_out(self, hands: Hands) -> None:
        hands.end(self)


Action = (
    Fold
    | Update
    | BadBatch
    | TakeBuffers
    | Freeze
    | Commit
    | Collect
    | Validated
    | OrderWorker
    | OrderFeeder
    | GiveUp
    | End
)


class Hands(Protocol):
    """A method for each action. Actions are carried out in their order, each to its end."""

    def fold(self, action: Fold) -> None: ...
    def update(self, action: Update) -> None: ...
    def take_buffers(self, action: TakeBuffers) -> None: ...
    def freeze(self, action: Freeze) -> None: ...
    def commit(self, action: Commit) -> None: ...
    def bad_batch(self, action: BadBatch) -> None: ...
    def collect(self, action: Collect) -> None: ...
    def validated(self, action: Validated) -> None: ...
    def order_worker(self, action: OrderWorker) -> None: ...
    def order_feeder(self, action: OrderFeeder) -> None: ...
    def give_up(self, action: GiveUp) -> None: ...
    def end(self, action: End) -> None: ...
