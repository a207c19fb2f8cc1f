"""Records which rows of tables have changed since each copy of them was made, so that only these are copied again.

Changed rows are known for tables whose optimizer writes touched rows only. Weights and the optimizer's state change in
the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from pool import _native
from pool.checkpoint.snapshot import Rows
from pool.checkpoint.tensor_file import TensorBytes
from pool.kernels.reduction import Touched


class ChangedRows:
    """The changed rows of one table, for each of its copies, as bits."""

    def __init__(self, rows: int, copies: int) -> None:
        """Makes the record of a table in which no row has changed. `rows`: how many rows the table has. `copies`: how
        many copies of it there are."""
        words = -(-rows // 64)
        self.rows = rows
        self._new = np.zeros(words, np.uint64)  # changed rows that are not in `_since` yet
        self._marked: list[Touched] = []  # changed rows that are not in `_newly` yet
        self._changed: list[Rows] = [np.zeros(words, np.uint64) for _ in range(copies)]  # by copy: changed since it

    def mark(self, touched: Touched) -> None:
        """Marks rows as changed. `touched`: their feature numbers within the table, ascending. The list must stay as it
        is until `settle`."""
        self._marked.append(touched)

    def apply_marks(self) -> None:
        """Enters all rows marked since the last call into the record. To be called at least once a step, when nobody
        waits."""
        lists, self._marked = self._marked, []
        for touched in lists:
            _native.mark_rows(self._new, touched)

    def mark_range(self, first: int, last: int) -> None:
        """Marks all rows from `first` to below `last` as changed."""
        self.mark(np.arange(first, last, dtype=np.uint32))

    def changed_since(self, copy: int) -> Rows:
        """Returns the rows that have changed since copy number `copy` was made, as bits: row r is bit r % 64 of word r
        // 64. The array is the live one."""
        self.apply_marks()
        for rows in self._changed:
            np.bitwise_or(rows, self._new, out=rows)
        self._new[:] = 0
        return self._changed[copy]

    def mark_copied(self, copy: int) -> None:
        """Notes that copy number `copy` is up to date: all rows that `since` has returned are copied."""
        self._changed[copy][:] = 0


class Changes:
    """The changed rows of all tables for which they are known, by name of the parameter."""

    def __init__(self, rows: Mapping[str, int], copies: int) -> None:
        """Makes a record for each table. `rows`: by name of the parameter, how many rows its table has. `copies`: how
        many copies of each table there are."""
        self._tables = {name: ChangedRows(count, copies) for name, count in rows.items()}

    @classmethod
    def join(cls, of_members: Iterable[Changes]) -> Changes:
        """Joins the records of all members (networks of an ensemble) into one. The records of single tables are shared,
        not copied."""
        made = cls({}, 0)
        made._tables = {name: table for changes in of_members for name, table in changes._tables.items()}
        return made

    def apply_marks(self) -> None:
        """Enters rows marked as changed into the records of all tables."""
        for table in self._tables.values():
            table.apply_marks()

    def of_table(self, parameter: str) -> ChangedRows:
        """Returns the record of a table, by name of the parameter."""
        return self._tables[parameter]

    def changed_since(self, copy: int, tensors: Iterable[TensorBytes]) -> dict[str, Rows]:
        """Returns the rows that have changed since copy number `copy` was made, by name of the tensor. Names are
        `parameter`, or `parameter/key` for optimizer state. Tensors without the rows of a recorded table are left
        out."""
        known = {name: (table.rows, table.changed_since(copy)) for name, table in self._tables.items()}
        named: dict[str, Rows] = {}
        for tensor in tensors:
            rows, changed = known.get(tensor.name) or known.get(tensor.name.rpartition("/")[0]) or (0, None)
            if changed is not None and tensor.shape[:1] == (rows,):
                named[tensor.name] = changed
        return named

    def mark_copied(self, copy: int) -> None:
        """Notes that copy number `copy` of every table is up to date."""
        for table in self._tables.values():
            table.mark_copied(copy)
