"""Rows as numpy arrays, which a reader written in Python returns, and their conversion for the native part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from loader import _native
from loader.rows.fields import LABEL, QID, WEIGHT

_MAX_INT64 = np.iinfo(np.int64).max
Array = npt.NDArray[Any]
Sparse = tuple[Array, Array, Array | None]  # offsets [n + 1], features, values or None


@dataclass(frozen=True)
class Rows:
    """`n` rows of dense numbers and sparse features.

    dense: arrays [n] of numbers by name: `label`, and what the settings ask for: `weight`, `qid`, data.rows.dense.
    sparse: by the name of a field, (offsets [n + 1], features, values or None). Row i has features[offsets[i] :
    offsets[i + 1]], counted from 0 within the field, in any order, none twice. There is one value for each feature.

    Names that the settings do not ask for are ignored.
    """

    dense: Mapping[str, Array]
    sparse: Mapping[str, Sparse]


Block = tuple[int, list[Array], Array | None, list[Sparse]]  # as `_native.PythonRowReader` takes it


def to_native_block(rows: Rows, shape: _native.RowShape) -> Block:
    """Converts rows for the native part: to (number of rows, dense arrays, query numbers, sparse fields), in the
    order and types of `shape`. Raises ValueError for an array that is missing or has no numbers."""
    if not isinstance(rows, Rows):
        raise ValueError(f"loader.Rows are expected, not {type(rows).__name__}")
    if not isinstance(rows.dense, Mapping) or not isinstance(rows.sparse, Mapping):
        raise ValueError("dense and sparse of loader.Rows must be mappings of names to arrays")
    if shape.label == _native.LabelKind.NONE:
        count = next((len(parts[0]) - 1 for parts in rows.sparse.values() if isinstance(parts, tuple)), 0)
        rows = replace(rows, dense={**rows.dense, LABEL: np.zeros(count), WEIGHT: np.ones(count)})
    if shape.dense[0] not in rows.dense:
        raise ValueError(f"{shape.dense[0]} is missing")
    if shape.labels and shape.label != _native.LabelKind.NONE:
        rows = replace(rows, dense={**rows.dense, LABEL: _map_labels(rows.dense[LABEL], shape.labels)})
    dense = [_dense_vector(rows, name, np.float32, "fiub") for name in shape.dense]
    qid = _dense_vector(rows, QID, np.int64, "iub") if shape.qid else None
    return len(dense[0]), dense, qid, [_sparse_vectors(rows, field) for field in shape.fields]


def _map_labels(values: Any, label_map: Mapping[str, float]) -> Array:
    """Returns the labels as float32 [n]: each value's text is looked up in `label_map`. Raises ValueError for a text
    that is not in it."""
    unique_values, indices = np.unique(np.asarray(values), return_inverse=True)
    texts = _label_texts(unique_values)
    for index, text in enumerate(texts):
        if text not in label_map:
            row = int(np.argmax(indices == index))
            raise ValueError(
                f"row {row}: expected a label of data.rows.label_map, {', '.join(sorted(label_map))}; got {text!r}"
            )
    labels = np.array([label_map[text] for text in texts], np.float32)
    return labels[indices.reshape(-1)]


def _label_texts(values: Array) -> list[str]:
    """Returns the text of each value: "true" or "false" for a boolean, a float without ".0"."""
    if values.dtype.kind == "f":
        return [repr(value).removesuffix(".0") for value in values.tolist()]
    if values.dtype.kind == "b":
        return [str(value).lower() for value in values.tolist()]
    return [str(value) for value in values.tolist()]


def _dense_vector(rows: Rows, name: str, dtype: npt.DTypeLike, kinds: str) -> Array:
    """Returns the dense array of that name as `dtype`. Raises ValueError if it is missing or of a dtype.kind that is
    not in `kinds`."""
    if name not in rows.dense:
        key = {WEIGHT: "data.rows.weight", QID: "data.rows.qid"}.get(name, "data.rows.dense")
        raise ValueError(f"{name} is missing ({key}); there are {', '.join(rows.dense)}")
    return _to_vector(name, rows.dense[name], dtype, kinds)


def _sparse_vectors(rows: Rows, field: _native.RowField) -> Sparse:
    """Returns the offsets, features and values of a field, with values of 1 where the rows have none and the field
    needs them. Raises ValueError for what the settings do not allow."""
    name = field.name
    if name not in rows.sparse:
        raise ValueError(f"field {name} is missing; there are {', '.join(rows.sparse) or 'none'}")
    parts = rows.sparse[name]
    if not isinstance(parts, tuple) or len(parts) != 3:
        raise ValueError(f"field {name}: a tuple of offsets, features, and values or None is expected")
    offsets = _to_vector(f"{name}: offsets", parts[0], np.int64, "iub")
    features = _to_vector(f"{name}: features", parts[1], np.int64, "iub")
    values = None if parts[2] is None else _to_vector(f"{name}: values", parts[2], np.float32, "fiub")
    if field.values:
        if values is None:
            values = np.ones(len(features), np.float32)
        return offsets, features, values
    if values is not None and (values != 1).any():
        raise ValueError(f"{name} has values other than 1, and data.rows.values says that it has none")
    return offsets, features, None


def _to_vector(name: str, values: Any, dtype: npt.DTypeLike, kinds: str) -> Array:
    """Returns the values as a contiguous vector of `dtype`. Raises ValueError unless they are a vector of a dtype.kind
    in `kinds`."""
    try:
        array = np.asarray(values)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{name}: {error}") from None
    if array.ndim != 1 or (array.dtype.kind not in kinds and array.size):
        raise ValueError(f"{name}: {array.dtype} {list(array.shape)} given; a row of numbers is expected")
    if array.dtype == np.uint64 and dtype is np.int64 and array.size and array.max() > _MAX_INT64:
        raise ValueError(f"{name}: {array.max()} given; at most {_MAX_INT64} is expected, the largest int64")
    with np.errstate(over="ignore"):  # a number too large becomes an infinity, which is refused later, with its row
        return np.ascontiguousarray(array, dtype=dtype)
