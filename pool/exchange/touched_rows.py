"""The rows of tables that the batches of a group touch on a worker: together, and as far as a bucket holds them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pool import _native
from pool.exchange.interface import GroupBatch
from pool.exchange.plan import Bucket
from pool.kernels.fold import Touched, within


class Group:
    def __init__(self, batches: Sequence[GroupBatch], member_of: Sequence[int]) -> None:
        """`member_of`: of each parameter."""
        self.batches = batches
        self._member_of = member_of
        self._unions: dict[tuple[str, tuple[int, ...]], Touched] = {}

    def touched(self, parameter: int, field: str) -> Touched:
        """Rows of a table of this field that those batches touch which are in its member's step; ascending."""
        return self.touched_by(self._member_of[parameter], field)

    def touched_by(self, member: int, field: str) -> Touched:
        own = tuple(i for i, batch in enumerate(self.batches) if member not in batch.left_out)
        if (field, own) not in self._unions:
            lists = [self.batches[i].touched[field] for i in own]
            none = self.batches[0].touched[field][:0]
            self._unions[field, own] = lists[0] if len(lists) == 1 else _union([none, *lists])
        return self._unions[field, own]


def _union(lists: Sequence[Touched]) -> Touched:
    """Returns the union of ascending lists. (numpy's `unique` takes forty times as long.)"""
    rows = np.empty(sum(map(len, lists)), np.uint32)
    return rows[: _native.union_rows(rows, lists, first=0, last=1 << 32)].astype(lists[0].dtype)


def compact_rows(touched: Touched, bucket: Bucket, num_rows: int) -> slice:
    """Tells where a bucket's rows lie among the touched ones of a table of `num_rows` rows, where these alone lie one
    after the other, in the list's order."""
    begin, end = within(touched, *(bucket.rows or (0, num_rows)))
    return slice(begin, end)
