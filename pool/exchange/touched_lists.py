"""Stores, in a gradient slot, which rows of the tables a group of batches touches: lists that follow the gradients.

A batch's own list lies in its ring slot (`SparseBatch`). The worker writes the union of the lists of a group of several
batches. A batch may be left out for one member (network of an ensemble), so each member has lists of its own.

    for each member, for each sparse field:    int64 count, then the numbers, ascending, each at a multiple of 64 bytes
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from loader.stream.schema import ALIGNMENT, PAGE, BatchSchema
from pool.exchange.plan import align

if TYPE_CHECKING:  # the supervisor needs the size alone, and no torch
    from pool.exchange.touched_rows import Group
    from pool.kernels.reduction import Touched

Slot = npt.NDArray[np.uint8]


class TouchedLists:
    """The layout of the lists in one gradient slot. Groups of one batch need no lists, and `nbytes` is 0 then."""

    def __init__(self, schema: BatchSchema, members: int, batches_per_group: int) -> None:
        """Lays out the lists of one slot. `members`: number of members (networks of an ensemble) in the run."""
        self._places: dict[tuple[int, str], tuple[int, np.dtype[Any], int]] = {}  # offset, type, greatest count
        self.nbytes = 0
        if batches_per_group == 1:
            return
        for member in range(members):
            for sparse in schema.sparse:
                region = schema.regions[f"{sparse.name}.touched"]
                count = min(sparse.num_features, batches_per_group * region.count)
                self._places[member, sparse.name] = self.nbytes, region.dtype, count
                self.nbytes += ALIGNMENT + align(count * region.dtype.itemsize, ALIGNMENT)
        self.nbytes = align(self.nbytes, PAGE)

    def write(self, lists: Slot, group: Group) -> None:
        """Writes the group's union of touched rows for each member and field. `lists`: the memory of all lists of a
        slot."""
        for (member, field), (offset, _, most) in self._places.items():
            rows = group.touched_by(member, field)
            assert len(rows) <= most, f"{field}: {len(rows)} rows in a list of {most}"
            lists[offset : offset + 8].view(np.int64)[0] = len(rows)
            lists[offset + ALIGNMENT :][: rows.nbytes].view(rows.dtype)[:] = rows

    def read(self, lists: Slot, member: int, field: str) -> Touched:
        """Returns a view of the row numbers that a group touches, for one member and sparse field."""
        offset, dtype, _ = self._places[member, field]
        count = int(lists[offset : offset + 8].view(np.int64)[0])
        return lists[offset + ALIGNMENT :][: count * dtype.itemsize].view(dtype)
