"""Gradients on their way out of backward: to the exchange, bucket by bucket.

A parameter's gradient goes to its place as soon as autograd has accumulated it; a table's rows are written there by its
own backward, and a large one is several buckets of rows. A bucket is announced when the last of what it holds is
there; a member's last one when all numbers of the member are known to be finite, and the batch's last one not at all,
since the end of the batch says it. What got no gradient is known at the end of backward.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

import torch
from torch import nn

from loader.plugins.words import PluginError
from pool.buckets.parts import joined, member_of_bucket
from pool.buckets.plan import Plan
from pool.buckets.tensors import row_sparse_tables, trained
from pool.exchange.addend import Touched
from pool.exchange.interface import WorkerExchange

Announce = Callable[[int], None]  # bucket


class GradientWriter:
    """Hooks on the parameters of all members. Announcements may come from autograd's own threads."""

    def __init__(self, model: nn.Module, plans: Sequence[Plan], exchange: WorkerExchange) -> None:
        """`model`: of all members; `plans`: of each."""
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
        self._finite: dict[int, torch.Tensor | bool] = {}  # by parameter, in the order of backward
        self._expected: list[int] = []  # buckets of members that are trained
        self._missing: list[set[int]] = []  # per bucket: parameters whose gradient is not there yet
        self._withheld: dict[int, int] = {}  # by member: its last bucket, complete but not announced
        for parameter in self._parameters:
            parameter.register_post_accumulate_grad_hook(self._accumulated)  # type: ignore[no-untyped-call]
        self._tables: set[torch.Tensor] = set()  # whose gradient comes through the sink
        for table in row_sparse_tables(model):
            if exchange.rows(self._index[table.weight]) is None:
                table.rows_sink = self
            else:
                table.gradient_sink = self
            self._tables.add(table.weight)

    def begin_batch(
        self, slot: int, touched: Mapping[str, Touched], announce: Announce, frozen: Collection[int] = ()
    ) -> None:
        """`slot`: that the gradients go to; its buckets are announced as they complete. `touched`: the batch's.
        Gradients of `frozen` members are not waited for."""
        self._exchange.begin(slot, touched)
        self._announce = announce
        self._finite = {}
        self._withheld = {}
        self._missing = [set(bucket.parameters) for bucket in self._plan.buckets]
        self._expected = [b for b, member in enumerate(self._member_of) if member not in frozen]

    def end_members(self, members: Iterable[int], losses: torch.Tensor) -> None:
        """After backward of these members: the last bucket of each whose numbers are finite is announced, but for the
        batch's last. Where that is known when the device has arrived there, the end of the batch tells."""
        if losses.device.type != "cpu" or not any(self._missing[b] for b in self._expected):
            return
        for member, loss in zip(members, losses.tolist(), strict=True):
            last = self._withheld.pop(member, None)
            if last is not None and self._announce is not None and math.isfinite(loss) and self._is_finite(member):
                self._announce(last)

    def end_batch(self) -> tuple[int, ...]:
        """After backward: the parameters that got no gradient."""
        for b in self._expected:
            if self._missing[b]:
                self._exchange.hand_over(self._plan.buckets[b], _tell_nobody)
        return tuple(sorted(index for b in self._expected for index in self._missing[b]))

    def read(self, losses: torch.Tensor) -> tuple[list[float], tuple[str, ...]]:
        """After backward, when all of it has arrived: the losses, and of each member the first parameter whose gradient
        is not finite; empty if all are. Raises what the device has failed with."""
        later = {index: finite for index, finite in self._finite.items() if isinstance(finite, torch.Tensor)}
        numbers, finite = self._exchange.read(losses, list(later.values()))
        return numbers, self._unsound(dict(zip(later, finite, strict=True)))

    def _is_finite(self, member: int) -> bool:
        return all(
            bool(finite)
            for index, finite in self._finite.items()
            if self._member_of[self._buckets_of[index][0]] == member
        )

    def _unsound(self, flags: Mapping[int, bool]) -> tuple[str, ...]:
        found = dict.fromkeys(self._members, "")
        for index, finite in self._finite.items():
            if not flags.get(index, finite):
                member = self._member_of[self._buckets_of[index][0]]
                found[member] = found[member] or self._plan.parameters[index].name
        return tuple(found.values())

    def begin(self, weight: torch.Tensor) -> tuple[torch.Tensor, Sequence[int]]:
        """Table sink: where the rows of a table's gradient are to be written, and in which shares."""
        index = self._table(weight)
        shares = [self._plan.buckets[b].rows for b in self._buckets_of[index]]
        borders = [weight.shape[0] if rows is None else rows[1] for rows in shares]
        memory = self._exchange.rows(index)
        assert memory is not None, "touched rows are put"
        return memory, borders

    def take(self, weight: torch.Tensor, rows: torch.Tensor) -> None:
        """Rows sink: the touched rows."""
        index = self._table(weight)
        self._finite[index] = self._exchange.put(index, rows)
        for bucket in self._buckets_of[index]:
            self._written(index, bucket)

    def written(self, weight: torch.Tensor, rows: int) -> None:
        """Table sink: the touched ones of the first `rows` rows are written."""
        index = self._index[weight]
        for b in self._buckets_of[index]:
            bucket = self._plan.buckets[b]
            if index in self._missing[b] and (bucket.rows or (0, weight.shape[0]))[1] <= rows:
                self._written(index, b)

    def done(self, weight: torch.Tensor, finite: torch.Tensor | bool) -> None:
        """Table sink: all touched rows are written."""
        self._finite[self._index[weight]] = finite

    def _table(self, weight: torch.Tensor) -> int:
        """The index of a table whose gradient comes. Raises PluginError if it has come before."""
        index = self._index[weight]
        if index not in self._missing[self._buckets_of[index][0]]:
            name = self._plan.parameters[index].name
            raise PluginError(f"{name} is used by two layers in one backward, but its slot holds one gradient")
        return index

    def _accumulated(self, parameter: nn.Parameter) -> None:
        gradient = parameter.grad
        if gradient is None:  # a table's, which went to its sink
            return
        index = self._index[parameter]
        if parameter in self._tables:
            raise PluginError(
                f"{self._plan.parameters[index].name} gets a gradient from elsewhere than its SparseLinear (a "
                "penalty on it, another use of it), but only the rows that a batch touches travel"
            )
        self._finite[index] = self._exchange.put(index, gradient)
        parameter.grad = None
        self._written(index, self._buckets_of[index][0])

    def _written(self, index: int, bucket: int) -> None:
        missing = self._missing[bucket]
        missing.discard(index)
        if missing:
            return
        member = self._member_of[bucket]
        is_last = not any(self._missing[b] for b in self._expected if self._member_of[b] == member)
        if is_last:
            self._withheld[member] = bucket
        then = _tell_nobody if is_last or self._announce is None else partial(self._announce, bucket)
        self._exchange.hand_over(self._plan.buckets[bucket], then)


def _tell_nobody() -> None:
    """Of a member's last bucket `end_members` tells; of the batch's last, and of one without gradients, the end of the
    batch."""
