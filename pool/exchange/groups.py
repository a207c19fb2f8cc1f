"""Divides the batches of a step into groups, and describes a group's gradients. Plain data.

A group is consecutive batches whose gradients one worker adds up, left to right, before it hands them over (I2). Its
index in the step, from 0 on, is also its leaf in the tree along which groups are added up (`pool.kernels.tree`). The
batches per step and per group alone decide which batches a group has. The scheduler and the exchange both use this.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Groups:
    """The division of steps into groups. The last group of a step has the remaining batches."""

    batches_per_step: int
    batches_per_group: int = 1

    @property
    def groups_per_step(self) -> int:
        return -(-self.batches_per_step // self.batches_per_group)

    def batches(self, step: int, group_index: int) -> range:
        """Returns the numbers, in the stream of batches, of the batches of one group."""
        step_start = step * self.batches_per_step
        step_end = step_start + self.batches_per_step
        start = step_start + group_index * self.batches_per_group
        return range(start, min(start + self.batches_per_group, step_end))

    def share(self, machine: int, num_machines: int) -> range:
        """Returns the indices of the groups in a step that one of several machines computes."""
        num_groups = self.groups_per_step
        return range(num_groups * machine // num_machines, num_groups * (machine + 1) // num_machines)

    def step_of(self, batch: int) -> int:
        """Returns the step that a batch, by its number in the stream, belongs to."""
        return batch // self.batches_per_step

    def group_index(self, batch: int) -> int:
        """Returns the index, in its step, of the group that has this batch."""
        return batch % self.batches_per_step // self.batches_per_group


@dataclass(frozen=True)
class Contribution:
    """The gradients of a group in one gradient slot: those of its batches, added up left to right.

    Or all that another machine has added up: the groups of its share of the step. Then `machine` is set.
    """

    batches: tuple[int, ...]  # numbers of the batches that are added up, without those that are left out
    group_index: int
    worker: int
    slot: int
    absent: tuple[int, ...]  # indices of the parameters that got no gradient
    incarnation: int = 1  # of the worker: each life of it may have slots of its own
    machine: int | None = None  # the other machine that computed it, if any; then worker and slot mean nothing
