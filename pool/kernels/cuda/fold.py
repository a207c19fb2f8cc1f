"""Gradients of a step added up along its tree (I2), alone or along with Adam, as torch operations on a device: src/
fold.cu, adam.cu, find_rows.cu. `pool.kernels.fold` and `pool.kernels.adam` say what they take. A table's gradients are
the touched rows alone, one after the other, numbered by `touched`."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from itertools import pairwise

import torch
from torch import Tensor

from pool.kernels.cuda.compiler import Source
from pool.kernels.cuda.launcher import Extent, run, width_of
from pool.kernels.cuda.operation import operation

MOST_PLACES = 64  # from the first to the last gradient of one call, in a node of the tree
_INDEX = {torch.uint16: "uint16", torch.uint32: "uint32"}


@operation("out")
def fold(out: Tensor, gradients: Sequence[Tensor], places: Sequence[int], scale: float) -> None:
    """out = (sum of the gradients, at least one) * scale; all of one shape. `out` may be one of them."""
    leaves, narrow, sources = _sources(gradients, places)
    width = width_of(out.numel(), out, *gradients)
    source = Source.of("fold.cu", BFLOAT16=0, WIDTH=width, LEAVES=leaves, NARROW=narrow)
    run(out.device, source, "fold", Extent(out.numel() // width, 1), sources, out, scale, _size(out))


@operation("out")
def fold_rows(
    out: Tensor,
    gradients: Sequence[Tensor],
    touched: Sequence[Tensor],
    places: Sequence[int],
    scale: float,
    first_row: int,
    touched_only: bool,
) -> None:
    """Adds up gradients of a table [rows, columns]: rows that no gradient has become zeros, or with `touched_only`
    stay."""
    leaves, narrow, sources = _sources(gradients, places)
    rows, columns = out.shape
    row_numbers = _row_numbers(touched, places, leaves, first_row, rows)
    width = width_of(columns, out, *gradients)
    source = Source.of("fold.cu", BFLOAT16=0, WIDTH=width, LEAVES=leaves, NARROW=narrow)
    arguments = sources, row_numbers, out, scale, rows, columns, int(touched_only)
    run(out.device, source, "fold_rows", Extent(rows, columns // width), *arguments)


@operation("state")
def adam(
    state: Sequence[Tensor], old: Tensor, gradients: Sequence[Tensor], places: Sequence[int], step: Sequence[float]
) -> None:
    """Steps `state` (weights, mean, square) from `old` with the fold of the gradients; `step`: the scale of their sum,
    then `AdamNumbers`."""
    weights, mean, square = state
    leaves, narrow, sources = _sources(gradients, places)
    width = width_of(weights.numel(), weights, old, mean, square, *gradients)
    source = Source.of("adam.cu", BFLOAT16=0, WIDTH=width, LEAVES=leaves, NARROW=narrow)
    arguments = sources, _state(weights, old, mean, square), _Step(*step), _size(weights)
    run(weights.device, source, "adam", Extent(weights.numel() // width, 1), *arguments)


@operation("state")
def adam_rows(
    state: Sequence[Tensor],
    old: Tensor,
    gradients: Sequence[Tensor],
    touched: Sequence[Tensor],
    places: Sequence[int],
    step: Sequence[float],
    which: Sequence[int],
) -> None:
    """Steps a table [rows, columns]. `which`: the first row, and 1 if rows that no gradient has are neither read nor
    written (SparseAdam)."""
    (weights, mean, square), (first_row, touched_only) = state, which
    leaves, narrow, sources = _sources(gradients, places)
    rows, columns = weights.shape
    row_numbers = _row_numbers(touched, places, leaves, first_row, rows)
    width = width_of(columns, weights, old, mean, square, *gradients)
    source = Source.of("adam.cu", BFLOAT16=0, WIDTH=width, LEAVES=leaves, NARROW=narrow)
    arguments = sources, row_numbers, _state(weights, old, mean, square), _Step(*step), rows, columns, touched_only
    run(weights.device, source, "adam_rows", Extent(rows, columns // width), *arguments)


def leaves_of(places: Sequence[int]) -> tuple[int, list[int]]:
    """Returns how many leaves the smallest node has that holds these places, and where in it each stands. ValueError
    for more than MOST_PLACES."""
    level = (places[0] ^ places[-1]).bit_length()
    leaves = 1 << level
    if leaves > MOST_PLACES:
        raise ValueError(f"places {places[0]} to {places[-1]}: a node of {leaves}; fold nodes of {MOST_PLACES} first")
    assert all(left < right for left, right in pairwise(places)), "I2"
    return leaves, [place & (leaves - 1) for place in places]


class _State(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("weights", "old", "mean", "square"))


class _Step(ctypes.Structure):
    _fields_ = tuple((f"number_{i}", ctypes.c_float) for i in range(9))  # of Step in adam.cu


@cache
def _sources_type(leaves: int, narrow: int) -> type[ctypes.Structure]:
    words = [("narrow", ctypes.c_uint32 * _words(leaves))] if narrow else []
    fields = [("at", ctypes.c_uint64 * leaves), *words]
    return type("Sources", (ctypes.Structure,), {"_fields_": fields})


@cache
def _touched_type(leaves: int) -> type[ctypes.Structure]:
    fields = [("at", ctypes.c_uint64 * leaves), ("count", ctypes.c_uint32 * leaves)]
    return type("Touched", (ctypes.Structure,), {"_fields_": fields})


def _sources(gradients: Sequence[Tensor], places: Sequence[int]) -> tuple[int, int, ctypes.Structure]:
    """Returns how many leaves there are, whether any is bfloat16, and the gradients as kernels take them."""
    leaves, at = leaves_of(places)
    bits = sum(1 << place for place, each in zip(at, gradients, strict=True) if each.dtype == torch.bfloat16)
    narrow = int(bits > 0)
    made = _sources_type(leaves, narrow)()
    for place, gradient in zip(at, gradients, strict=True):
        assert gradient.is_contiguous()
        assert gradient.dtype in (torch.float32, torch.bfloat16)
        made.at[place] = gradient.data_ptr()
    for word in range(_words(leaves) if narrow else 0):
        made.narrow[word] = bits >> 32 * word & 0xFFFFFFFF
    return leaves, narrow, made


def _words(leaves: int) -> int:
    """Counts words of 32 bits, one bit for each leaf."""
    return -(-leaves // 32)


def _state(*tensors: Tensor) -> _State:
    assert all(tensor.is_contiguous() and tensor.dtype == torch.float32 for tensor in tensors)
    return _State(*(tensor.data_ptr() for tensor in tensors))


def _size(tensor: Tensor) -> ctypes.c_uint64:
    return ctypes.c_uint64(tensor.numel())


def _row_numbers(touched: Sequence[Tensor], places: Sequence[int], leaves: int, first_row: int, rows: int) -> Tensor:
    """Returns [leaves, rows] int32: which row of a gradient it is, from 1; 0: none."""
    assert len({numbers.dtype for numbers in touched}) == 1, "lists of one type"
    lists = _touched_type(leaves)()
    for place, numbers in zip(leaves_of(places)[1], touched, strict=True):
        lists.at[place], lists.count[place] = numbers.data_ptr(), numbers.numel()
    numbers_of = torch.zeros(leaves, rows, dtype=torch.int32, device=touched[0].device)
    source = Source.of("find_rows.cu", BFLOAT16=0, WIDTH=1, LEAVES=leaves, INDEX=_INDEX[touched[0].dtype])
    longest = max(1, *map(len, touched))
    run(
        numbers_of.device,
        source,
        "find_rows",
        Extent(leaves * longest, 1),
        lists,
        numbers_of,
        longest,
        first_row,
        rows,
    )
    return numbers_of


def _register_fakes() -> None:
    """Operations that only write what they get return nothing."""
    for each in (fold, fold_rows, adam, adam_rows):
        each.fake(lambda *_: None)


_register_fakes()
