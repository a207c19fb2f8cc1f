"""Takes gradients out of backward and hands them over to the exchange, bucket by bucket. A bucket is parameters that
are stepped together.

A parameter's gradient is written to its slot as soon as autograd has accumulated it. A table's own backward writes the
rows of its gradient there; a large table is cut into several buckets of rows. The gradients of a group's batches are
added up. A bucket is announced in the group's last batch, when the last gradient that it holds is there. The last
bucket of each member (network of an ensemble) is announced when all numbers of the member are known to be finite. The
last bucket of all is not announced, because the end of the group implies it. Which parameters got no gradient is known
at the end.
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
from pool.exchange.layout import joined, member_of_bucket
from pool.exchange.plan import Plan
from pool.exchange.tensors import row_sparse_tables, trained
from pool.protocol.messages import Outcome

Announce = Callable[[int], None]  # called with the number of a bucket


@dataclass(frozen=True)
class _Check:
    """The result of a check that a gradient is finite: of one batch's, or of the group's sum as it is handed over."""

    batch: int  # index in the group; for the group's sum, the last one
    parameter: int
    handed_over: bool
    finite: torch.Tensor | bool


class GradientWriter:
    """Writes the gradients of all members to the exchange, by hooks on their parameters. Announcements may come from
    autograd's own threads."""

    def __init__(self, model: nn.Module, plans: Sequence[Plan], exchange: WorkerExchange) -> None:
        """Registers the hooks through which the gradients of `model` are taken. `model`: holds the models of all
        members (networks of an ensemble). `plans`: one for each member."""
        self._plan = plan = joined(plans)
        self._members = range(len(plans))
        self._member_of = member_of_bucket(plans)
        self._exchange = exchange
        self._parameters = [parameter for _, parameter in trained(model)]
        self._index: dict[torch.Tensor, int] = {parameter: i for i, parameter in enumerate(self._parameters)}
        self._buckets_of: dict[int, list[int]] = defaultdict(list)  # several for a table that is cut in rows
        for b, bucket in enumerate(plan.buckets):
            for i in bucket.parameters:
                self._buckets_of[i].append(b)
        self._announce: Announce | None = None
        self._left: list[GroupBatch] = []  # batches of the group that are not finished, the one in work first
        self._frozen: Collection[int] = ()
        self._present: set[int] = set()  # parameters that got a gradient from any batch of the group
        self._doubtful: set[int] = set()  # members with a number in the group that is not known to be finite
        self._to_hand_over: set[int] = set()  # buckets that were not handed over yet
        self._batch = -1  # index in the group of the batch in work
        self._checks: list[_Check] = []  # of the group, in the order in which the exchange made them
        self._expected: list[int] = []  # buckets of the members that take part in the batch in work
        self._missing: list[set[int]] = []  # by bucket: parameters whose gradient is not there yet in this batch
        self._withheld: dict[int, int] = {}  # by member: its last bucket, complete but not announced
        for parameter in self._parameters:
            parameter.register_post_accumulate_grad_hook(self._accumulated)  # type: ignore[no-untyped-call]
        self._tables: set[torch.Tensor] = set()  # weights whose gradient comes through the sink
        for table in row_sparse_tables(model):
            if exchange.puts_rows:
                table.rows_sink = self
            else:
                table.gradient_sink = self
            self._tables.add(table.weight)

    def begin_group(
        self, slot: int, batches: Sequence[GroupBatch], announce: Announce, frozen: Collection[int] = ()
    ) -> None:
        """Begins a group of batches whose gradients are added up in gradient slot `slot`. `announce`: called with each
        bucket as it completes. `frozen`: members that are not trained, whose gradients are not waited for."""
        self._exchange.begin(slot, batches)
        self._left = list(batches)
        self._announce = announce
        self._frozen = frozen
        self._present, self._doubtful, self._withheld = set(), set(), {}
        self._batch, self._checks = -1, []
        self._to_hand_over = {b for b, member in enumerate(self._member_of) if member not in frozen}

    def begin_batch(self) -> Collection[int]:
        """Begins the next batch of the group, before its forward. Returns the members (networks of an ensemble) that
        take no part in it."""
        self._exchange.begin_batch()
        self._batch += 1
        self._missing = [set(bucket.parameters) for bucket in self._plan.buckets]
        out = {*self._frozen, *self._left[0].left_out}
        self._expected = [b for b, member in enumerate(self._member_of) if member not in out]
        return out

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
        if len(self._left) > 1 or not any(self._missing[b] for b in self._expected):
            return
        for member in members:
            last = self._withheld.pop(member, None)
            if last is not None and self._announce is not None and member not in self._doubtful:
                self._announce(last)

    def end_batch(self) -> None:
        """Ends a batch of the group, after backward of all members."""
        del self._left[0]

    def end_group(self) -> tuple[int, ...]:
        """Ends the group after its last batch: hands over the buckets that are left. Returns the parameters that got no
        gradient from any batch, by index."""
        for b in sorted(self._to_hand_over):
            self._hand_over(b, _tell_nobody)
        parameters = (
            i
            for b, member in enumerate(self._member_of)
            if member not in self._frozen
            for i in self._plan.buckets[b].parameters
        )
        return tuple(sorted({*parameters} - self._present))

    def read(self, losses: torch.Tensor) -> list[Outcome]:
        """Waits until the gradients of a group of batches have arrived, and returns the outcome of each batch: the
        losses, and for each member what is not finite, the loss or the first such parameter. `losses`: [batches,
        members]. Raises what the device has failed with.

        If a parameter's gradients are finite in all batches but their rounded sum is not, the last batch is blamed.
        """
        later = [check.finite for check in self._checks if isinstance(check.finite, torch.Tensor)]
        numbers, results = self._exchange.read(losses.flatten(), later)
        arrived = iter(results)
        flags: list[dict[int, bool]] = [{} for _ in range(self._batch + 1)]
        too_large: set[int] = set()
        for check in self._checks:
            finite = next(arrived) if isinstance(check.finite, torch.Tensor) else check.finite
            if not check.handed_over:
                flags[check.batch][check.parameter] = finite
            elif not finite:
                too_large.add(check.parameter)
        for parameter in too_large:
            own = [known for known in flags if parameter in known]
            own[-1][parameter] &= not all(known[parameter] for known in own)
        outcomes = []
        for i, known in enumerate(flags):
            own_losses = numbers[i * len(self._members) :][: len(self._members)]
            outcomes.append(Outcome(tuple(own_losses), self._unsound(own_losses, known)))
        return outcomes

    def _is_finite(self, member: int) -> bool:
        """True if all gradients of a member are finite, those of the batch in work and the group's sums that were
        handed over in it."""
        return all(
            bool(check.finite)
            for check in self._checks
            if check.batch == self._batch and self._member_of[self._buckets_of[check.parameter][0]] == member
        )

    def _unsound(self, losses: Sequence[float], flags: Mapping[int, bool]) -> tuple[str, ...]:
        """Returns for each member what is not finite in a batch: "the loss", or the name of the first parameter; "" if
        all is finite. `losses`: one for each member. `flags`: by parameter, whether its gradient is finite; members
        that take no part have none."""
        unsound = dict.fromkeys(self._members, "")
        for index, finite in flags.items():
            if not finite:
                member = self._member_of[self._buckets_of[index][0]]
                unsound[member] = unsound[member] or self._plan.parameters[index].name
        return tuple(
            what if math.isfinite(loss) else "the loss" for loss, what in zip(losses, unsound.values(), strict=True)
        )

    def start_gradient(self, weight: torch.Tensor) -> tuple[torch.Tensor, Sequence[int]]:
        """Returns the memory to which the backward of a table layer (`SparseLinear`) writes the table's gradient, and
        the rows at which the table's buckets end. Raises PluginError if the table got a gradient before in this
        batch."""
        index = self._table(weight)
        shares = [self._plan.buckets[b].rows for b in self._buckets_of[index]]
        borders = [weight.shape[0] if rows is None else rows[1] for rows in shares]
        return self._exchange.rows(index), borders

    def accept_rows(self, weight: torch.Tensor, rows: torch.Tensor) -> None:
        """Takes the touched rows of a table's gradient from the backward of its layer (`SparseLinear`). Raises
        PluginError if the table got a gradient before in this batch."""
        index = self._table(weight)
        self._check(index, self._exchange.put(index, rows))
        for bucket in self._buckets_of[index]:
            self._written(index, bucket)

    def report_written(self, weight: torch.Tensor, rows: int) -> None:
        """Notes that the backward of a table layer (`SparseLinear`) has written all touched rows below row `rows` of
        the table's gradient. That completes the table's buckets up to there."""
        index = self._index[weight]
        for b in self._buckets_of[index]:
            bucket = self._plan.buckets[b]
            if index in self._missing[b] and (bucket.rows or (0, weight.shape[0]))[1] <= rows:
                self._exchange.written(index, bucket)
                self._written(index, b)

    def finish_gradient(self, weight: torch.Tensor, finite: torch.Tensor | bool) -> None:
        """Notes that the backward of a table layer (`SparseLinear`) has written all touched rows of the table's
        gradient. `finite`: whether all their numbers are; on a GPU a tensor that is known later."""
        self._check(self._index[weight], finite)

    def _table(self, weight: torch.Tensor) -> int:
        """Returns the index of a table that gets its gradient now. Raises PluginError if it got one before in this
        batch."""
        index = self._index[weight]
        if index not in self._missing[self._buckets_of[index][0]]:
            name = self._plan.parameters[index].name
            raise PluginError(f"{name} is used by two layers in one backward, but its slot holds one gradient")
        return index

    def _accumulated(self, parameter: nn.Parameter) -> None:
        """Writes the gradient of a parameter to the exchange. Autograd calls it when the gradient is accumulated.
        Raises PluginError for a sparse gradient, and for one that a table got from elsewhere than its own layer."""
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
        self._check(index, self._exchange.put(index, gradient))
        parameter.grad = None
        self._written(index, self._buckets_of[index][0])

    def _written(self, index: int, bucket: int) -> None:
        """Notes that a parameter's gradient is written. In the group's last batch it hands over the bucket if that is
        complete, and announces it unless it is the member's last one."""
        self._present.add(index)
        missing = self._missing[bucket]
        missing.discard(index)
        if missing or len(self._left) > 1:
            return
        member = self._member_of[bucket]
        is_last = not any(self._missing[b] for b in self._expected if self._member_of[b] == member)
        if is_last:
            self._withheld[member] = bucket
        then = _tell_nobody if is_last or self._announce is None else partial(self._announce, bucket)
        self._to_hand_over.discard(bucket)
        self._hand_over(bucket, then)

    def _hand_over(self, bucket: int, then: Callable[[], object]) -> None:
        """Hands a bucket's gradients over to the coordinator, and checks those that are rounded on the way. `then`:
        called when the coordinator can read them."""
        for parameter, finite in self._exchange.hand_over(self._plan.buckets[bucket], then).items():
            self._check(parameter, finite, handed_over=True)

    def _check(self, parameter: int, finite: torch.Tensor | bool, *, handed_over: bool = False) -> None:
        self._checks.append(_Check(self._batch, parameter, handed_over, finite))


def _tell_nobody() -> None:
    """Announces nothing: for a member's last bucket, which `end_members` announces, for the last bucket of all, and for
    buckets without gradients, which the end of the group implies."""
