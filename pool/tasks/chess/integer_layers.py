"""Computes layers of an exported network as its engine does: with integers that wrap around. Free of torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pool import _native
from pool.tasks.chess.positions import PositionBatch
from pool.tasks.chess.quantization import Ints

RowTables = Sequence[
    tuple[int, npt.NDArray[Any]]
]  # for each table: the feature of its first row, and its rows [R, columns]


def sum_rows_int16(
    tables: RowTables, bias: npt.NDArray[np.int16], block: PositionBatch, threads: int = 1
) -> npt.NDArray[np.int16]:
    """Adds up the bias and the table rows of each position's active features, modulo 2^16. Rows are int8 or int16.
    Returns [2, n, columns], the own side's sums first."""
    out = np.empty((2, len(block.piece_count), len(bias)), np.int16)
    _native.integer_row_sums(tables, np.ascontiguousarray(bias), block.own, block.opponent, out, threads)
    return out


def sum_rows_int32(tables: RowTables, block: PositionBatch, threads: int = 1) -> npt.NDArray[np.int32]:
    """Adds up the int32 table rows of each position's active features, modulo 2^32. Returns [2, n, columns], the own
    side's sums first."""
    out = np.empty((2, len(block.piece_count), tables[0][1].shape[1]), np.int32)
    _native.integer_row_sums(tables, None, block.own, block.opponent, out, threads)
    return out


def products(inputs: npt.NDArray[Any], weight: npt.NDArray[Any], bias: npt.NDArray[Any] | None = None) -> Ints:
    """Computes an affine layer of each output bucket, inputs * weight^T + bias modulo 2^32. Returns [buckets, n, out].

    inputs: [n, in], or [buckets, n, in], of 0 to 2^32 - 1. weight: [buckets, out, in] of int8 or int16. bias: int32
    [buckets, out]; None stands for zeros.
    """
    out = np.empty((len(weight), inputs.shape[-2], weight.shape[1]), np.int32)
    unsigned = inputs if inputs.dtype in (np.uint16, np.uint32) else inputs.astype(np.uint32)
    start = np.zeros((len(weight), weight.shape[1]), np.int32) if bias is None else np.ascontiguousarray(bias)
    inputs_of_buckets = np.broadcast_to(unsigned, (len(weight), *unsigned.shape[-2:]))
    for bucket, bucket_inputs in enumerate(inputs_of_buckets):
        _native.integer_products(bucket_inputs, np.ascontiguousarray(weight[bucket]), start[bucket], out[bucket])
    return out.astype(np.int64)


def evaluate_used_buckets(
    bucket: Ints, inputs: npt.NDArray[Any], layers: Callable[[npt.NDArray[Any], slice], Ints]
) -> Ints:
    """Evaluates each of n positions with the layers of its own output bucket alone. Returns [n].

    inputs: [n, in]. layers: a function of the inputs of some positions, and a slice that selects one bucket, to their
    outputs [positions, 1].
    """
    out = np.empty(len(bucket), np.int64)
    for used in np.unique(bucket).tolist():
        in_bucket = bucket == used
        out[in_bucket] = layers(inputs[in_bucket], slice(used, used + 1))[:, 0]
    return out
