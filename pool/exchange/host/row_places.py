"""Places of the rows that a batch touches among those of its group, on a device: numbers that travel there once a
group, from page-locked memory."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

from pool.exchange.host.group import Group


class RowPlaces:
    """The row places of one group at a time."""

    def __init__(self, device: torch.device, stream: torch.Stream) -> None:
        """`stream`: that copies."""
        self._device = device
        self._stream = stream
        self._host = torch.empty(0, dtype=torch.int64)
        self._places: dict[tuple[int, int, str], Tensor] = {}

    def begin(self, group: Group, tables: Iterable[tuple[int, str]]) -> None:
        """Queues the copy. The device has done all that uses those of the group before. `tables`: (member, sparse
        field)."""
        wanted = [
            (i, member, field, np.searchsorted(group.touched_by(member, field), batch.touched[field]))
            for member, field in tables
            for i, batch in enumerate(group.batches)
            if member not in batch.left_out
        ]
        total = sum(len(places) for *_, places in wanted)
        if len(self._host) < total:
            self._host = torch.empty(total, dtype=torch.int64, pin_memory=True)
        self._places = {}
        begin = 0
        with self._stream:
            there = torch.empty(total, dtype=torch.int64, device=self._device)
            for i, member, field, places in wanted:
                end = begin + len(places)
                self._host[begin:end].numpy()[:] = places
                self._places[i, member, field] = there[begin:end]
                begin = end
            there.copy_(self._host[:total], non_blocking=True)

    def of(self, batch: int, member: int, field: str) -> Tensor:
        """int64 [rows that the batch, by its index in the group, touches]."""
        return self._places[batch, member, field]
