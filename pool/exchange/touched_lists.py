"""Stores, in a gradient slot, which rows of the tables a group of batches touches: lists that follow the gradients.

A batch's own list lies in its ring slot (`SparseBatch`). The worker writes the union of the lists of a group of several
batches. A batch may be left out for one member (network of an ensemble), so each member has lists of its own.

    for each member, for each sparse field:    int64 count, then the numbers, ascending, each at a multiple of 64 bytes
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from loader.stream.schema import ALIGNMENT, PAGE, BatchSchema
from pool.exchange.plan import align

if TYPE_CHECKING:  # the supervisor needs the size alone, and no torch
    from pool.exchange.touched_rows import Group
    from pool.kernels.reduction import Touched

Slot = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class _ListRegion:
    """Where one list lies in the memory of all lists of a slot: a count, int64, then the row numbers."""

    offset: int  # bytes
    dtype: np.dtype[Any]  # of row numbers
    max_rows: int

    def view_count(self, lists: Slot) -> npt.NDArray[np.int64]:
        return lists[self.offset : self.offset + 8].view(np.int64)

    def view_rows(self, lists: Slot, num_rows: int) -> npt.NDArray[Any]:
        begin = self.offset + ALIGNMENT
        return lists[begin : begin + num_rows * self.dtype.itemsize].view(self.dtype)


class TouchedLists:
    """The layout of the lists in one gradient slot. Groups of one batch need no lists, and `nbytes` is 0 then."""

    def __init__(self, schema: BatchSchema, members: int, batches_per_group: int) -> None:
        """Lays out the lists of one slot. `members`: number of members (networks of an ensemble) in the run."""
        self._regions: dict[tuple[int, str], _ListRegion] = {}  # by member and sparse field
        self.nbytes = 0
        if batches_per_group == 1:
            return
        for member in range(members):
            for sparse in schema.sparse:
                region = schema.regions[f"{sparse.name}.touched"]
                max_rows = min(sparse.num_features, batches_per_group * region.count)
                self._regions[member, sparse.name] = _ListRegion(self.nbytes, region.dtype, max_rows)
                self.nbytes += ALIGNMENT + align(max_rows * region.dtype.itemsize, ALIGNMENT)
        self.nbytes = align(self.nbytes, PAGE)

    def write(self, lists: Slot, group: Group) -> None:
        """Writes the group's union of touched rows for each member and field. `lists`: the memory of all lists of a
        slot."""
        for (member, field), region in self._regions.items():
            rows = group.touched_by_member(member, field)
            assert len(rows) <= region.max_rows, f"{field}: {len(rows)} rows in a list of {region.max_rows}"
            region.view_count(lists)[0] = len(rows)
            region.view_rows(lists, len(rows))[:] = rows

    def read(self, lists: Slot, member: int, field: str) -> Touched:
        """Returns a view of the row numbers that a group touches, for one member and sparse field."""
        region = self._regions[member, field]
        return region.view_rows(lists, int(region.view_count(lists)[0]))
