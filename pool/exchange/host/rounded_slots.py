"""Rounds a group's gradients to the narrower type of gradient slots when a CPU worker hands them over.

Gradients are computed in float32, in private memory of the worker. A slot gets each number rounded to nearest even
(`train.gradient_dtype`), and of a table the touched rows alone, one after the other, as devices write them. The
rounding error is not kept, so a batch that is computed again has the same bits (I2).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pool import _native
from pool.exchange.host_memory import lazy_zeros
from pool.exchange.plan import Bucket, Plan
from pool.exchange.tensors import view_array_as_tensors
from pool.exchange.touched_rows import Group, compact_rows
from pool.kernels.threads import MEMORY_BOUND, SCATTERED, choose_num_threads

Slot = npt.NDArray[np.uint8]


class RoundedSlots:
    """Float32 memory for a worker's gradients, and the gradient slots to which they are rounded."""

    def __init__(self, plan: Plan, slot_plan: Plan, slots: Sequence[Slot]) -> None:
        """Allocates the float32 memory. `plan`: its layout, that of the weights; `slot_plan`: the layout of the
        slots."""
        self.memory = lazy_zeros(plan.nbytes)
        self._plan = plan
        self._gradients = view_array_as_tensors(self.memory, plan.parameters)
        self._slots = [view_array_as_tensors(slot, slot_plan.parameters) for slot in slots]

    def round_bucket(self, bucket: Bucket, slot: int, group: Group, present: set[int]) -> dict[int, bool]:
        """Rounds the gradients of a bucket to a slot. Returns, by parameter, whether all of its numbers are finite
        afterwards.

        `present`: the parameters that have a gradient.
        """
        return {p: self._round_shard(p, bucket, slot, group) for p in bucket.parameters if p in present}

    def _round_shard(self, parameter: int, bucket: Bucket, slot: int, group: Group) -> bool:
        """Rounds what a bucket holds of a parameter's gradient to a slot. Returns whether all of it is finite then."""
        gradient, rounded = self._gradients[parameter], self._slots[slot][parameter]
        field = self._plan.parameters[parameter].sparse_field
        if field is None:
            threads = choose_num_threads(gradient.numel(), MEMORY_BOUND)
            return _native.round_numbers(rounded.view(-1), gradient.view(-1), threads=threads)
        touched = group.touched(parameter, field)
        rows = compact_rows(touched, bucket, len(gradient))
        threads = choose_num_threads((rows.stop - rows.start) * gradient[0].numel(), SCATTERED)
        return _native.round_rows(rounded[rows], gradient, touched[rows], threads=threads)
