"""Divides the batches of a step into groups, and describes a group's gradients. Plain data.

A group is consecutive batches whose gradients one worker adds up, left to right, before it hands them over (I2). The
groups of a step have an index, from 0 on, which is also their leaf in the tree along which their gradients are added up
(`pool.kernels.tree`). The batches per step and per group alone decide which batches a group has.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Groups:
    """The division of steps into groups. The last group of a step has the batches that are left."""

    batches_per_step: int
    batches_per_group: int = 1

    @property
    def per_step(self) -> int:
        return -(-self.batches_per_step // self.batches_per_group)

    def batches(self, step: int, group_index: int) -> range:
        """Returns the batches of one group, by their numbers in the stream of batches."""
        begin = step * self.batches_per_step
        first = begin + group_index * self.batches_per_group
        return range(first, min(first + self.batches_per_group, begin + self.batches_per_step))

    def share(self, machine: int, machines: int) -> range:
        """Returns the indices of the groups of a step that machine number `machine` of `machines` computes."""
        return range(self.per_step * machine // machines, self.per_step * (machine + 1) // machines)

    def step_of(self, batch: int) -> int:
        return batch // self.batches_per_step

    def group_index(self, batch: int) -> int:
        """Returns the index, in its step, of the group that has this batch."""
        return batch % self.batches_per_step // self.batches_per_group


@dataclass(frozen=True)
class Contribution:
    """The gradients of a group in one gradient slot: those of its batches, added up left to right.

    Or all that another machine has added up: the groups of its share of the step. Then `machine` is set.
    """

    batches: tuple[int, ...]  # numbers of the batches that are added up; others of the group are left out
    group_index: int  # in its step
    worker: int
    slot: int
    absent: tuple[int, ...]  # indices of the parameters that got no gradient
    incarnation: int = 1  # of the worker: each life of it may have slots of its own
    machine: int | None = None  # the other machine that computed it, if any; then worker and slot mean nothing
