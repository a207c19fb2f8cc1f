"""Adds up a group's gradients in one place on a CPU, batch by batch (I2: left to right).

The first batch that has a gradient of a parameter writes it to that place. Each later batch writes to memory beside it,
which is added at once. The place is the gradient slot, or float32 memory that is rounded to the slot later. Of a table,
the place holds the rows that any batch of the group touches. Rows that the first batch does not touch begin as zeros.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pool.exchange.host_memory import lazy_zeros
from pool.exchange.plan import Plan
from pool.exchange.tensors import views
from pool.exchange.touched_rows import Group
from pool.kernels.reduction import Addend, Reduction, Touched, reduce

Slot = npt.NDArray[np.uint8]


class GroupSum:
    """The sum of the gradients of one group of batches at a time, in gradient slots."""

    def __init__(self, plan: Plan, slots: Sequence[Slot]) -> None:
        """Makes views of the slots, and allocates the memory beside them. `plan`: the layout of the slots."""
        self._plan = plan
        self._slots = [views(slot, plan.parameters) for slot in slots]
        self._beside = views(lazy_zeros(plan.nbytes), plan.parameters)
        self._slot = 0
        self._group = Group((), ())
        self._batch = -1  # index in the group
        self._before: set[int] = set()  # parameters that have a gradient of an earlier batch of the group
        self._now: set[int] = set()  # parameters that have a gradient of this batch

    def begin(self, slot: int, group: Group) -> None:
        self._slot, self._group, self._batch = slot, group, -1
        self._before, self._now = set(), set()

    def begin_batch(self) -> None:
        self._batch += 1
        self._before |= self._now
        self._now = set()

    def place(self, parameter: int) -> Tensor:
        """Returns the memory for this batch's gradient of a parameter, in which of a table only the touched rows are to
        be written."""
        self._now.add(parameter)
        if parameter in self._before:
            return self._beside[parameter]
        place = self._slots[self._slot][parameter]
        field = self._plan.parameters[parameter].sparse_field
        if field is not None:
            others = _without(self._group.touched(parameter, field), self._group.batches[self._batch].touched[field])
            place[torch.from_numpy(others)] = 0.0
        return place

    def written(self, parameter: int, rows: tuple[int, int] | None = None) -> None:
        """Adds this batch's gradient of a parameter to the group's sum. The gradient is written where `place` has
        returned.

        `rows`: of a table, the first row that was written and the row after the last.
        """
        if parameter not in self._before:
            return
        sum_so_far, new, begin = self._slots[self._slot][parameter], self._beside[parameter], 0
        if rows is not None:
            begin, end = rows
            sum_so_far, new = sum_so_far[begin:end], new[begin:end]
        field = self._plan.parameters[parameter].sparse_field
        touched = None if field is None else self._group.touched(parameter, field)
        added = None if field is None else self._group.batches[self._batch].touched[field]
        addends = [Addend(0, sum_so_far, touched), Addend(1, new, added)]
        reduce(sum_so_far, Reduction(addends, first_row=begin, touched_only=True))


def _without(rows: Touched, others: Touched) -> npt.NDArray[np.int64]:
    """Returns the rows that are not among `others`. Both lists ascend, and all `others` are among the rows."""
    left = np.ones(len(rows), bool)
    left[np.searchsorted(rows, others)] = False
    return rows[left].astype(np.int64)
