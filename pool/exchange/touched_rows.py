"""Finds the table rows that a group of batches touches on a worker, and those of them that lie in a bucket."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pool import _native
from pool.exchange.interface import GroupBatch
from pool.exchange.plan import Bucket
from pool.kernels.reduction import Touched, find_rows


class Group:
    """The batches of one contribution, and the union of the table rows that they touch."""

    def __init__(self, batches: Sequence[GroupBatch], member_of: Sequence[int]) -> None:
        """Describes a contribution's batches. `member_of`: the member (network of an ensemble) of each parameter."""
        self.batches = batches
        self._member_of = member_of
        self._unions: dict[tuple[str, tuple[int, ...]], Touched] = {}  # by field and indices of the batches

    def touched(self, parameter: int, field: str) -> Touched:
        """Returns the rows that the group touches of one table, ascending. `field`: the table's sparse field.

        Batches that are left out for the parameter's member do not count.
        """
        return self.touched_by_member(self._member_of[parameter], field)

    def touched_by_member(self, member: int, field: str) -> Touched:
        """Returns the rows that the batches of one member touch of its tables of a sparse field, ascending."""
        used = tuple(i for i, batch in enumerate(self.batches) if member not in batch.left_out)
        if (field, used) not in self._unions:
            lists = [self.batches[i].touched[field] for i in used]
            empty = self.batches[0].touched[field][:0]
            self._unions[field, used] = lists[0] if len(lists) == 1 else _join_lists([empty, *lists])
        return self._unions[field, used]


def _join_lists(lists: Sequence[Touched]) -> Touched:
    """Returns the union of ascending lists, ascending. (numpy's `unique` takes forty times as long.)"""
    rows = np.empty(sum(map(len, lists)), np.uint32)
    return rows[: _native.union_rows(rows, lists, first=0, last=1 << 32)].astype(lists[0].dtype)


def compact_rows(touched: Touched, bucket: Bucket, num_rows: int) -> slice:
    """Returns the slice of a bucket's rows in a tensor that holds only the touched rows of a table, in the list's
    order.

    `num_rows`: the number of rows of the table.
    """
    begin, end = find_rows(touched, *(bucket.rows or (0, num_rows)))
    return slice(begin, end)
