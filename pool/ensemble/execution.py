"""Computes the losses of all members for a batch, as a function of weights, batch and step only (invariant I2).

A member is one network of an ensemble. A run without an ensemble has one member.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from pool.ensemble.member import Member
from pool.nn.batch import TensorBatch
from pool.nn.generators import seed_for_purpose
from pool.task.task import Progress


class Execution(Protocol):
    """The interface of computing all members of a run, in train mode."""

    def losses(self, batch: TensorBatch, progress: Progress, frozen: Collection[int] = ()) -> Iterator[Tensor]:
        """Yields tensors [n] with the losses of the next n members, until all members are done, in their order.

        The caller calls `.sum().backward()` on each tensor that requires a gradient before it requests the next.
        Losses of frozen members need not be computed and may be any number. Raises PluginError if the task returns
        something that can't be used.
        """


class SequentialMembers:
    """An Execution that computes one member after the other, with the bits and random numbers of each trained alone.

    The forward pass of a member begins after the backward pass of the previous one, when its activations are freed.
    """

    def __init__(self, members: Sequence[Member], device: torch.device) -> None:
        self._members = members
        self._device = device

    def losses(self, batch: TensorBatch, progress: Progress, frozen: Collection[int] = ()) -> Iterator[Tensor]:
        for index, member in enumerate(self._members):
            if index in frozen:
                yield torch.full((1,), torch.nan, device=self._device)
                continue
            seed_for_purpose(member.seed, batch.number, self._device)
            loss = member.loss(batch, replace(progress, seed=member.seed), backward=True)
            yield loss.reshape(1)
