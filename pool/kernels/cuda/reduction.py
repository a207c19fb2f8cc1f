"""Reduces the gradients of a step along its tree (I2) by our kernels, alone or together with an optimizer's step.

The kernels are src/reduce.cu, step.cu and find_rows.cu. `pool.kernels.reduction` and `pool.kernels.rule` describe the
arguments. `leaves`: the gradients' leaves in the tree, ascending. A table's gradients are the touched rows alone, one
after the other, numbered by `touched`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from pool._native import structure
from pool.kernels.cuda.compiler import Source
from pool.kernels.cuda.launcher import Extent, Float, Pointer, UInt32, launch_kernel, load_width

MAX_LEAVES = 64  # greatest number of leaves of the tree's smallest node that holds all gradients of a call
_INDEX = {torch.uint16: "uint16", torch.uint32: "uint32"}


def reduce(out: Tensor, gradients: Sequence[Tensor], leaves: Sequence[int], scale: float) -> None:
    """Writes to `out` the sum of the gradients, at least one, times the scale. All have one shape. `out` may be the
    memory of one gradient."""
    sources = _collect_sources(gradients, leaves)
    width = load_width(out.numel(), out, *gradients)
    source = Source.of("reduce.cu", BFLOAT16=0, WIDTH=width, LEAVES=sources.num_leaves, NARROW=sources.is_narrow)
    extent = Extent(out.numel() // width, 1)
    launch_kernel(out.device, source, "reduce", extent, sources.structure, out, scale, out.numel())


def reduce_rows(
    out: Tensor,
    gradients: Sequence[Tensor],
    touched: Sequence[Tensor],
    leaves: Sequence[int],
    scale: float,
    first_row: int,
    touched_only: bool,
) -> None:
    """Writes to `out` [rows, columns], a shard of a table, the sum of the gradients of its touched rows, times the
    scale.

    Rows that no gradient has become zeros, or stay as they are with `touched_only`. `first_row`: feature of the first
    row.
    """
    sources = _collect_sources(gradients, leaves)
    rows, columns = out.shape
    row_indices = _find_row_indices(touched, leaves, first_row, rows)
    width = load_width(columns, out, *gradients)
    source = Source.of("reduce.cu", BFLOAT16=0, WIDTH=width, LEAVES=sources.num_leaves, NARROW=sources.is_narrow)
    arguments = sources.structure, row_indices, out, scale, rows, columns, touched_only
    launch_kernel(out.device, source, "reduce_rows", Extent(rows, columns // width), *arguments)


def step(
    rule: str, tensors: Sequence[Tensor], gradients: Sequence[Tensor], leaves: Sequence[int], numbers: Sequence[float]
) -> None:
    """Steps an optimizer by a rule of rules.cuh, with the sum of the gradients.

    `tensors`: new weights, old weights, then states; `numbers`: the scale of the sum, then the rule's constants.
    """
    weights = tensors[0]
    sources = _collect_sources(gradients, leaves)
    width = load_width(weights.numel(), *tensors, *gradients)
    source = _step_source(rule, width, sources)
    arguments = sources.structure, _pack_tensors(tensors), structure(numbers=(Float, numbers)), weights.numel()
    launch_kernel(weights.device, source, "step", Extent(weights.numel() // width, 1), *arguments)


def step_rows(
    rule: str,
    tensors: Sequence[Tensor],
    gradients: Sequence[Tensor],
    touched: Sequence[Tensor],
    leaves: Sequence[int],
    numbers: Sequence[float],
    row_settings: Sequence[int],
) -> None:
    """Steps a table's rows [rows, columns] by a rule of rules.cuh, with the sum of the gradients of its touched rows.

    `tensors`, `numbers`: as in `step`; `row_settings`: feature of the first row, and 1 if rows that no gradient has are
    neither read nor written.
    """
    weights, (first_row, touched_only) = tensors[0], row_settings
    sources = _collect_sources(gradients, leaves)
    rows, columns = weights.shape
    row_indices = _find_row_indices(touched, leaves, first_row, rows)
    width = load_width(columns, *tensors, *gradients)
    source = _step_source(rule, width, sources)
    packed_numbers = structure(numbers=(Float, numbers))
    arguments = sources.structure, row_indices, _pack_tensors(tensors), packed_numbers, rows, columns, touched_only
    launch_kernel(weights.device, source, "step_rows", Extent(rows, columns // width), *arguments)


class TreeNode(NamedTuple):
    """The smallest node of the tree that holds some leaves."""

    num_leaves: int
    indices: list[int]  # of those leaves, in the node


class _Sources(NamedTuple):
    """The gradients of a call, as kernels take them."""

    num_leaves: int  # of the node that holds them
    is_narrow: int  # 1 if any gradient is bfloat16
    structure: bytes  # a pointer for each leaf, and if any gradient is bfloat16 a bit for each leaf


def find_node(leaves: Sequence[int]) -> TreeNode:
    """Returns the smallest node of the tree that holds these leaves. Raises ValueError if it has more than MAX_LEAVES
    leaves."""
    level = (leaves[0] ^ leaves[-1]).bit_length()
    num_leaves = 1 << level
    if num_leaves > MAX_LEAVES:
        raise ValueError(
            f"places {leaves[0]} to {leaves[-1]}: a node of {num_leaves}; reduce nodes of {MAX_LEAVES} first"
        )
    assert all(left < right for left, right in pairwise(leaves)), "I2"
    return TreeNode(num_leaves, [leaf & (num_leaves - 1) for leaf in leaves])


def _collect_sources(gradients: Sequence[Tensor], leaves: Sequence[int]) -> _Sources:
    """Returns the gradients as kernels take them."""
    node = find_node(leaves)
    assert {gradient.dtype for gradient in gradients} <= {torch.float32, torch.bfloat16}
    by_leaf: list[Tensor | None] = [None] * node.num_leaves
    narrow_bits = 0
    for index, gradient in zip(node.indices, gradients, strict=True):
        by_leaf[index] = gradient
        if gradient.dtype == torch.bfloat16:
            narrow_bits |= 1 << index
    if not narrow_bits:
        return _Sources(node.num_leaves, 0, structure(at=(Pointer, by_leaf)))
    num_words = -(-node.num_leaves // 32)
    words = [narrow_bits >> 32 * word & 0xFFFFFFFF for word in range(num_words)]
    return _Sources(node.num_leaves, 1, structure(at=(Pointer, by_leaf), narrow=(UInt32, words)))


def _step_source(rule: str, width: int, sources: _Sources) -> Source:
    leaves, narrow = sources.num_leaves, sources.is_narrow
    return Source.of("step.cu", BFLOAT16=0, WIDTH=width, LEAVES=leaves, NARROW=narrow, STEP=rule)


def _pack_tensors(tensors: Sequence[Tensor]) -> bytes:
    assert all(tensor.dtype == torch.float32 for tensor in tensors)
    return structure(at=(Pointer, tensors))


def _find_row_indices(touched: Sequence[Tensor], leaves: Sequence[int], first_row: int, rows: int) -> Tensor:
    """Returns, for each leaf and row of the table, the row's index in that leaf's gradient, from 1, or 0: int32
    [leaves, rows]."""
    assert len({numbers.dtype for numbers in touched}) == 1, "lists of one type"
    node = find_node(leaves)
    by_leaf: list[Tensor | None] = [None] * node.num_leaves
    for index, numbers in zip(node.indices, touched, strict=True):
        by_leaf[index] = numbers
    counts = [0 if numbers is None else numbers.numel() for numbers in by_leaf]
    lists = structure(at=(Pointer, by_leaf), count=(UInt32, counts))
    indices = torch.zeros(node.num_leaves, rows, dtype=torch.int32, device=touched[0].device)
    source = Source.of("find_rows.cu", BFLOAT16=0, WIDTH=1, LEAVES=node.num_leaves, INDEX=_INDEX[touched[0].dtype])
    longest = max(1, *counts)
    arguments = lists, indices, longest, first_row, rows
    launch_kernel(indices.device, source, "find_rows", Extent(node.num_leaves * longest, 1), *arguments)
    return indices
