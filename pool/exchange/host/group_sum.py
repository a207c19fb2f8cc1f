"""Adds up a group's gradients in one place on a CPU, batch by batch (I2: left to right).

The first batch that has a gradient of a parameter writes it to the sum's memory. Each later batch writes to memory
beside it, which is added at once. The sum lies in the gradient slot, or in float32 memory that is rounded to the slot
later. Of a table it has the rows that any batch of the group touches. Rows that the first batch does not touch begin as
zeros.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pool.exchange.host_memory import lazy_zeros
from pool.exchange.plan import Plan
from pool.exchange.tensors import view_array_as_tensors
from pool.exchange.touched_rows import Group
from pool.kernels.reduction import Addend, Reduction, Touched, reduce

Slot = npt.NDArray[np.uint8]


class GroupSum:
    """The sum of the gradients of one group of batches at a time, in gradient slots."""

    def __init__(self, plan: Plan, slots: Sequence[Slot]) -> None:
        """Makes views of the slots, and allocates the memory beside them. `plan`: the layout of the slots."""
        self._plan = plan
        self._slots = [view_array_as_tensors(slot, plan.parameters) for slot in slots]
        self._next_gradients = view_array_as_tensors(
            lazy_zeros(plan.nbytes), plan.parameters
        )  # of a batch after the first
        self._slot = 0
        self._group = Group((), ())
        self._batch_index = -1  # in the group
        self._summed: set[int] = set()  # parameters that have a gradient of an earlier batch of the group
        self._in_batch: set[int] = set()  # parameters that have a gradient of this batch

    def start_group(self, slot: int, group: Group) -> None:
        self._slot, self._group, self._batch_index = slot, group, -1
        self._summed, self._in_batch = set(), set()

    def start_batch(self) -> None:
        self._batch_index += 1
        self._summed |= self._in_batch
        self._in_batch = set()

    def gradient_memory(self, parameter: int) -> Tensor:
        """Returns the memory for this batch's gradient of a parameter. Of a table only the touched rows are to be
        written there."""
        self._in_batch.add(parameter)
        if parameter in self._summed:
            return self._next_gradients[parameter]
        group_sum = self._slots[self._slot][parameter]
        field = self._plan.parameters[parameter].sparse_field
        if field is not None:
            of_batch = self._group.batches[self._batch_index].touched[field]
            only_of_group = _without(self._group.touched(parameter, field), of_batch)
            group_sum[torch.from_numpy(only_of_group)] = 0.0
        return group_sum

    def add_written(self, parameter: int, rows: tuple[int, int] | None = None) -> None:
        """Adds this batch's gradient of a parameter, which is written in `gradient_memory`, to the group's sum.

        `rows`: of a table, the first row that was written and the row after the last.
        """
        if parameter not in self._summed:
            return
        group_sum, gradient, first_row = self._slots[self._slot][parameter], self._next_gradients[parameter], 0
        if rows is not None:
            first_row, end = rows
            group_sum, gradient = group_sum[first_row:end], gradient[first_row:end]
        field = self._plan.parameters[parameter].sparse_field
        of_group, of_batch = None, None
        if field is not None:
            of_group = self._group.touched(parameter, field)
            of_batch = self._group.batches[self._batch_index].touched[field]
        addends = [Addend(0, group_sum, of_group), Addend(1, gradient, of_batch)]
        reduce(group_sum, Reduction(addends, first_row=first_row, touched_only=True))


def _without(rows: Touched, excluded: Touched) -> npt.NDArray[np.int64]:
    """Returns the rows that are not excluded. Both lists ascend, and all excluded rows are among the rows."""
    remains = np.ones(len(rows), bool)
    remains[np.searchsorted(rows, excluded)] = False
    return rows[remains].astype(np.int64)
