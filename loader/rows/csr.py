"""Makes rows of arrays with the layout of scipy.sparse.csr_matrix."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from loader.rows.block import Array, Rows, Sparse
from loader.rows.settings import RowsConfig


def split_csr_rows(
    indptr: Array, indices: Array, data: Array | None, dense: Mapping[str, Array], settings: RowsConfig
) -> Rows:
    """Splits the rows of a CSR matrix into the fields of the settings.

    Row i has the feature numbers indices[indptr[i] : indptr[i + 1]], counted from 0 over all fields, and their values
    in `data`. Without `data` each feature counts 1. In a field without values an entry of 0 is no feature. `dense`:
    arrays of numbers by name, one number a row.

    Raises ValueError for arrays that don't fit together, and for a feature number outside of all fields.
    """
    indptr, indices = np.asarray(indptr), np.asarray(indices)
    _check_arrays(indptr, indices, data, dense)
    is_in_no_field = np.ones(len(indices), bool)
    sparse: dict[str, Sparse] = {}
    for field, (begin, end) in settings.ranges().items():
        is_in_field = (indices >= begin) & (indices < end)
        is_in_no_field &= ~is_in_field
        if data is not None and not settings.has_values(field):
            is_in_field &= np.asarray(data) != 0
        count_before = np.concatenate([[0], np.cumsum(is_in_field)])
        offsets = count_before[indptr]
        features = indices[is_in_field].astype(np.int64) - begin
        sparse[field] = offsets, features, None if data is None else data[is_in_field]
    if is_in_no_field.any():
        first = int(np.argmax(is_in_no_field))
        row = int(np.searchsorted(indptr, first, side="right")) - 1
        raise ValueError(f"row {row} has feature number {indices[first]}, which is in no field (data.rows.fields)")
    return Rows(dense, sparse)


def _check_arrays(indptr: Array, indices: Array, data: Array | None, dense: Mapping[str, Array]) -> None:
    """Raises ValueError for arrays that don't fit together."""
    if indptr.ndim != 1 or indices.ndim != 1 or indptr.dtype.kind not in "iu" or indices.dtype.kind not in "iu":
        raise ValueError("indptr and indices must be rows of integers")
    if not len(indptr) or indptr[0] != 0 or indptr[-1] != len(indices) or (np.diff(indptr.astype(np.int64)) < 0).any():
        raise ValueError(f"indptr must ascend from 0 to {len(indices)}, the number of indices")
    if data is not None and np.shape(data) != indices.shape:
        raise ValueError(f"data has the shape {list(np.shape(data))}; [{len(indices)}] is expected, as indices have")
    num_rows = len(indptr) - 1
    for name, numbers in dense.items():
        if np.shape(numbers) != (num_rows,):
            raise ValueError(f"{name} has the shape {list(np.shape(numbers))} for {num_rows} rows of the matrix")
