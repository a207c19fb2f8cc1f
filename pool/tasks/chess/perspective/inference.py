"""Evaluates an exported network as an engine does, exact to the last bit. Every step is written out.

The first layer adds up int16, which wraps. With one layer behind it all is integers:

    screlu: eval = ((sum of clamp(acc, 0, QA)^2 * w) / QA + bias) * unit / (QA * QB)
    crelu:  eval = (sum of clamp(acc, 0, QA) * w + bias) * unit / (QA * QB)

in int32, with divisions towards zero. QA is the scale of l0w, QB that of l1w, and the bias has QA * QB. With more
layers, or pairwise products, the sum behind the first layer is int32. All that follows is float32, added from the first
input on, never fused:

    x = clamp(acc, 0, QA); x * x; or pairwise (x[i] * x[i + N/2]) >> 9
    y = (float) sum * k + bias;   k = 1 / (QA * QB), 1 / (QA^2 * QB) or 512 / (QA^2 * QB), rounded to float32
    y becomes clamp(y, 0, 1) (crelu), its square (screlu), crelu of all and then min(y * y, 1) of all (dual),
        y * clamp(y / 6 + 1/2, 0, 1) (hard_swish), or y * clamp(g / 6 + 1/2, 0, 1), g the second half (gated)
    eval = (int) (y of the last layer * unit)

Integers of the later layers' tensors are divided by their scale first. The own perspective comes first. There is one
evaluation for each output bucket.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from pool.tasks.chess.integer_layers import evaluate_used_buckets, products, sum_rows_int16
from pool.tasks.chess.network import Evaluation
from pool.tasks.chess.perspective.quantization import Net
from pool.tasks.chess.perspective.shape import Shape
from pool.tasks.chess.positions import Position, PositionBatch
from pool.tasks.chess.quantization import Ints, truncating_divide, wrap_int32

PAIR_SHIFT = 9
_BYTE, _INT16 = 255, 32767
_Floats = npt.NDArray[np.float32]


def evaluate(net: Net, positions: Sequence[Position], bucket_of: Sequence[int]) -> Evaluation:
    """Evaluates each position with all output buckets' layers. bucket_of: the output bucket for each number of pieces.
    A pawn is a hundred units."""
    block = PositionBatch.from_positions(positions)
    bucket = np.array(bucket_of)[block.piece_count]
    values = _compute_layers(net, first_activations(net, block), slice(None))
    value = values[np.arange(len(positions)), bucket]
    return Evaluation(bucket, {}, values, value, value / 100.0)


def compute_values(net: Net, block: PositionBatch, bucket_of: Sequence[int], threads: int = 1) -> Ints:
    """Returns `Evaluation.value` of n positions, [n]. Computes only the layers of each position's own bucket."""
    bucket = np.array(bucket_of)[block.piece_count]
    return evaluate_used_buckets(bucket, first_activations(net, block, threads), partial(_compute_layers, net))


def first_activations(net: Net, block: PositionBatch, threads: int = 1) -> npt.NDArray[np.unsignedinteger[Any]]:
    """Computes the first layer and its activations, [n, inputs of the next layer], the own side's first."""
    shape, qa = net.shape, int(net.entry("l0w").scale)
    sums = sum_rows_int16(net.tables, net.tensors["l0b"].astype(np.int16), block, threads)
    clamped = np.clip(sums, 0, min(qa, _INT16), out=sums).view(np.uint16)
    x: npt.NDArray[Any] = clamped if qa <= _BYTE else clamped.astype(np.uint32)  # wide enough for products
    if shape.activation == "pairwise":
        half = shape.width // 2
        x = x[..., :half] * x[..., half:] >> PAIR_SHIFT
    elif shape.activation == "screlu":
        x *= x
    return np.concatenate(x, axis=1)


def check_evaluable(net: Net) -> None:
    """Checks that the types and scales of the tensors allow the arithmetic of this module. Raises ValueError otherwise,
    as no engine computes with them."""
    first, bias, weights = (net.entry(name) for name in ("l0w", "l0b", "l1w"))
    if (
        any(entry.type not in ("i8", "i16") for entry in net.entries if entry.weight.startswith("l0"))
        or first.scale != bias.scale
    ):
        raise ValueError("model.export: l0w and l0b: i8 or i16, with the same scale, are expected")
    if weights.type not in ("i8", "i16"):
        raise ValueError("model.export: l1w: i8 or i16 is expected")
    if not is_integer_only(net.shape):
        return
    bias_scale = first.scale * weights.scale
    if net.entry("l1b").type == "f32" or net.entry("l1b").scale != bias_scale:
        raise ValueError(
            f"model.export: l1b: integers with scale {bias_scale:g}, that of l0w times that of l1w, are expected"
        )
    if any(not number.is_integer() for number in (first.scale, weights.scale, net.unit)):
        raise ValueError("model.export: l0w, l1w and loss.output_unit: whole scales are expected")


def is_integer_only(shape: Shape) -> bool:
    """Returns whether the network is computed in integers throughout: one layer behind the first, and no products."""
    return not shape.hidden and shape.activation != "pairwise"


def _compute_layers(net: Net, x: npt.NDArray[np.unsignedinteger[Any]], buckets: slice) -> Ints:
    """Computes evaluations [n, buckets] from the first activations [n, inputs]. Between the layers the bucket is the
    first axis."""
    shape, qa, qb = net.shape, net.entry("l0w").scale, net.entry("l1w").scale
    sums = products(x, net.tensors["l1w"][buckets])
    if is_integer_only(shape):
        return _evaluate_integers(net, sums[..., 0].T, buckets)
    k = {"crelu": 1.0, "screlu": 1.0 / qa, "pairwise": (1 << PAIR_SHIFT) / qa}[shape.activation] / (qa * qb)
    y = sums.astype(np.float32) * np.float32(k) + _floats(net, "l1b", buckets)[:, None]
    hidden: list[_Floats] = []
    for number, activation in enumerate(shape.hidden_activation, 2):
        hidden.append(_activate(y, activation))
        skips = shape.skip and number == len(shape.layers)
        inputs = np.concatenate([hidden[-1], *hidden[:-1]], axis=2) if skips else hidden[-1]
        y = _linear(inputs, _floats(net, f"l{number}w", buckets), _floats(net, f"l{number}b", buckets))
    return (y[..., 0].T * np.float32(net.unit)).astype(np.int64)


def _evaluate_integers(net: Net, sums: Ints, buckets: slice) -> Ints:
    """Computes evaluations from the integer sums of the only layer behind the first."""
    qa, qb = int(net.entry("l0w").scale), int(net.entry("l1w").scale)
    if net.shape.activation == "screlu":
        sums = truncating_divide(sums, qa)
    y = wrap_int32(sums + net.tensors["l1b"][buckets, 0].astype(np.int64))
    return truncating_divide(wrap_int32(y * int(net.unit)), qa * qb)


def _activate(y: _Floats, activation: str) -> _Floats:
    """Computes a hidden layer's activations in float32."""
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
    """Computes the gate of hard_swish and gated activations, clamp(y / 6 + 1/2, 0, 1)."""
    return _clipped(y / np.float32(6) + np.float32(0.5))


def _linear(x: _Floats, weight: _Floats, bias: _Floats) -> _Floats:
    """Computes an affine layer, [B, n, inputs] -> [B, n, outputs], adding input by input as engines do."""
    y = np.broadcast_to(bias[:, None], (*x.shape[:2], bias.shape[1])).copy()
    for i in range(x.shape[2]):
        y += x[..., i : i + 1] * weight[:, None, :, i]
    return y


def _floats(net: Net, name: str, buckets: slice) -> _Floats:
    """Returns the floats of a later layer's tensor: its numbers divided by their scale."""
    return (net.tensors[name][buckets] / net.entry(name).scale).astype(np.float32)
