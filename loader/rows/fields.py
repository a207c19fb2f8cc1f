"""The fields of a batch of rows, for the batch's layout and for the native part."""

from __future__ import annotations

from collections.abc import Sequence

from loader import _native
from loader.rows.settings import RowsConfig
from loader.stream.config import DataConfig
from loader.stream.schema import BatchSchema, DenseField, SparseField

LABEL = "label"
WEIGHT = "weight"
QID = "qid"
NO_QID = -(1 << 63)  # query number of a row without one; no file can contain it
_KINDS = {
    "real": _native.LabelKind.REAL,
    "binary": _native.LabelKind.BINARY,
    "class": _native.LabelKind.CLASS,
    "none": _native.LabelKind.NONE,
}


def dense_names(settings: RowsConfig) -> list[str]:
    """Returns the names of the dense float32 numbers in a batch."""
    return [LABEL, *([WEIGHT] if settings.weight else []), *settings.dense]


def optional_dense_names(settings: RowsConfig) -> list[str]:
    """Returns the names of the dense numbers that rows need not have. A label that is missing is 0 then, a weight 1."""
    return [LABEL, WEIGHT] if settings.label == "none" else []


def read_dense_names(settings: RowsConfig) -> list[str]:
    """Returns the names of the dense numbers that are read from files, query numbers included."""
    optional = optional_dense_names(settings)
    names = [name for name in dense_names(settings) if name not in optional]
    if settings.qid:
        names.append(QID)
    return names


def batch_schema(config: DataConfig) -> BatchSchema:
    """Returns the layout of a batch. Each sparse field has one bag (list of features) a row, and fields that share a
    table are one field with a bag of each. `label`, `weight` and the other dense numbers are float32, `qid` is int64.

    Raises ValueError if a batch would be too large.
    """
    settings: RowsConfig = config.settings
    sparse = tuple(_sparse_field(settings, name, fields) for name, fields in settings.tables().items())
    for field in sparse:
        max_active = field.max_active * field.bags_per_sample
        if max_active * config.batch_size >= 1 << 32:
            raise ValueError(
                f"data.rows.max_active: {max_active} in {config.batch_size} rows of a batch are more than 2^32"
            )
    dense = [DenseField(name, "float32") for name in dense_names(settings)]
    if settings.qid:
        dense.append(DenseField(QID, "int64"))
    return BatchSchema(config.batch_size, sparse=sparse, dense=tuple(dense))


def _sparse_field(settings: RowsConfig, name: str, fields: Sequence[str]) -> SparseField:
    """Returns the batch's sparse field `name`, in which each of `fields` has a bag of its own. They share a table."""
    begin, end = settings.ranges()[fields[0]]
    max_active = max(settings.max_active_in(field) for field in fields)
    has_values = settings.has_values(fields[0])
    return SparseField(name, end - begin, max_active, bags_per_sample=len(fields), values=has_values)


def row_shape(settings: RowsConfig) -> _native.RowShape:
    """Returns the fields of rows for the native part, in the order of their feature numbers."""
    ranges = settings.ranges()
    names = settings.names_by_number()
    shape = _native.RowShape()
    shape.label = _KINDS[settings.label]
    shape.num_classes = settings.num_classes
    shape.labels = settings.label_map
    shape.dense = dense_names(settings)
    shape.weight = settings.weight
    shape.qid = settings.qid
    shape.fields = [
        _native.RowField(name, *ranges[name], settings.has_values(name), settings.max_active_in(name)) for name in names
    ]
    tables = []
    for table, fields in settings.tables().items():
        first = names.index(fields[0])
        tables.append(_native.RowTable(table, first, first + len(fields)))
    shape.tables = tables
    shape.first_number = 0 if settings.zero_based else 1
    return shape
