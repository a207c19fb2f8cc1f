"""Inference as an engine does it with an exported file, exact to the last bit; every step is written down.

The first layer adds up int16, which wraps. With one layer behind it all is integers:

    screlu: eval = ((sum of clamp(acc, 0, QA)^2 * w) / QA + bias) * unit / (QA * QB)
    crelu:  eval = (sum of clamp(acc, 0, QA) * w + bias) * unit / (QA * QB)

in int32, divisions towards zero; QA is the scale of l0w, QB that of l1w, and the bias has QA * QB. With more layers, or
pairwise products, the sum behind the first layer is int32 and all that follows float32, added from the first input on,
never fused:

    x = clamp(acc, 0, QA); x * x; or pairwise (x[i] * x[i + N/2]) >> 9
    y = (float) sum * k + bias;   k = 1 / (QA * QB), 1 / (QA^2 * QB) or 512 / (QA^2 * QB), rounded to float32
    y becomes clamp(y, 0, 1) (crelu), its square (screlu), crelu of all and then min(y * y, 1) of all (dual),
        y * clamp(y / 6 + 1/2, 0, 1) (hard_swish), or y * clamp(g / 6 + 1/2, 0, 1), g the second half (gated)
    eval = (int) (y of the last layer * unit)

Integers of the later layers' tensors are divided by their scale first. Own perspective first; one evaluation for each
output bucket.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pool.tasks.chess.integer_sums import sums_int16
from pool.tasks.chess.network import Evaluation
from pool.tasks.chess.positions import Block, Position
from pool.tasks.chess.quantization import Ints, truncating_divide, wrapped
from pool.tasks.perspective.quantization import Net
from pool.tasks.perspective.shape import Shape

PAIR_SHIFT = 9
_Floats = npt.NDArray[np.float32]


def evaluate(net: Net, positions: Sequence[Position], bucket_of: Sequence[int]) -> Evaluation:
    """Evaluates all output buckets of each position; bucket_of: by number of pieces. Pawns are hundreds of units."""
    block = Block.of(positions)
    bucket, values = np.array(bucket_of)[block.piece_count], _values(net, block)
    value = values[np.arange(len(positions)), bucket]
    return Evaluation(bucket, {}, values, value, value / 100.0)


def values_of(net: Net, block: Block, bucket_of: Sequence[int], threads: int = 1) -> Ints:
    """Returns `Evaluation.value` of n positions [n]."""
    bucket = np.array(bucket_of)[block.piece_count]
    value: Ints = _values(net, block, threads)[np.arange(len(bucket)), bucket]
    return value


def first_activations(net: Net, block: Block, threads: int = 1) -> Ints:
    """Returns [n, inputs of the layer behind the first], the own side's first."""
    bias = net.tensors["l0b"].astype(np.int16)
    sides = (sums_int16(net.tables, bias, side, threads) for side in (block.own, block.opponent))
    qa = int(net.entry("l0w").scale)
    return np.concatenate([_activated(side.astype(np.int64), net.shape, qa) for side in sides], axis=1)


def check_evaluable(net: Net) -> None:
    """Raises ValueError for types and scales of tensors that no engine computes with as above."""
    first, bias, weights = (net.entry(name) for name in ("l0w", "l0b", "l1w"))
    if (
        any(entry.type not in ("i8", "i16") for entry in net.entries if entry.weight.startswith("l0"))
        or first.scale != bias.scale
    ):
        raise ValueError("model.export: l0w and l0b: i8 or i16, with the same scale, are expected")
    if weights.type not in ("i8", "i16"):
        raise ValueError("model.export: l1w: i8 or i16 is expected")
    if not is_whole(net.shape):
        return
    wanted = first.scale * weights.scale
    if net.entry("l1b").type == "f32" or net.entry("l1b").scale != wanted:
        raise ValueError(
            f"model.export: l1b: integers with scale {wanted:g}, that of l0w times that of l1w, are expected"
        )
    if any(not number.is_integer() for number in (first.scale, weights.scale, net.unit)):
        raise ValueError("model.export: l0w, l1w and loss.output_unit: whole scales are expected")


def is_whole(shape: Shape) -> bool:
    """Says whether all is integers: one layer behind the first, and no products."""
    return not shape.hidden and shape.activation != "pairwise"


def _values(net: Net, block: Block, threads: int = 1) -> Ints:
    """Returns [n, buckets]."""
    if not len(block.piece_count):
        return np.zeros((0, net.shape.buckets), np.int64)
    return _behind_the_first_layer(net, first_activations(net, block, threads))


def _behind_the_first_layer(net: Net, x: Ints) -> Ints:
    shape = net.shape
    qa, qb = net.entry("l0w").scale, net.entry("l1w").scale
    sums = wrapped(np.einsum("ni,boi->nbo", x, net.tensors["l1w"].astype(np.int64)))
    if is_whole(shape):
        return _whole(net, sums[..., 0])
    k = {"crelu": 1.0, "screlu": 1.0 / qa, "pairwise": (1 << PAIR_SHIFT) / qa}[shape.activation] / (qa * qb)
    y = sums.astype(np.float32) * np.float32(k) + _float_tensor(net, "l1b")
    hidden: list[_Floats] = []
    for number, activation in enumerate(shape.hidden_activation, 2):
        hidden.append(_float_activated(y, activation))
        skips = shape.skip and number == len(shape.layers)
        y = _float_layer(net, number, np.concatenate([hidden[-1], *hidden[:-1]], axis=2) if skips else hidden[-1])
    return (y[..., 0] * np.float32(net.unit)).astype(np.int64)


def _activated(accumulated: Ints, shape: Shape, qa: int) -> Ints:
    x = np.clip(accumulated, 0, qa)
    if shape.activation == "pairwise":
        half = shape.width // 2
        products: Ints = x[:, :half] * x[:, half:] >> PAIR_SHIFT
        return products
    return x * x if shape.activation == "screlu" else x


def _whole(net: Net, sums: Ints) -> Ints:
    qa, qb = int(net.entry("l0w").scale), int(net.entry("l1w").scale)
    if net.shape.activation == "screlu":
        sums = truncating_divide(sums, qa)
    y = wrapped(sums + net.tensors["l1b"][:, 0].astype(np.int64))
    return truncating_divide(wrapped(y * int(net.unit)), qa * qb)


def _float_activated(y: _Floats, activation: str) -> _Floats:
    x = _clipped(y)
    match activation:
        case "screlu":
            x = x * x
        case "dual":
            x = np.concatenate([x, np.minimum(y * y, np.float32(1))], axis=2)
        case "hard_swish":
            x = y * _gate(y)
        case "gated":
            half = y.shape[2] // 2
            x = y[..., :half] * _gate(y[..., half:])
    return x


def _clipped(y: _Floats) -> _Floats:
    x: _Floats = np.clip(y, np.float32(0), np.float32(1))
    return x


def _gate(y: _Floats) -> _Floats:
    return _clipped(y / np.float32(6) + np.float32(0.5))


def _float_layer(net: Net, number: int, x: _Floats) -> _Floats:
    """Turns [n, B, inputs] into [n, B, outputs], added up input by input."""
    weight, bias = _float_tensor(net, f"l{number}w"), _float_tensor(net, f"l{number}b")
    y = np.broadcast_to(bias, (len(x), *bias.shape)).copy()
    for i in range(weight.shape[2]):
        y += x[..., i : i + 1] * weight[..., i]
    return y


def _float_tensor(net: Net, name: str) -> _Floats:
    return (net.tensors[name] / net.entry(name).scale).astype(np.float32)
