"""Reduces the gradients of a step along its tree (I2) by our kernels, alone or together with an optimizer's step.

The kernels are src/reduce.cu, step.cu and find_rows.cu. `pool.kernels.reduction` and `pool.kernels.rule` describe the
arguments. `places`: the gradients' leaves in the tree, ascending. A table's gradients are the touched rows alone, one
after the other, numbered by `touched`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from pool._native import structure
from pool.kernels.cuda.compiler import Source
from pool.kernels.cuda.launcher import Extent, Float, Pointer, UInt32, launch_kernel, load_width

MAX_LEAVES = 64  # greatest number of leaves of the tree's smallest node that holds all gradients of a call
_INDEX = {torch.uint16: "uint16", torch.uint32: "uint32"}


def reduce(out: Tensor, gradients: Sequence[Tensor], places: Sequence[int], scale: float) -> None:
    """Writes to `out` the sum of the gradients, at least one, times the scale. All have one shape. `out` may be the
    memory of one gradient."""
    leaves, narrow, sources = _sources(gradients, places)
    width = load_width(out.numel(), out, *gradients)
    source = Source.of("reduce.cu", BFLOAT16=0, WIDTH=width, LEAVES=leaves, NARROW=narrow)
    launch_kernel(out.device, source, "reduce", Extent(out.numel() // width, 1), sources, out, scale, out.numel())


def reduce_rows(
    out: Tensor,
    gradients: Sequence[Tensor],
    touched: Sequence[Tensor],
    places: Sequence[int],
    scale: float,
    first_row: int,
    touched_only: bool,
) -> None:
    """Writes to `out` [rows, columns], part of a table, the sum of the gradients of its touched rows, times the scale.

    Rows that no gradient has become zeros, or stay as they are with `touched_only`. `first_row`: feature of the first
    row.
    """
    leaves, narrow, sources = _sources(gradients, places)
    rows, columns = out.shape
    row_numbers = _row_numbers(touched, places, leaves, first_row, rows)
    width = load_width(columns, out, *gradients)
    source = Source.of("reduce.cu", BFLOAT16=0, WIDTH=width, LEAVES=leaves, NARROW=narrow)
    arguments = sources, row_numbers, out, scale, rows, columns, touched_only
    launch_kernel(out.device, source, "reduce_rows", Extent(rows, columns // width), *arguments)


def step(
    rule: str, tensors: Sequence[Tensor], gradients: Sequence[Tensor], places: Sequence[int], numbers: Sequence[float]
) -> None:
    """Steps an optimizer by a rule of rules.cuh, with the sum of the gradients.

    `tensors`: new weights, old weights, then states; `numbers`: the scale of the sum, then the rule's constants.
    """
    weights = tensors[0]
    leaves, narrow, sources = _sources(gradients, places)
    width = load_width(weights.numel(), *tensors, *gradients)
    source = Source.of("step.cu", BFLOAT16=0, WIDTH=width, LEAVES=leaves, NARROW=narrow, STEP=rule)
    arguments = sources, _state(tensors), structure(numbers=(Float, numbers)), weights.numel()
    launch_kernel(weights.device, source, "step", Extent(weights.numel() // width, 1), *arguments)


def step_rows(
    rule: str,
    tensors: Sequence[Tensor],
    gradients: Sequence[Tensor],
    touched: Sequence[Tensor],
    places: Sequence[int],
    numbers: Sequence[float],
    which: Sequence[int],
) -> None:
    """Steps a table's rows [rows, columns] by a rule of rules.cuh, with the sum of the gradients of its touched rows.

    `tensors`, `numbers`: as in `step`; `which`: feature of the first row, and 1 if rows that no gradient has are
    neither read nor written.
    """
    weights, (first_row, touched_only) = tensors[0], which
    leaves, narrow, sources = _sources(gradients, places)
    rows, columns = weights.shape
    row_numbers = _row_numbers(touched, places, leaves, first_row, rows)
    width = load_width(columns, *tensors, *gradients)
    source = Source.of("step.cu", BFLOAT16=0, WIDTH=width, LEAVES=leaves, NARROW=narrow, STEP=rule)
    by = structure(numbers=(Float, numbers))
    arguments = sources, row_numbers, _state(tensors), by, rows, columns, touched_only
    launch_kernel(weights.device, source, "step_rows", Extent(rows, columns // width), *arguments)


def leaves_of(places: Sequence[int]) -> tuple[int, list[int]]:
    """Returns how many leaves the smallest node of the tree has that holds these places, and the index in it of each
    place.

    Raises ValueError for more than MAX_LEAVES leaves.
    """
    level = (places[0] ^ places[-1]).bit_length()
    leaves = 1 << level
    if leaves > MAX_LEAVES:
        raise ValueError(f"places {places[0]} to {places[-1]}: a node of {leaves}; reduce nodes of {MAX_LEAVES} first")
    assert all(left < right for left, right in pairwise(places)), "I2"
    return leaves, [place & (leaves - 1) for place in places]


def _sources(gradients: Sequence[Tensor], places: Sequence[int]) -> tuple[int, int, bytes]:
    """Returns the number of leaves, whether any gradient is bfloat16, and the structure of gradients that kernels
    take."""
    leaves, at = leaves_of(places)
    assert {gradient.dtype for gradient in gradients} <= {torch.float32, torch.bfloat16}
    bits = sum(1 << place for place, each in zip(at, gradients, strict=True) if each.dtype == torch.bfloat16)
    sources: list[Tensor | None] = [None] * leaves
    for place, gradient in zip(at, gradients, strict=True):
        sources[place] = gradient
    if not bits:
        return leaves, 0, structure(at=(Pointer, sources))
    words = [bits >> 32 * word & 0xFFFFFFFF for word in range(-(-leaves // 32))]  # a bit for each leaf
    return leaves, 1, structure(at=(Pointer, sources), narrow=(UInt32, words))


def _state(tensors: Sequence[Tensor]) -> bytes:
    assert all(tensor.dtype == torch.float32 for tensor in tensors)
    return structure(at=(Pointer, tensors))


def _row_numbers(touched: Sequence[Tensor], places: Sequence[int], leaves: int, first_row: int, rows: int) -> Tensor:
    """Returns, for each leaf and row of the table, the row's index in that leaf's gradient, from 1, or 0: int32
    [leaves, rows]."""
    assert len({numbers.dtype for numbers in touched}) == 1, "lists of one type"
    lists: list[Tensor | None] = [None] * leaves
    for place, numbers in zip(leaves_of(places)[1], touched, strict=True):
        lists[place] = numbers
    counts = [0 if numbers is None else numbers.numel() for numbers in lists]
    listed = structure(at=(Pointer, lists), count=(UInt32, counts))
    numbers_of = torch.zeros(leaves, rows, dtype=torch.int32, device=touched[0].device)
    source = Source.of("find_rows.cu", BFLOAT16=0, WIDTH=1, LEAVES=leaves, INDEX=_INDEX[touched[0].dtype])
    longest = max(1, *(numbers.numel() for numbers in touched))
    launch_kernel(
        numbers_of.device,
        source,
        "find_rows",
        Extent(leaves * longest, 1),
        listed,
        numbers_of,
        longest,
        first_row,
        rows,
    )
    return numbers_of
