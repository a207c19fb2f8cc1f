"""How the members' losses of a batch are computed: a function of weights, batch and step alone (I2)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from pool.ensemble.member import Member
from pool.nn.batch import TensorBatch
from pool.nn.generators import seed_for
from pool.task.task import Progress


class Execution(Protocol):
    """The computation of all members of a run, in train mode."""

    def losses(self, batch: TensorBatch, progress: Progress, frozen: Collection[int] = ()) -> Iterator[Tensor]:
        """Tensors [n], each the losses of the next n members; all members in their order. The caller calls
        `.sum().backward()` on one, if it requires a gradient, before it asks for the next. Of a frozen member nothing
        has to be computed: its loss may be any number. Raises PluginError for what a task gives that can't be used."""


class OneByOne:
    """An Execution. Each member computes what it would compute alone, with the same bits; it draws the same numbers
    (dropout). The forward of one comes after the backward of the one before, whose activations are gone then."""

    def __init__(self, members: Sequence[Member], device: torch.device) -> None:
        self._members = members
        self._device = device

    def losses(self, batch: TensorBatch, progress: Progress, frozen: Collection[int] = ()) -> Iterator[Tensor]:
        for number, member in enumerate(self._members):
            if number in frozen:
                yield torch.full((1,), torch.nan, device=self._device)
            else:
                seed_for(member.seed, batch.number, self._device)
                yield member.loss(batch, replace(progress, seed=member.seed), backward=True).reshape(1)
