"""The groups of a step: consecutive batches whose gradients one worker adds up, left to right, before it hands them
over (I2). Plain data: the scheduler decides by it, the exchange finds the numbers.

A group has a place in its step, from 0 on: the leaf of the tree in which the groups are added up (`pool.kernels.tree`).
Which batches it has, G and k alone decide.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Groups:
    """G batches a step, k of them a group; the last group has what is left."""

    batches_per_step: int
    batches_per_group: int = 1

    @property
    def per_step(self) -> int:
        return -(-self.batches_per_step // self.batches_per_group)

    def batches(self, step: int, place: int) -> range:
        """Numbers of the group's batches in the stream."""
        begin = step * self.batches_per_step
        first = begin + place * self.batches_per_group
        return range(first, min(first + self.batches_per_group, begin + self.batches_per_step))

    def share(self, machine: int, machines: int) -> range:
        """Returns the places of a step whose groups are computed on one of so many machines."""
        return range(self.per_step * machine // machines, self.per_step * (machine + 1) // machines)

    def step_of(self, batch: int) -> int:
        return batch // self.batches_per_step

    def place_of(self, batch: int) -> int:
        """Returns the place of the group that the batch is in."""
        return batch % self.batches_per_step // self.batches_per_group


@dataclass(frozen=True)
class Contribution:
    """The gradients of a group in one gradient slot: those of its batches, added up left to right. Or what another
    machine has added up of its share: all of its groups."""

    batches: tuple[int, ...]  # that are in it; others of the group are left out
    place: int  # of the group in its step
    worker: int
    slot: int
    absent: tuple[int, ...]  # parameters that got no gradient, by index
    incarnation: int = 1  # of the worker: each may have memory of its own
    machine: int | None = None  # another one; then worker and slot say nothing
