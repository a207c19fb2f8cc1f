"""Evaluates an exported network with the integers of Stockfish, exact to the last bit.

Every step of the integer arithmetic (wrapping, floors, truncation) is written out. Terms are in sixteenths of internal
units, from the point of view of the side to move. The rules are those of builds whose int16 products do not saturate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from pool.tasks.chess.integer_layers import evaluate_used_buckets, products, sum_rows_int16, sum_rows_int32
from pool.tasks.chess.positions import Position, PositionBatch
from pool.tasks.chess.quantization import Ints, truncating_divide, wrap_int32
from pool.tasks.chess.stockfish.nnue_file import Net
from pool.tasks.chess.stockfish.versions import LARGEST_INPUT, NUM_BUCKETS, OUTPUT_SCALE, Version, bucket

_BLOCK = 1024  # positions evaluated at a time, which bounds the memory


@dataclass(frozen=True)
class Evaluation:
    """The results of evaluating n positions, from the side to move's point of view."""

    bucket: Ints  # [n], output bucket in use
    psqt: Ints  # [n, 8], material term, sixteenths
    positional: Ints  # [n, 8], sixteenths
    values: Ints  # [n, 8], internal units
    value: Ints  # [n], of the bucket in use


def evaluate(net: Net, positions: Sequence[Position]) -> Evaluation:
    """Evaluates each position with all buckets' layers. The positions must have the inputs of the net's version."""
    none = np.zeros((0, NUM_BUCKETS), np.int64)  # for no positions at all
    blocks = [PositionBatch.from_positions(positions[i : i + _BLOCK]) for i in range(0, len(positions), _BLOCK)]
    terms = [_compute_terms(net, block) for block in blocks]
    psqt = np.concatenate([none, *(psqt for psqt, _ in terms)])
    positional = np.concatenate([none, *(positional for _, positional in terms)])
    used = bucket(np.array([position.piece_count for position in positions], np.int64))
    values = _add_terms(net.version, psqt, positional)
    return Evaluation(used, psqt, positional, values, values[np.arange(len(positions)), used])


def compute_values(net: Net, block: PositionBatch, threads: int = 1) -> Ints:
    """Returns `Evaluation.value` of n positions, [n]. Computes only the layers of each position's own bucket."""
    used = bucket(block.piece_count)
    psqt = _psqt(net, block, threads)[np.arange(len(used)), used]
    positional = evaluate_used_buckets(used, _pairs(net, block, threads), partial(_layers, net))
    return _add_terms(net.version, psqt, positional)


def pair_products(net: Net, positions: Sequence[Position]) -> npt.NDArray[np.uint16]:
    """Returns the inputs of fc_0, [n, l1]: the first layer's pairwise products, the own side's first."""
    return _pairs(net, PositionBatch.from_positions(positions))


def _compute_terms(net: Net, block: PositionBatch) -> tuple[Ints, Ints]:
    """Returns the material and the positional terms of all buckets, [n, 8] each."""
    return _psqt(net, block), _layers(net, _pairs(net, block), slice(None))


def _add_terms(version: Version, psqt: Ints, positional: Ints) -> Ints:
    """Adds the material and the positional terms. Converts them to internal units as the engine of the version does."""
    if version.cut_apart:
        return truncating_divide(psqt, 16) + truncating_divide(positional, 16)
    return truncating_divide(psqt + positional, 16)


def _psqt(net: Net, block: PositionBatch, threads: int = 1) -> Ints:
    """Computes the material terms (PSQT), [n, 8], in sixteenths of internal units."""
    tables = [(table.first, net[table.psqt]) for table in net.version.tables]
    own, opponent = sum_rows_int32(tables, block, threads)
    return truncating_divide((own - opponent).astype(np.int64), 2)


def _pairs(net: Net, block: PositionBatch, threads: int = 1) -> npt.NDArray[np.uint16]:
    """Computes the pairwise products, [n, l1]: adds up the first layer of both perspectives, and multiplies the clamped
    halves of each."""
    version, half = net.version, net.l1 // 2
    tables = [(table.first, net[table.weight]) for table in version.tables]
    pairs = np.empty((len(block.piece_count), net.l1), np.uint16)
    for number, sums in enumerate(sum_rows_int16(tables, net["transformer_bias"], block, threads)):
        largest = version.largest_sum // 2 if version.doubled else version.largest_sum
        clamped = np.clip(sums, 0, largest, out=sums).view(np.uint16)
        if version.doubled:
            clamped *= 2
        out = pairs[:, number * half : (number + 1) * half]
        np.multiply(clamped[:, :half], clamped[:, half:], out=out)
        out >>= 9
    return pairs


def _layers(net: Net, inputs: npt.NDArray[np.uint16], buckets: slice) -> Ints:
    """Computes the positional terms [n, buckets] from the products [n, l1]. Between the layers the bucket is the first
    axis."""
    version = net.version

    def weight(name: str, inputs: int) -> npt.NDArray[np.int8]:
        return net[f"{name}_weight"][buckets][..., :inputs]

    y = products(inputs, weight("fc_0", net.l1), net["fc_0_bias"][buckets])
    hidden = _activated(version, 0, y[..., : version.paired])
    z = products(hidden, weight("fc_1", version.fc_1_in), net["fc_1_bias"][buckets])
    if version.all_activations:
        last = np.concatenate([hidden, _activated(version, 1, z)], axis=2)
    else:
        last = _clipped(version, 1, z)
    v = products(last, weight("fc_2", version.fc_2_in)[:, None], net["fc_2_bias"][buckets][:, None])[..., 0]
    skipped = y[..., -2] - y[..., -1] if version.skips == 2 else y[..., -1]
    if version.skip_one == version.output_one:
        return truncating_divide(wrap_int32(v + skipped) * OUTPUT_SCALE, version.output_one).T
    return wrap_int32(v + truncating_divide(wrap_int32(skipped * OUTPUT_SCALE), version.skip_one)).T


def _activated(version: Version, layer: int, y: Ints) -> Ints:
    """Returns the activations of a layer's outputs: their squares, then the clipped outputs."""
    shift = version.square_shift[layer]
    assert shift is not None
    return np.concatenate([np.minimum(LARGEST_INPUT, y * y >> shift), _clipped(version, layer, y)], axis=2)


def _clipped(version: Version, layer: int, y: Ints) -> Ints:
    clipped: Ints = np.clip(y >> version.clip_shift[layer], 0, LARGEST_INPUT)
    return clipped
