"""Defines the exchange, through which workers hand over gradients and read weights: `WorkerExchange`,
`CoordinatorExchange`.

Coordinator and workers use these protocols alone, whatever memory is below. Four words are needed. A *contribution* is
the gradients of one group of consecutive batches, added up by one worker. A *bucket* is parameters whose gradients are
exchanged and whose optimizer is stepped together. *Version* t is the weights after t steps. An *incarnation* is one
life of a process.

Gradients. Each worker has `pool.gradient_slots` slots, which nobody else writes. The coordinator orders which slot a
contribution goes to. A slot has one owner at a time (I4):

- From the order on, the worker owns it. When a bucket has arrived (`WorkerExchange.hand_over`) and the worker reports
  this, the coordinator may read what the bucket holds, and the worker does not write it any more.
- From the end of the last batch, the coordinator owns it, until every bucket is reduced. Then the slot can be ordered
  again.
- After the worker's death the coordinator still owns the slot of a complete contribution. The slot of an incomplete one
  has no owner, and the worker's next incarnation writes it anew. This needs proof that the dead process can't write any
  more. For host memory its readable pidfd proves it. Where it is not proved, since a device may still run what a dead
  process has started, the implementation gives the next incarnation other memory.

Weights. Version t lies in half t mod 2 of the memory, and the coordinator alone writes it (I3). A worker reads version
t from `publish(t)` until its batches of step t have ended.

A batch belongs to one contribution of its step. The rows that the contribution touches stay the same until
`send_version` of the version that the step makes, so an implementation may cache what it derives from them until then.

Bits. Every implementation adds gradients along the tree of `pool.kernels.tree` (I2), and of a table it adds the touched
rows alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from pool.exchange.groups import Contribution
from pool.exchange.plan import Bucket
from pool.kernels.reduction import Addend, Touched

TouchedRows = Callable[[Contribution, str], Touched]  # rows that it touches of a member's tables of a sparse field


class ShardMemory(Protocol):
    """The memory of one shard: what one bucket holds of one parameter, all of it or some rows of a large table.

    An exchange may have several copies of a shard, one on each device. This stands for all of them.
    """

    first_row: int  # feature number of the first row; 0 if the parameter is no table

    @property
    def is_table(self) -> bool:
        """Returns whether the shard belongs to a sparse table. Contributions to a table define only the rows that their
        batches touched."""

    def weights(self, version: int) -> Tensor:
        """Returns the shard's weights, of the newest complete version or of the version that follows it."""

    def read_gradients(self, contributions: Sequence[Contribution]) -> list[Addend]:
        """Returns the shard's gradients in these contributions (each those of a group of batches), to be read once.

        Contributions without a gradient of the shard are left out.
        """

    def sum_memory(self, number: int) -> Tensor:
        """Returns memory for a partial sum of the step in progress, shaped as the shard.

        `number`: from 0 to below `pool.kernels.tree.max_nodes`, or `max_nodes_anywhere` where several machines compute
        a run.
        """

    def reduce(self, out: Tensor, addends: Sequence[Addend], *, scale: float, touched_only: bool) -> None:
        """Reduces gradients: out = (sum of the addends, at least one) * scale.

        `out` may be the memory of one addend. Rows of a table that no addend defines stay as they are with
        `touched_only`, else they become zeros.
        """

    def reduce_node(self, number: int, addends: Sequence[Addend]) -> Addend:
        """Adds up all addends of one node of the summation tree, in the memory `sum_memory(number)`. Returns the sum as
        an addend.

        One of the addends may lie in that memory already.
        """

    def make_addend(self, leaf: int, total: Tensor, touched: Touched | None) -> Addend:
        """Returns a sum as an addend at `leaf` of the tree. `touched`: the rows of a table that the sum defines,
        None for all."""

    def copy_unchanged(
        self, version: int, rows: Touched | None = None, *, but_not: Touched | None = None, share: int = 1
    ) -> None:
        """Copies weights from a complete version to the next one, in every memory that holds the shard.

        `rows`: the rows of a table to copy, by feature number; None copies everything. `but_not`: rows among them that
        are not copied. Both lists ascend. `share`: starts only one in so many of the threads that would be worthwhile.
        """

    def send(self, version: int, rows: Touched | None) -> None:
        """Copies the shard of a new version from its owner to all other memory that holds the shard.

        `weights(version)` is written, or queued to be written, and the version is the one after the newest. `rows`: the
        only rows of a table that were written since the last `copy_unchanged`; None if it may be any.
        """

    def mark_overwritten(self) -> None:
        """Marks the weights that `send` has copied as stale, since `CoordinatorExchange.weights` was written."""


class CoordinatorExchange(Protocol):
    """The coordinator's end of an exchange, for one member (one network of an ensemble)."""

    read_nbytes: int  # bytes of all gradients that were read since the exchange was made

    def shard(self, bucket: Bucket, parameter: int) -> ShardMemory:
        """Returns the memory of the shard of a parameter that lies in the bucket. `parameter`: its index in the
        member's plan."""

    def weights(self, version: int) -> Sequence[Tensor]:
        """Returns all parameters of a version, in the plan's order."""

    def buffers(self, version: int) -> Sequence[Tensor]:
        """Returns the model's tensors that are not trained, of a version, in the plan's order."""

    def average(self) -> Sequence[Tensor]:
        """Returns the memory of the averaged weights: all parameters, then buffers. Empty if the run has no average.

        Workers read the average from `publish` of a version that is validated until that validation has ended.
        """

    def contribution_buffers(self, contribution: Contribution) -> Sequence[Tensor]:
        """Returns the model's buffers as the first batch of a step has left them, in the memory where that batch's
        worker has put them."""

    def gather_version(self) -> None:
        """Makes the newest version complete in the memory of `weights`, where it can then be read and changed.

        Called when every shard of the version was sent by `ShardMemory.send`, or written in `weights`.
        """

    def wait_until_read(self) -> None:
        """Waits until all gradients that were reduced have been read, so that their slots may be written again.

        Does not wait where the writer of the slots waits for this on the device. Raises the error that the device has
        failed with.
        """

    def send_version(self, version: int) -> None:
        """Copies a version to the memory where workers read it. All of the version is written, or queued to be
        written."""

    def send_average(self) -> None:
        """Copies the averaged weights to the memory where workers read them. They are written, or queued to be
        written."""

    def publish(self, version: int) -> None:
        """Lets workers read a version, after `send_version` for all members.

        Returns when the version has arrived, or at once where the worker waits for it on the device. Raises the error
        that the device has failed with.
        """

    def version_bytes(self, version: int) -> bytes:
        """Returns the bytes of a whole version, in the plan's layout."""


@dataclass(frozen=True)
class GroupBatch:
    """One batch of a contribution (the gradients of a group of batches), with the table rows that the batch touches."""

    touched: Mapping[str, Touched]  # rows of tables, by sparse field
    left_out: Collection[int] = ()  # members (networks of an ensemble) whose step leaves the batch out


class WorkerExchange(Protocol):
    """A worker's end of an exchange. It replaces the tensors of the one model that it was made with."""

    uses_compact_rows: bool  # a table's touched rows are passed to `put_gradient`; else to `gradient_memory`

    def load(self, version: int) -> None:
        """Gives the model's parameters and buffers the values of a complete version."""

    def load_average(self, version: int) -> None:
        """Gives the model's parameters and buffers the averaged weights that are validated with this version."""

    def forget_version(self) -> None:
        """Forgets which version was loaded. After the coordinator's death that may be one that was never completed."""

    def start_contribution(self, slot: int, batches: Sequence[GroupBatch]) -> None:
        """Starts a contribution in a slot of the worker's own: the sum of the gradients of these batches, left to
        right.

        For each batch the caller then calls `load`, `start_batch`, and the methods for its gradients.
        """

    def start_batch(self) -> None:
        """Starts the next batch of the contribution."""

    def put_gradient(self, parameter: int, gradient: Tensor) -> Tensor | bool:
        """Adds a parameter's gradient of this batch to the contribution. Of a table it is the touched rows, one after
        the other.

        Nobody changes the gradient afterwards. Returns whether all of it is finite: a bool, or a tensor that
        `read_results` turns into one.
        """

    def gradient_memory(self, parameter: int) -> Tensor:
        """Returns the memory for a table's gradient, in which the rows that the batch touches are to be written. Called
        once a batch."""

    def mark_written(self, parameter: int, bucket: Bucket) -> None:
        """Adds the table's rows of a bucket, which are written in `gradient_memory`, to the contribution."""

    def hand_over(self, bucket: Bucket, on_done: Callable[[], object]) -> Mapping[int, Tensor | bool]:
        """Hands over the gradients of a bucket, which are complete: those of all batches of the contribution.

        Calls `on_done` when the coordinator can read them, or can have its device wait for them: now, or later in
        another thread. Returns, by parameter, whether gradients that are rounded on the way are finite afterwards: a
        bool, or a tensor for `read_results`. What `put_gradient` has checked already is left out.
        """

    def put_buffers(self) -> None:
        """Adds the model's buffers to the contribution."""

    def read_results(self, losses: Tensor, flags: Sequence[Tensor]) -> tuple[list[float], list[bool]]:
        """Ends a contribution. Returns losses and flags as numbers, in the order of the calls.

        `flags`: what `put_gradient` and `hand_over` returned. Returns when the coordinator can read all that was handed
        over, and nothing reads weights or batches any more. Raises the error that the device has failed with.
        """
