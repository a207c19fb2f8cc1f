"""Collects gradients in backward and hands them over to the exchange, bucket by bucket. A bucket is parameters that
are stepped together.

A parameter's gradient is written to its slot as soon as autograd has accumulated it. A table's own backward writes the
rows of its gradient there; a large table is cut into several buckets of rows. The gradients of a group's batches are
added up. A bucket is announced in the group's last batch, when it has all its gradients. The last bucket of each member
(network of an ensemble) is announced when all numbers of the member are known to be finite. The last bucket of all is
not announced, because the end of the group implies it. Which parameters got no gradient is known at the end.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from loader.plugins.error_text import PluginError
from pool.exchange.interface import GroupBatch, WorkerExchange
from pool.exchange.layout import join_plans, list_bucket_members
from pool.exchange.plan import Plan
from pool.exchange.tensors import find_row_sparse_tables, trained_parameters
from pool.protocol.messages import Outcome


@dataclass(frozen=True)
class _Check:
    """The result of a check that a gradient is finite: of one batch's, or of the group's sum as it is handed over."""

    batch_index: int  # in the group; for the group's sum, the last one
    parameter: int
    handed_over: bool
    finite: torch.Tensor | bool


class GradientWriter:
    """Writes the gradients of all members to the exchange, by hooks on their parameters. Announcements may come from
    autograd's own threads."""

    def __init__(self, model: nn.Module, plans: Sequence[Plan], exchange: WorkerExchange) -> None:
        """Registers the hooks through which the gradients of `model` are written. `model`: holds the models of all
        members (networks of an ensemble). `plans`: one for each member."""
        self._plan = plan = join_plans(plans)
        self._members = range(len(plans))
        self._member_of = list_bucket_members(plans)
        self._exchange = exchange
        self._parameters = [parameter for _, parameter in trained_parameters(model)]
        self._index: dict[torch.Tensor, int] = {parameter: i for i, parameter in enumerate(self._parameters)}
        self._buckets_of: dict[int, list[int]] = defaultdict(list)  # several for a table that is cut in rows
        for b, bucket in enumerate(plan.buckets):
            for i in bucket.parameters:
                self._buckets_of[i].append(b)
        self._on_bucket: Callable[[int], object] | None = None
        self._remaining: list[GroupBatch] = []  # batches of the group that are not finished, the one in work first
        self._frozen: Collection[int] = ()
        self._present: set[int] = set()  # parameters that got a gradient from any batch of the group
        self._doubtful: set[int] = set()  # members with a number in the group that is not known to be finite
        self._to_hand_over: set[int] = set()  # buckets that were not handed over yet
        self._batch_index = -1  # in the group, of the batch in work
        self._checks: list[_Check] = []  # of the group, in the order in which the exchange made them
        self._expected: list[int] = []  # buckets of the members that take part in the batch in work
        self._missing: list[set[int]] = []  # by bucket: parameters without a gradient in this batch so far
        self._withheld: dict[int, int] = {}  # by member: its last bucket, complete but not announced
        for parameter in self._parameters:
            parameter.register_post_accumulate_grad_hook(self._write_gradient)  # type: ignore[no-untyped-call]
        self._tables: set[torch.Tensor] = set()  # weights whose gradient comes through the sink
        for table in find_row_sparse_tables(model):
            if exchange.uses_compact_rows:
                table.rows_sink = self
            else:
                table.gradient_sink = self
            self._tables.add(table.weight)

    def start_group(
        self,
        slot: int,
        batches: Sequence[GroupBatch],
        on_bucket: Callable[[int], object],
        frozen: Collection[int] = (),
    ) -> None:
        """Starts a group of batches whose gradients are added up in gradient slot `slot`. `on_bucket`: called with each
        bucket as it completes. `frozen`: members that are not trained, whose gradients are not waited for."""
        self._exchange.start_contribution(slot, batches)
        self._remaining = list(batches)
        self._on_bucket = on_bucket
        self._frozen = frozen
        self._present, self._doubtful, self._withheld = set(), set(), {}
        self._batch_index, self._checks = -1, []
        self._to_hand_over = {b for b, member in enumerate(self._member_of) if member not in frozen}

    def start_batch(self) -> Collection[int]:
        """Starts the next batch of the group, before its forward. Returns the members (networks of an ensemble) that
        take no part in it."""
        self._exchange.start_batch()
        self._batch_index += 1
        self._missing = [set(bucket.parameters) for bucket in self._plan.buckets]
        excluded = {*self._frozen, *self._remaining[0].left_out}
        self._expected = [b for b, member in enumerate(self._member_of) if member not in excluded]
        return excluded

    def end_members(self, members: Iterable[int], losses: torch.Tensor) -> None:
        """Ends backward of some members in the batch in work. `losses`: one for each of them.

        In the group's last batch it announces the last bucket of each member whose numbers are all finite, except the
        last bucket of all. On a GPU it does nothing, because the numbers are not known before the end of the group.
        """
        if losses.device.type != "cpu":
            return
        for member, loss in zip(members, losses.tolist(), strict=True):
            if len(self._member_of) > 1 and not (math.isfinite(loss) and self._is_finite(member)):
                self._doubtful.add(member)
        is_last_batch = len(self._remaining) <= 1
        if not is_last_batch or not any(self._missing[b] for b in self._expected):
            return
        for member in members:
            last_bucket = self._withheld.pop(member, None)
            if last_bucket is not None and self._on_bucket is not None and member not in self._doubtful:
                self._on_bucket(last_bucket)

    def end_batch(self) -> None:
        """Ends a batch of the group, after backward of all members."""
        del self._remaining[0]

    def end_group(self) -> tuple[int, ...]:
        """Ends the group after its last batch: hands over the remaining buckets. Returns the parameters that got no
        gradient from any batch, by index."""
        for b in sorted(self._to_hand_over):
            self._hand_over(b, _announce_nothing)
        trained = [b for b, member in enumerate(self._member_of) if member not in self._frozen]
        parameters = {index for b in trained for index in self._plan.buckets[b].parameters}
        return tuple(sorted(parameters - self._present))

    def read_outcomes(self, losses: torch.Tensor) -> list[Outcome]:
        """Waits until the gradients of a group of batches have arrived, and returns the outcome of each batch: the
        losses, and for each member what is not finite, the loss or the first such parameter. `losses`: [batches,
        members]. Raises the error that the device has failed with.

        If a parameter's gradients are finite in all batches but their rounded sum is not, the last batch is blamed.
        """
        on_device = [check.finite for check in self._checks if isinstance(check.finite, torch.Tensor)]
        numbers, results = self._exchange.read_results(losses.flatten(), on_device)
        flags = self._join_flags(results)
        outcomes = []
        for index, batch_flags in enumerate(flags):
            batch_losses = numbers[index * len(self._members) :][: len(self._members)]
            outcomes.append(Outcome(tuple(batch_losses), self._find_unsound(batch_losses, batch_flags)))
        return outcomes

    def _join_flags(self, results: Iterable[bool]) -> list[dict[int, bool]]:
        """Returns, for each batch of the group, whether the gradient of each of its parameters is finite.

        `results`: of the checks whose result lies on the device, in their order.
        """
        on_device = iter(results)
        flags: list[dict[int, bool]] = [{} for _ in range(self._batch_index + 1)]
        infinite_sums: set[int] = set()
        for check in self._checks:
            finite = next(on_device) if isinstance(check.finite, torch.Tensor) else check.finite
            if not check.handed_over:
                flags[check.batch_index][check.parameter] = finite
            elif not finite:
                infinite_sums.add(check.parameter)
        for parameter in infinite_sums:
            with_parameter = [batch_flags for batch_flags in flags if parameter in batch_flags]
            if all(batch_flags[parameter] for batch_flags in with_parameter):
                with_parameter[-1][parameter] = False
        return flags

    def _is_finite(self, member: int) -> bool:
        """Returns whether all gradients of a member are finite, those of the batch in work and the group's sums that
        were handed over in it."""
        return all(
            bool(check.finite)
            for check in self._checks
            if check.batch_index == self._batch_index and self._member_of_parameter(check.parameter) == member
        )

    def _find_unsound(self, losses: Sequence[float], flags: Mapping[int, bool]) -> tuple[str, ...]:
        """Returns for each member what is not finite in a batch: "the loss", or the name of the first parameter; "" if
        all is finite. `losses`: one for each member. `flags`: by parameter, whether its gradient is finite; members
        that take no part have none."""
        unsound = ["" if math.isfinite(loss) else "the loss" for loss in losses]
        for index, finite in flags.items():
            member = self._member_of_parameter(index)
            if not finite and not unsound[member]:
                unsound[member] = self._plan.parameters[index].name
        return tuple(unsound)

    def _member_of_parameter(self, index: int) -> int:
        return self._member_of[self._buckets_of[index][0]]

    # --- called by the backward of a table layer (`SparseLinear`), see TableSink and RowsSink there ---

    def start_gradient(self, weight: torch.Tensor) -> tuple[torch.Tensor, Sequence[int]]:
        """Returns the memory to which a layer writes its table's gradient, and the rows at which the table's buckets
        end. Raises PluginError if the table got a gradient before in this batch."""
        index = self._find_table(weight)
        rows_of_buckets = [self._plan.buckets[b].rows for b in self._buckets_of[index]]
        borders = [weight.shape[0] if rows is None else rows[1] for rows in rows_of_buckets]
        return self._exchange.gradient_memory(index), borders

    def accept_rows(self, weight: torch.Tensor, rows: torch.Tensor) -> None:
        """Writes the touched rows of a table's gradient. Raises PluginError if the table got a gradient before in this
        batch."""
        index = self._find_table(weight)
        self._add_check(index, self._exchange.put_gradient(index, rows))
        for bucket in self._buckets_of[index]:
            self._complete_shard(index, bucket)

    def report_written(self, weight: torch.Tensor, rows: int) -> None:
        """Completes the table's buckets up to row `rows` of its gradient, below which all touched rows are written."""
        index = self._index[weight]
        for b in self._buckets_of[index]:
            bucket = self._plan.buckets[b]
            end = weight.shape[0] if bucket.rows is None else bucket.rows[1]
            if index in self._missing[b] and end <= rows:
                self._exchange.mark_written(index, bucket)
                self._complete_shard(index, b)

    def finish_gradient(self, weight: torch.Tensor, finite: torch.Tensor | bool) -> None:
        """Records whether a table's gradient, all of which is written, is finite. On a GPU `finite` is a tensor that is
        known later."""
        self._add_check(self._index[weight], finite)

    # --- the bookkeeping of buckets ---

    def _find_table(self, weight: torch.Tensor) -> int:
        """Returns the index of a table that gets its gradient now. Raises PluginError if it got one before in this
        batch."""
        index = self._index[weight]
        if index not in self._missing[self._buckets_of[index][0]]:
            name = self._plan.parameters[index].name
            raise PluginError(f"{name} is used by two layers in one backward, but its slot holds one gradient")
        return index

    def _write_gradient(self, parameter: nn.Parameter) -> None:
        """Writes the gradient of a parameter to the exchange. Autograd calls this when the gradient is accumulated.

        Raises PluginError for a sparse gradient, and for one that a table got from elsewhere than its own layer.
        """
        gradient = parameter.grad
        if gradient is None:  # a table's gradient has gone to the table's sink
            return
        index = self._index[parameter]
        if gradient.layout != torch.strided:
            raise PluginError(
                f"{self._plan.parameters[index].name} gets a gradient that is sparse, and only dense ones travel: make "
                "its layer with sparse=False, or use pool.SparseLinear, of which the rows that a batch touches travel"
            )
        if parameter in self._tables:
            raise PluginError(
                f"{self._plan.parameters[index].name} gets a gradient from elsewhere than its SparseLinear (a "
                "penalty on it, another use of it), but only the rows that a batch touches travel"
            )
        self._add_check(index, self._exchange.put_gradient(index, gradient))
        parameter.grad = None
        self._complete_shard(index, self._buckets_of[index][0])

    def _complete_shard(self, index: int, bucket: int) -> None:
        """Records that what a bucket holds of a parameter's gradient is written.

        In the group's last batch the bucket is handed over if it is complete, and announced unless it is the member's
        last one.
        """
        self._present.add(index)
        missing = self._missing[bucket]
        missing.discard(index)
        if missing or len(self._remaining) > 1:
            return
        member = self._member_of[bucket]
        is_last = not any(self._missing[b] for b in self._expected if self._member_of[b] == member)
        if is_last:
            self._withheld[member] = bucket
        on_done: Callable[[], object] = _announce_nothing
        if not is_last and self._on_bucket is not None:
            on_done = partial(self._on_bucket, bucket)
        self._to_hand_over.discard(bucket)
        self._hand_over(bucket, on_done)

    def _hand_over(self, bucket: int, on_done: Callable[[], object]) -> None:
        """Hands a bucket's gradients over to the coordinator, and checks those that are rounded on the way. `on_done`:
        called when the coordinator can read them."""
        for parameter, finite in self._exchange.hand_over(self._plan.buckets[bucket], on_done).items():
            self._add_check(parameter, finite, handed_over=True)

    def _add_check(self, parameter: int, finite: torch.Tensor | bool, *, handed_over: bool = False) -> None:
        self._checks.append(_Check(self._batch_index, parameter, handed_over, finite))


def _announce_nothing() -> None:
    """Announces nothing: for a member's last bucket, which `end_members` announces, for the last bucket of all, and for
    buckets without gradients, which the end of the group implies."""
