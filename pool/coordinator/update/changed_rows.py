"""Rows of tables that have changed since each copy of them was made: the rest need not be copied again.

Known of tables whose optimizer writes touched rows only; weights and the optimizer's state change in the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from pool import _native
from pool.checkpoint.snapshot import Rows
from pool.checkpoint.tensor_file import TensorBytes
from pool.kernels.fold import Touched


class ChangedRows:
    """The changed rows of one table, for each of its copies."""

    def __init__(self, rows: int, copies: int) -> None:
        words = -(-rows // 64)
        self.rows = rows
        self._newly = np.zeros(words, np.uint64)  # not in `_since` yet
        self._lists: list[Touched] = []  # not in `_newly` yet
        self._since: list[Rows] = [np.zeros(words, np.uint64) for _ in range(copies)]  # of each copy: since it was made

    def mark(self, touched: Touched) -> None:
        """Marks rows as changed, by feature number; within the table, ascending. The list is kept until `settle`."""
        self._lists.append(touched)

    def settle(self) -> None:
        """Once a step at least, when nobody waits."""
        lists, self._lists = self._lists, []
        for touched in lists:
            _native.mark_rows(self._newly, touched)

    def mark_range(self, first: int, last: int) -> None:
        """All rows from `first` to below `last`."""
        self.mark(np.arange(first, last, dtype=np.uint32))

    def since(self, copy: int) -> Rows:
        """Since `copied` was called for that copy."""
        self.settle()
        for rows in self._since:
            np.bitwise_or(rows, self._newly, out=rows)
        self._newly[:] = 0
        return self._since[copy]

    def copied(self, copy: int) -> None:
        """Notes that what `since` has given is copied."""
        self._since[copy][:] = 0


class Changes:
    """The changed rows of all tables that they are known of."""

    def __init__(self, rows: Mapping[str, int], copies: int) -> None:
        """`rows`: how many each table has, by name of the parameter."""
        self._tables = {name: ChangedRows(count, copies) for name, count in rows.items()}

    @classmethod
    def together(cls, of_members: Iterable[Changes]) -> Changes:
        """One for all members."""
        made = cls({}, 0)
        made._tables = {name: table for changes in of_members for name, table in changes._tables.items()}
        return made

    def settle(self) -> None:
        for table in self._tables.values():
            table.settle()

    def of(self, parameter: str) -> ChangedRows:
        return self._tables[parameter]

    def since(self, copy: int, tensors: Iterable[TensorBytes]) -> dict[str, Rows]:
        """Returns the changed rows by name of the tensor (`parameter` or `parameter/key`), for those that have a
        table's rows."""
        known = {name: (table.rows, table.since(copy)) for name, table in self._tables.items()}
        named: dict[str, Rows] = {}
        for tensor in tensors:
            rows, changed = known.get(tensor.name) or known.get(tensor.name.rpartition("/")[0]) or (0, None)
            if changed is not None and tensor.shape[:1] == (rows,):
                named[tensor.name] = changed
        return named

    def copied(self, copy: int) -> None:
        for table in self._tables.values():
            table.copied(copy)
