"""Gradients of a step added up along its tree (I2), alone or along with Adam, as torch operations on a device.

All numbers are float32; a gradient may be bfloat16, beside others that are not. The bits are those of the CPU's
kernels (pool/kernels/cpu/fold, pool/kernels/cpu/optim). Gradients have places in the tree (pool.kernels.tree), strictly
ascending. Of a table they are the touched rows alone, one after the other, numbered by `touched` (uint16 or uint32, all
of one type); row r of the table belongs to feature first_row + r.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from functools import cache
from itertools import pairwise

import torch
from torch import Tensor

from pool.kernels.cuda.launcher import Extent, run, width_of
from pool.kernels.cuda.operation import operation
from pool.kernels.cuda.source import Source

MOST_PLACES = 64  # from the first to the last gradient of one call, in a node of the tree
_INDEX = {torch.uint16: "uint16", torch.uint32: "uint32"}


@dataclass(frozen=True)
class AdamStep:
    """The numbers of one step, as kernels/adam.cu names them."""

    mean_rate: float
    square_keep: float
    square_rate: float
    step_size: float
    root_scale: float
    epsilon: float
    decay: float
    shrink: float

    @classmethod
    def of(
        cls,
        *,
        learning_rate: float,
        beta1: float,
        beta2: float,
        epsilon: float,
        weight_decay: float,
        decoupled: bool,
        step: float,
    ) -> AdamStep:
        """Step `step`, from 1; the settings of `pool.optim.adam.Adam.one_pass`."""
        return cls(
            mean_rate=1 - beta1,
            square_keep=beta2,
            square_rate=1 - beta2,
            step_size=learning_rate / (1 - beta1**step),
            root_scale=1 / math.sqrt(1 - beta2**step),
            epsilon=epsilon,
            decay=0.0 if decoupled else weight_decay,
            shrink=1 - learning_rate * weight_decay if decoupled else 1.0,
        )

    @property
    def numbers(self) -> list[float]:
        return list(astuple(self))


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
    """The same of a table [rows, columns]: rows that no gradient has become zeros, or with `touched_only` stay."""
    leaves, narrow, sources = _sources(gradients, places)
    rows, columns = out.shape
    found = _found(touched, places, leaves, first_row, rows)
    width = width_of(columns, out, *gradients)
    source = Source.of("fold.cu", BFLOAT16=0, WIDTH=width, LEAVES=leaves, NARROW=narrow)
    arguments = sources, found, out, scale, rows, columns, int(touched_only)
    run(out.device, source, "fold_rows", Extent(rows, columns // width), *arguments)


@operation("weights", "mean", "square")
def adam(
    weights: Tensor,
    old: Tensor,
    mean: Tensor,
    square: Tensor,
    gradients: Sequence[Tensor],
    places: Sequence[int],
    scale: float,
    step: Sequence[float],
) -> None:
    """weights = a step from `old`, which may be the same memory, with the fold of the gradients; `step`:
    `AdamStep.numbers`."""
    leaves, narrow, sources = _sources(gradients, places)
    width = width_of(weights.numel(), weights, old, mean, square, *gradients)
    source = Source.of("adam.cu", BFLOAT16=0, WIDTH=width, LEAVES=leaves, NARROW=narrow)
    arguments = sources, _state(weights, old, mean, square), _Step(scale, *step), _size(weights)
    run(weights.device, source, "adam", Extent(weights.numel() // width, 1), *arguments)


@operation("weights", "mean", "square")
def adam_rows(
    weights: Tensor,
    old: Tensor,
    mean: Tensor,
    square: Tensor,
    gradients: Sequence[Tensor],
    touched: Sequence[Tensor],
    places: Sequence[int],
    scale: float,
    step: Sequence[float],
    first_row: int,
    touched_only: bool,
) -> None:
    """The same of a table [rows, columns]. `touched_only` (SparseAdam): rows that no gradient has are neither read nor
    written."""
    leaves, narrow, sources = _sources(gradients, places)
    rows, columns = weights.shape
    found = _found(touched, places, leaves, first_row, rows)
    width = width_of(columns, weights, old, mean, square, *gradients)
    source = Source.of("adam.cu", BFLOAT16=0, WIDTH=width, LEAVES=leaves, NARROW=narrow)
    state = _state(weights, old, mean, square)
    arguments = sources, found, state, _Step(scale, *step), rows, columns, int(touched_only)
    run(weights.device, source, "adam_rows", Extent(rows, columns // width), *arguments)


def leaves_of(places: Sequence[int]) -> tuple[int, list[int]]:
    """How many leaves the smallest node has that holds these places, and where in it each stands. ValueError for more
    than MOST_PLACES."""
    level = (places[0] ^ places[-1]).bit_length()
    leaves = 1 << level
    if leaves > MOST_PLACES:
        raise ValueError(f"places {places[0]} to {places[-1]}: a node of {leaves}; fold nodes of {MOST_PLACES} first")
    assert all(left < right for left, right in pairwise(places)), "I2"
    return leaves, [place & (leaves - 1) for place in places]


class _State(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("weights", "old", "mean", "square"))


class _Step(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_float) for name in ("scale", *AdamStep.__dataclass_fields__))


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
    """How many leaves, whether any is bfloat16, and both as kernels take them."""
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
    """Of 32 bits, one bit for each leaf."""
    return -(-leaves // 32)


def _state(*tensors: Tensor) -> _State:
    assert all(tensor.is_contiguous() and tensor.dtype == torch.float32 for tensor in tensors)
    return _State(*(tensor.data_ptr() for tensor in tensors))


def _size(tensor: Tensor) -> ctypes.c_uint64:
    return ctypes.c_uint64(tensor.numel())


def _found(touched: Sequence[Tensor], places: Sequence[int], leaves: int, first_row: int, rows: int) -> Tensor:
    """[leaves, rows] int32: which row of a gradient it is, from 1; 0: none."""
    assert len({numbers.dtype for numbers in touched}) == 1, "lists of one type"
    lists = _touched_type(leaves)()
    for place, numbers in zip(leaves_of(places)[1], touched, strict=True):
        lists.at[place], lists.count[place] = numbers.data_ptr(), numbers.numel()
    found = torch.zeros(leaves, rows, dtype=torch.int32, device=touched[0].device)
    source = Source.of("find_rows.cu", BFLOAT16=0, WIDTH=1, LEAVES=leaves, INDEX=_INDEX[touched[0].dtype])
    run(found.device, source, "find_rows", Extent(leaves, max(1, *map(len, touched))), lists, found, first_row, rows)
    return found


def _register_fakes() -> None:
    """They only write what they are given."""
    for each in (fold, fold_rows, adam, adam_rows):
        each.fake(lambda *_: None)


_register_fakes()
