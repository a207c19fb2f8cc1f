"""The interface of an exchange at both ends. Coordinator and workers know nothing else of it.

Gradients. Each worker has `pool.gradient_slots` slots that only it writes. The coordinator orders which one a
contribution goes to. The owner of a slot (I4):

- from the order on the worker, until a bucket has arrived (`WorkerExchange.hand_over`) and it says so: what the bucket
  holds is then the coordinator's to read, and the worker writes it no more;
- the coordinator, from the end of the last batch until every bucket is folded; then the slot can be ordered again;
- after the worker's death, for a contribution that was complete, still the coordinator; one that was not has no owner,
  and the next incarnation writes the slot anew. This holds where a dead process can't write any more. For host memory
  that is certain once its pidfd is readable. An implementation for which it is not proved (a device may still run what
  a dead process has started) gives the next incarnation other memory.

Weights. Version t lies in place t mod 2, and the coordinator alone writes it (I3). A worker reads version t from
`publish(t)` until its batches of step t have ended.

A batch of a step has one contribution, whose rows are the same until `give_out` of the version that the step makes: an
implementation may keep what it knows of them so long.

Bits. Every implementation adds up along the tree of `pool.kernels.tree` (I2), and of a table the touched rows alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from pool.exchange.groups import Contribution
from pool.exchange.plan import Bucket
from pool.kernels.fold import Addend, Touched

TouchedRows = Callable[[Contribution, str], Touched]  # of a member's tables of that sparse field


class PieceMemory(Protocol):
    """The memory of one bucket's part of a parameter, in all the memory of an exchange: all of it, or some rows."""

    first_row: int  # feature of the first row; 0 of what is no table

    @property
    def is_table(self) -> bool:
        """Contributions define the rows alone that their batches touched."""

    def weights(self, version: int) -> Tensor:
        """The weights of the newest complete version, or of the one that follows it."""

    def take(self, contributions: Sequence[Contribution]) -> list[Addend]:
        """The gradients of those that have one, to be read once."""

    def sum(self, number: int) -> Tensor:
        """Memory for a sum of the step in progress; 0 .. `order.most_nodes` - 1."""

    def fold(self, out: Tensor, addends: Sequence[Addend], *, scale: float, touched_only: bool) -> None:
        """out = (sum of the addends, at least one) * scale. `out` may be one of them; with `touched_only`, rows of a
        table that none of them defines are left alone, else they become zeros."""

    def node(self, number: int, addends: Sequence[Addend]) -> Addend:
        """The sum of the addends, which are a whole node of the tree, in the memory of that number: an addend of its
        own. One of them may lie there."""

    def addend(self, place: int, total: Tensor, touched: Touched | None) -> Addend:
        """A sum as an addend; `touched`: of a table the rows that it defines, None: all."""

    def copy_over(
        self, version: int, rows: Touched | None = None, *, but_not: Touched | None = None, share: int = 1
    ) -> None:
        """From a complete version to the next one, wherever the piece lies: all of it, or of a table the rows numbered
        as features; both lists ascend. `share`: of the threads that are worth starting one in so many."""

    def give_out(self, version: int, rows: Touched | None) -> None:
        """`weights` of the version that follows the newest one are written, or queued to be: they go to where else the
        piece lies. `rows`: of a table, which alone were written since the last `copy_over`; None: any."""

    def overwritten(self) -> None:
        """The weights given out are stale: a new version was written in their place (`CoordinatorExchange.weights`)."""


class CoordinatorExchange(Protocol):
    """The coordinator's end."""

    read_nbytes: int  # of gradients that were taken, since the beginning

    def piece(self, bucket: Bucket, parameter: int) -> PieceMemory:
        """Returns the memory of a parameter in the bucket, by index in the plan."""

    def weights(self, version: int) -> Sequence[Tensor]:
        """All parameters of a version, in the plan's order."""

    def buffers(self, version: int) -> Sequence[Tensor]:
        """The rest of the model."""

    def average(self) -> Sequence[Tensor]:
        """The memory of the averaged weights, if the run has them: all parameters, then buffers. Workers read them from
        `publish` of a version that is validated until that has ended."""

    def buffers_of(self, contribution: Contribution) -> Sequence[Tensor]:
        """The buffers after the first batch of a step, where its worker has put them."""

    def gather(self) -> None:
        """All pieces of a version are given out, or written in `weights`: from now on it is whole there, to be read and
        to be changed."""

    def settle(self) -> None:
        """Returns when all that was folded has been read, or where its slots' writer waits for that on the device.
        Raises what the device has failed with."""

    def give_out(self, version: int) -> None:
        """All of it is written, or queued to be: it is brought to where workers read it."""

    def give_out_average(self) -> None:
        """The averaged weights are written, or queued to be: the same."""

    def publish(self, version: int) -> None:
        """After `give_out` of all members: workers may read it. Returns when it is there, or where the worker waits for
        it on the device. Raises what the device has failed with."""

    def newest(self, version: int) -> bytes:
        """All of a version, as it lies in memory."""


@dataclass(frozen=True)
class GroupBatch:
    """One batch of a contribution."""

    touched: Mapping[str, Touched]  # rows of tables, by sparse field
    left_out: Collection[int] = ()  # members in whose step it is not


class WorkerExchange(Protocol):
    """A worker's end, for the model that it was made with, whose tensors it replaces."""

    puts_rows: bool  # a table's touched rows are `put`; else they are written where `rows` says

    def load(self, version: int) -> None:
        """The model's parameters and buffers become those of a complete version."""

    def load_average(self, version: int) -> None:
        """They become the averaged weights, as they are when that version is validated."""

    def forget(self) -> None:
        """Forgets what was loaded: it may be of a version that was never completed, since its coordinator died."""

    def begin(self, slot: int, batches: Sequence[GroupBatch]) -> None:
        """Gradients of a contribution go to this slot of the worker's own: the sum of these batches', left to right. Of
        each of them come `load`, `begin_batch`, its gradients."""

    def begin_batch(self) -> None:
        """The next of them."""

    def put(self, parameter: int, gradient: Tensor) -> Tensor | bool:
        """Takes a parameter's gradient, which nobody changes afterwards; of a table its touched rows. Whether all of it
        is finite; a tensor is for `read`."""

    def rows(self, parameter: int) -> Tensor:
        """Returns the memory where a table's gradient is to be written, row by row: the batch's touched ones only.
        Asked once a batch."""

    def written(self, parameter: int, bucket: Bucket) -> None:
        """The rows that the bucket holds are where `rows` said."""

    def hand_over(self, bucket: Bucket, then: Callable[[], object]) -> Mapping[int, Tensor | bool]:
        """The bucket's gradients are complete, of all batches. Calls `then`, now or later in another thread, when the
        coordinator can read them, or can have its device wait for them. Of parameters that are rounded on the way,
        whether all is finite then, unless `put` has looked at that; a tensor is for `read`."""

    def put_buffers(self) -> None:
        """The model's buffers go along with the contribution."""

    def read(self, losses: Tensor, flags: Sequence[Tensor]) -> tuple[list[float], list[bool]]:
        """The end of a contribution: losses and what `put` and `hand_over` gave, in the order of the calls, as numbers.
        Returns when the coordinator can read all that was handed over, and nothing reads weights or batches any more.
        Raises what the device has failed with."""
