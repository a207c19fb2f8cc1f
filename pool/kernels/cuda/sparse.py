"""Computes the sums of the sparse layer by our kernels on a CUDA device (src/list_sums.cu).

Tables are float32 or bfloat16. A table in bfloat16 may have a bias in float32. Sums are computed in float32. They have
the same bits in each run, but other bits than on a CPU, which adds up along a plan.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from pool.kernels.cuda.compiler import Source
from pool.kernels.cuda.launcher import Extent, launch_kernel, load_width

PIECE = 256  # numbers of a piece, as in src/list_sums.cu
ROWS = 32  # rows that one thread adds up, as in src/column_sums.cu
INDEX = {torch.uint16: "uint16", torch.uint32: "uint32"}


def sum_lists(table: Tensor, numbers: Tensor, offsets: Tensor, values: Tensor | None, start: Tensor | None) -> Tensor:
    """Returns, for each list, start [columns] plus the rows of `table` [rows, columns] that it names, times values:
    [lists, columns].

    List l is numbers[offsets[l] : offsets[l + 1]] (uint16 or uint32; offsets uint32). Values are float32, one for each
    of the numbers. The result has the dtype of start, or of the table if there is no start.
    """
    lists, columns = _shape(table, offsets)
    out = (table if start is None else start).new_empty(lists, columns)
    source, width = sums_source("list_sums.cu", table, numbers.dtype, values, columns, out, start)
    extent = Extent(lists, columns // width)
    launch_kernel(
        table.device, source, "sum_lists", extent, table, numbers, offsets, values, start, out, lists, columns
    )
    return out


def sum_long_lists(table: Tensor, numbers: Tensor, offsets: Tensor, values: Tensor | None) -> Tensor:
    """Returns the same as `sum_lists` without a start, for lists of very different lengths. Long lists are summed in
    pieces."""
    lists, columns = _shape(table, offsets)
    out = table.new_empty(lists, columns)
    windows = -(-numbers.numel() // PIECE)
    partial = table.new_empty(2 * windows, columns, dtype=torch.float32)
    source, width = sums_source("list_sums.cu", table, numbers.dtype, values, columns, out)
    groups = columns // width
    arguments = table, numbers, offsets, values, out, partial, lists, windows, columns
    launch_kernel(table.device, source, "sum_pieces", Extent(lists + 2 * windows, groups), *arguments)
    launch_kernel(
        table.device, source, "join_pieces", Extent(windows, groups), offsets, partial, out, lists, windows, columns
    )
    return out


def column_sums(matrix: Tensor) -> Tensor:
    """Returns the sums of the columns, float32 [columns], of a matrix [rows, columns] of either dtype."""
    while True:
        rows, columns = matrix.shape
        sums = -(-rows // ROWS)
        out = matrix.new_empty(sums, columns, dtype=torch.float32)
        width = load_width(columns, matrix)
        source = Source.of("column_sums.cu", BFLOAT16=_is_bfloat16(matrix), WIDTH=width)
        launch_kernel(matrix.device, source, "column_sums", Extent(sums, columns // width), matrix, out, rows, columns)
        if sums <= 1:
            return out.view(columns) if sums else matrix.new_zeros(columns, dtype=torch.float32)
        matrix = out


def sums_source(
    file: str | Path,
    table: Tensor,
    index: torch.dtype,
    values: Tensor | None,
    columns: int,
    out: Tensor,
    *others: Tensor | None,
    **more: int,
) -> tuple[Source, int]:
    """Returns a source that includes list_sums.cuh, and its WIDTH (numbers that a thread loads at a time) for so many
    columns.

    All tensors but the table have the dtype of `out`.
    """
    width = load_width(columns, table, out, *others)
    rows, numbers = _is_bfloat16(table), _is_bfloat16(out)
    assert rows >= numbers, f"a table of {table.dtype} beside {out.dtype}"
    constants = {"BFLOAT16": numbers, "NARROW": rows - numbers, "WIDTH": width}
    constants["VALUES"] = int(values is not None)
    return Source.of(file, INDEX=INDEX[index], **constants, **more), width


def _is_bfloat16(tensor: Tensor) -> int:
    return int(tensor.dtype == torch.bfloat16)


def _shape(table: Tensor, offsets: Tensor) -> tuple[int, int]:
    return offsets.shape[0] - 1, table.shape[1]
