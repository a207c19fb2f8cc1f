"""The gradients that a worker hands over, as plain data: the scheduler decides by it, the exchange finds the
numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Contribution:
    """The gradients of a group of a step (`groups`) in one gradient slot: those of its batches, added up left to
    right."""

    batches: tuple[int, ...]  # that are in it; others of the group are left out
    place: int  # of the group in its step, from 0: the leaf of the tree in which it is added up (`order`)
    worker: int
    slot: int
    absent: tuple[int, ...]  # parameters that got no gradient, by index
    incarnation: int = 1  # of the worker: each may have memory of its own
