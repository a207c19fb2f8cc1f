"""Integer inference of an exported network, exact to the last bit: what Stockfish 15.1 computes.

numpy only; every step of the integer arithmetic (wrapping, floors, truncation) is written down. Terms
are in sixteenths of internal units, from the point of view of the side to move. Rules: SFNNv5 as in
Stockfish 15.1, builds without int16 saturation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pool.tasks.chess.positions import Position
from pool.tasks.stockfish.quantized import arch
from pool.tasks.stockfish.quantized.nnue_file import NnueNet

_BLOCK = 1024  # positions at a time: bounds the memory
_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Evaluation:
    """Of n positions; the side to move's view."""

    bucket: _Ints  # [n], the one that value is made of
    psqt: _Ints  # [n, 8], material term, sixteenths
    positional: _Ints  # [n, 8], sixteenths
    value: _Ints  # [n], internal units


def evaluate(net: NnueNet, positions: Sequence[Position]) -> Evaluation:
    """All buckets of each position."""
    blocks = [positions[i : i + _BLOCK] for i in range(0, len(positions), _BLOCK)]
    terms = [_terms(net, block) for block in blocks]
    psqt = np.concatenate([np.zeros((0, arch.NUM_BUCKETS), np.int64), *(block[0] for block in terms)])
    positional = np.concatenate([np.zeros((0, arch.NUM_BUCKETS), np.int64), *(block[1] for block in terms)])
    bucket = np.array([arch.bucket(position.piece_count) for position in positions], np.int64)
    used = np.arange(len(positions)), bucket
    return Evaluation(bucket, psqt, positional, truncating_divide(psqt[used] + positional[used], 16))


def truncating_divide(value: _Ints, divisor: int) -> _Ints:
    """Division that rounds toward zero, as C's; numpy's rounds down."""
    quotient: _Ints = np.sign(value) * (np.abs(value) // divisor)
    return quotient


def _terms(net: NnueNet, positions: Sequence[Position]) -> tuple[_Ints, _Ints]:
    own = [_accumulate(net, position.own) for position in positions]
    opponent = [_accumulate(net, position.opponent) for position in positions]
    difference = np.stack([psqt for _, psqt in own]) - np.stack([psqt for _, psqt in opponent])
    psqt = truncating_divide(_wrap(difference), 2)
    inputs = np.concatenate([_pair(np.stack([acc for acc, _ in side])) for side in (own, opponent)], axis=1)
    return psqt, _layers(net, inputs)


def _accumulate(net: NnueNet, features: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int16], _Ints]:
    """First layer of one perspective: int16 sums that wrap [l1], PSQT sums [8]."""
    accumulator = net.transformer_weight[features].sum(axis=0, dtype=np.int16)
    accumulator += net.transformer_bias
    return accumulator, _wrap(net.psqt_weight[features].sum(axis=0, dtype=np.int64))


def _pair(accumulator: npt.NDArray[np.int16]) -> _Ints:
    """[n, l1] -> [n, l1 / 2]: the clamped halves multiplied."""
    clamped = np.clip(accumulator, 0, 127).astype(np.int64)
    half = clamped.shape[1] // 2
    product: _Ints = clamped[:, :half] * clamped[:, half:] >> 7
    return product


def _layers(net: NnueNet, inputs: _Ints) -> _Ints:
    """[n, l1] -> positional terms [n, 8]. Between the layers the bucket is the first axis."""
    y = _affine(inputs[None], net.fc_0_weight[:, :, : net.l1], net.fc_0_bias)
    paired, skipped = y[..., : arch.PAIR_OUT], y[..., arch.PAIR_OUT]
    squared = np.minimum(127, paired * paired >> 19)
    clipped = np.clip(paired >> 6, 0, 127)
    hidden = np.concatenate([squared, clipped], axis=2)
    z = np.clip(_affine(hidden, net.fc_1_weight[:, :, : arch.FC_1_IN], net.fc_1_bias) >> 6, 0, 127)
    v = _affine(z, net.fc_2_weight[:, None], net.fc_2_bias[:, None])[..., 0]
    skip = truncating_divide(_wrap(skipped * arch.OUTPUT_SCALE), arch.HIDDEN_BIAS_SCALE)
    return _wrap(v + skip).T


def _affine(inputs: _Ints, weight: npt.NDArray[np.int8], bias: npt.NDArray[np.int32]) -> _Ints:
    """[8 or 1, n, in] x [8, out, in] -> int32 [8, n, out]. Doubles hold the products exactly and use BLAS."""
    product = inputs.astype(np.float64) @ weight.astype(np.float64).transpose(0, 2, 1)
    return _wrap(product.astype(np.int64) + bias[:, None])


def _wrap(value: _Ints) -> _Ints:
    """As an int32 would hold it."""
    return value.astype(np.int32).astype(np.int64)
