"""Integer inference of an exported network, exact to the last bit: what Stockfish computes.

numpy only; every step of the integer arithmetic (wrapping, floors, truncation) is written down. Terms
are in sixteenths of internal units, from the point of view of the side to move. Rules: those of builds without int16
saturation of products.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pool.tasks.chess.positions import Position
from pool.tasks.chess.quantization import truncating_divide, wrapped
from pool.tasks.stockfish.nnue_file import Net
from pool.tasks.stockfish.versions import LARGEST_INPUT, NUM_BUCKETS, OUTPUT_SCALE, Version, bucket

_BLOCK = 1024  # positions at a time: bounds the memory
_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Evaluation:
    """The sums of n positions, from the side to move's point of view."""

    bucket: _Ints  # [n], the one that value is made of
    psqt: _Ints  # [n, 8], material term, sixteenths
    positional: _Ints  # [n, 8], sixteenths
    values: _Ints  # [n, 8], internal units
    value: _Ints  # [n], the bucket's


def evaluate(net: Net, positions: Sequence[Position]) -> Evaluation:
    """Evaluates all buckets of each position. `positions`: with the inputs of the net's version."""
    blocks = [positions[i : i + _BLOCK] for i in range(0, len(positions), _BLOCK)]
    terms = [_terms(net, block) for block in blocks]
    psqt = np.concatenate([np.zeros((0, NUM_BUCKETS), np.int64), *(block[0] for block in terms)])
    positional = np.concatenate([np.zeros((0, NUM_BUCKETS), np.int64), *(block[1] for block in terms)])
    used = np.array([bucket(position.piece_count) for position in positions], np.int64)
    if net.version.cut_apart:
        values = truncating_divide(psqt, 16) + truncating_divide(positional, 16)
    else:
        values = truncating_divide(psqt + positional, 16)
    return Evaluation(used, psqt, positional, values, values[np.arange(len(positions)), used])


def pair_products(net: Net, positions: Sequence[Position]) -> _Ints:
    """Returns what enters fc_0, [n, l1], the own side's pairs first."""
    sides = [[_accumulate(net, getattr(position, side))[0] for position in positions] for side in ("own", "opponent")]
    return np.concatenate([_pair(net.version, np.stack(sums)) for sums in sides], axis=1)


def _terms(net: Net, positions: Sequence[Position]) -> tuple[_Ints, _Ints]:
    own = [_accumulate(net, position.own) for position in positions]
    opponent = [_accumulate(net, position.opponent) for position in positions]
    difference = np.stack([psqt for _, psqt in own]) - np.stack([psqt for _, psqt in opponent])
    psqt = truncating_divide(wrapped(difference), 2)
    sides = [_pair(net.version, np.stack([sums for sums, _ in side])) for side in (own, opponent)]
    return psqt, _layers(net, np.concatenate(sides, axis=1))


def _accumulate(net: Net, features: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int16], _Ints]:
    """Computes the first layer of one perspective: int16 sums that wrap [l1], PSQT sums [8]."""
    sums = net["transformer_bias"].copy()
    psqt = np.zeros(NUM_BUCKETS, np.int64)
    for table in net.version.tables:
        rows = features[(features >= table.rows.start) & (features < table.rows.stop)] - table.first
        sums += net[table.weight][rows].sum(axis=0, dtype=np.int16)
        psqt += net[table.psqt][rows].sum(axis=0, dtype=np.int64)
    return sums, wrapped(psqt)


def _pair(version: Version, sums: npt.NDArray[np.int16]) -> _Ints:
    """Multiplies the clamped halves: [n, l1] -> [n, l1 / 2]."""
    clamped = np.clip(sums.astype(np.int64) * (2 if version.doubled else 1), 0, version.largest_sum)
    half = clamped.shape[1] // 2
    product: _Ints = clamped[:, :half] * clamped[:, half:] >> 9
    return product


def _layers(net: Net, inputs: _Ints) -> _Ints:
    """Turns [n, l1] into positional terms [n, 8]. Between the layers the bucket is the first axis."""
    version = net.version
    y = _affine(inputs[None], net["fc_0_weight"][:, :, : net.l1], net["fc_0_bias"])
    hidden = _activated(version, 0, y[..., : version.paired])
    z = _affine(hidden, net["fc_1_weight"][:, :, : version.fc_1_in], net["fc_1_bias"])
    if version.all_activations:
        last = np.concatenate([hidden, _activated(version, 1, z)], axis=2)
    else:
        last = _clipped(version, 1, z)
    weight = net["fc_2_weight"][:, None, : version.fc_2_in]
    v = _affine(last, weight, net["fc_2_bias"][:, None])[..., 0]
    skipped = y[..., -2] - y[..., -1] if version.skips == 2 else y[..., -1]
    if version.skip_one == version.output_one:
        return truncating_divide(wrapped(v + skipped) * OUTPUT_SCALE, version.output_one).T
    return wrapped(v + truncating_divide(wrapped(skipped * OUTPUT_SCALE), version.skip_one)).T


def _activated(version: Version, layer: int, y: _Ints) -> _Ints:
    """Returns squares, then the clipped outputs."""
    shift = version.square_shift[layer]
    assert shift is not None
    return np.concatenate([np.minimum(LARGEST_INPUT, y * y >> shift), _clipped(version, layer, y)], axis=2)


def _clipped(version: Version, layer: int, y: _Ints) -> _Ints:
    clipped: _Ints = np.clip(y >> version.clip_shift[layer], 0, LARGEST_INPUT)
    return clipped


def _affine(inputs: _Ints, weight: npt.NDArray[np.int8], bias: npt.NDArray[np.int32]) -> _Ints:
    """Turns [8 or 1, n, in] and [8, out, in] into int32 [8, n, out]. Doubles hold the products exactly and use BLAS."""
    product = inputs.astype(np.float64) @ weight.astype(np.float64).transpose(0, 2, 1)
    return wrapped(product.astype(np.int64) + bias[:, None])
