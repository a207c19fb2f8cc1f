"""Gradients of a group in a CPU's memory, rounded when they are handed over (`train.gradient_dtype`).

They are made in float32, in memory of the worker's own. A slot gets each number rounded to nearest even, of a table the
touched rows alone, one after the other, as devices write them. Nothing is kept of what was rounded off: a batch that
is computed again has the same bits (I2).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pool import _native
from pool.exchange.host_memory import untouched
from pool.exchange.plan import Bucket, Plan
from pool.exchange.tensors import views
from pool.exchange.touched_rows import Group, compact_rows
from pool.kernels.threads import MEMORY_BOUND, SCATTERED, worthwhile

Slot = npt.NDArray[np.uint8]


class RoundedSlots:
    def __init__(self, plan: Plan, slot_plan: Plan, slots: Sequence[Slot]) -> None:
        """`plan`: of the weights, whose layout the memory of our own has; `slot_plan`: of the slots."""
        self.memory = untouched(plan.nbytes)
        self._plan = plan
        self._made = views(self.memory, plan.parameters)
        self._slots = [views(slot, slot_plan.parameters) for slot in slots]

    def hand_over(self, bucket: Bucket, slot: int, group: Group, present: set[int]) -> dict[int, bool]:
        """Rounds what the bucket holds of these parameters; whether all of it is finite then."""
        return {p: self._round(p, bucket, slot, group) for p in bucket.parameters if p in present}

    def _round(self, parameter: int, bucket: Bucket, slot: int, group: Group) -> bool:
        made, place = self._made[parameter], self._slots[slot][parameter]
        field = self._plan.parameters[parameter].sparse_field
        if field is None:
            threads = worthwhile(made.numel(), MEMORY_BOUND)
            return _native.round_numbers(place.view(-1), made.view(-1), threads=threads)
        touched = group.touched(parameter, field)
        rows = compact_rows(touched, bucket, len(made))
        threads = worthwhile((rows.stop - rows.start) * made[0].numel(), SCATTERED)
        return _native.round_rows(place[rows], made, touched[rows], threads=threads)
