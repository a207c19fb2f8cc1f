"""Finds an order of a first layer's pairs in which many blocks of four neighbours are 0 together, as engines skip such
blocks.

A pair is two outputs of the layer that are multiplied, and the product is one input of the next layer. Engines take
four such inputs at a time. The order of the pairs does not change what the network computes, if every row, the bias and
the columns of the next layer are put in the same order. Free of torch.

The search works on one bit for each pair, position and side: whether the pair is 0. It first fills the blocks one after
the other. A block gets the pair that is 0 most often of those that remain, and the three that are 0 together with it
most often. Then pairs of different blocks are swapped as long as that gains anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pool.tasks.chess.network import FileNetwork
from pool.tasks.chess.positions import Position, read_positions
from pool.tasks.chess.proof import check_equal_evaluations

BLOCK = 4  # inputs of the next layer, a byte each
_HELD_OUT = 4  # every fourth position is held out to measure the order
_POSITIONS_PER_BATCH = 256  # positions
_MAX_ROUNDS = 100
_OPTION = "--permute"
_COMPARED = 256  # positions on which both orders are compared, besides the probe positions

Bits = npt.NDArray[np.uint8]
Order = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Sparsity:
    """An order of pairs, and the share of blocks that are 0 before and after it, measured on positions that the search
    did not use."""

    order: Order  # [pairs]: the present index of the pair for each new index
    before: float  # share of blocks that are 0 in the present order
    after: float
    positions: int

    def __str__(self) -> str:
        return (
            f"blocks of {BLOCK} inputs that are 0: {self.before:.2%} before, {self.after:.2%} after "
            f"({self.positions:,} positions that it was not found with)"
        )


def find_order(
    activations: Callable[[Sequence[Position]], npt.NDArray[Any]], positions: Sequence[Position]
) -> Sparsity:
    """Searches an order of pairs with more blocks that are 0, on three of four positions, and measures it on the
    others. Returns the present order if no better one is found. Raises ValueError if the pairs do not fill whole
    blocks, and for less than two positions.

    activations: a function of n positions to [n, 2 * pairs], the own side's first.
    """
    if len(positions) < 2:
        raise ValueError(f"{len(positions)} position: two are needed, one to find the order with and one to measure")
    batches = [positions[i : i + _POSITIONS_PER_BATCH] for i in range(0, len(positions), _POSITIONS_PER_BATCH)]
    zeros = np.concatenate([_find_zeros(activations, batch) for batch in batches])
    if zeros.shape[2] % BLOCK:
        raise ValueError(f"{zeros.shape[2]} pairs: blocks of {BLOCK} can't be filled with them")
    is_held_out = np.arange(len(zeros)) % _HELD_OUT == _HELD_OUT - 1
    if len(zeros) < _HELD_OUT:
        is_held_out = np.arange(len(zeros)) == 0
    searched = _pack_by_pair(zeros[~is_held_out])
    order = _improve_order(searched, _fill_blocks(searched))
    held_out = zeros[is_held_out].reshape(-1, zeros.shape[2])
    before, after = _share_of_zero_blocks(held_out), _share_of_zero_blocks(held_out[:, order])
    if after <= before:
        return Sparsity(np.arange(len(order)), before, before, int(is_held_out.sum()))
    return Sparsity(order, before, after, int(is_held_out.sum()))


def _find_zeros(activations: Callable[[Sequence[Position]], npt.NDArray[Any]], positions: Sequence[Position]) -> Bits:
    """Returns which pairs are 0 in each position and side, [n, 2, pairs]."""
    zeros: npt.NDArray[np.bool_] = activations(positions) == 0
    return zeros.reshape(len(positions), 2, -1).astype(np.uint8)


def _share_of_zero_blocks(zeros: Bits) -> float:
    """Returns the share of blocks that are 0, of pairs in their present order."""
    return float(zeros.reshape(len(zeros), -1, BLOCK).all(axis=2).mean())


def _pack_by_pair(zeros: Bits) -> Bits:
    """Packs the zeros of each pair, a bit for each position and side. Returns [pairs, bytes]."""
    bits: Bits = np.packbits(zeros.reshape(-1, zeros.shape[2]).T, axis=1)
    return bits


def _count_ones(bits: Bits) -> npt.NDArray[np.int64]:
    """Counts the ones in each row of packed bits."""
    counts: npt.NDArray[np.int64] = np.bitwise_count(bits).sum(axis=1, dtype=np.int64)
    return counts


def _fill_blocks(bits: Bits) -> Order:
    """Returns a first order of the pairs. Fills block after block, each time with the remaining pair that is 0 most
    often, in a begun block most often together with the pairs in it."""
    remaining = np.arange(len(bits))
    order = []
    all_counts = _count_ones(bits)
    while len(remaining):
        common: Bits | None = None  # where all pairs of the block are 0
        for _ in range(BLOCK):
            counts = all_counts[remaining] if common is None else _count_ones(bits[remaining] & common)
            best = remaining[int(np.argmax(counts))]
            common = bits[best] if common is None else common & bits[best]
            order.append(int(best))
            remaining = remaining[remaining != best]
    return np.array(order, np.int64)


def _improve_order(bits: Bits, order: Order) -> Order:
    """Improves an order in place by swaps of pairs between blocks, until no swap gains anything or the rounds are used
    up."""
    for _ in range(_MAX_ROUNDS):
        swaps = _find_swaps(bits[order])
        if not swaps:
            break
        for first, second in swaps:
            order[first], order[second] = order[second], order[first]
    return order


def _find_swaps(bits: Bits) -> list[tuple[int, int]]:
    """Returns the indices of pairs to swap, those that gain most first. Each block takes part in one swap at most, so
    that the gains add up."""
    zeros = np.unpackbits(bits, axis=1).astype(np.float32)
    blocks = zeros.reshape(len(bits) // BLOCK, BLOCK, -1)
    missing = BLOCK - blocks.sum(axis=1)
    others_are_zero = (missing[:, None] - (1 - blocks) == 0).reshape(zeros.shape).astype(np.float32)
    zero_blocks = zeros @ others_are_zero.T  # [i, j]: how often j's block would be 0 with pair i in place of j
    gain = zero_blocks - np.diag(zero_blocks)[None]
    gain += gain.T
    block = np.arange(len(bits)) // BLOCK
    gain[block[:, None] == block[None]] = 0
    best_of_block = gain.reshape(len(blocks), BLOCK, len(blocks), BLOCK).max(axis=(1, 3))
    candidates = zip(*np.nonzero(np.triu(best_of_block) > 0), strict=True)
    swaps, is_used = [], np.zeros(len(blocks), bool)
    for first, second in sorted(candidates, key=lambda blocks_of_swap: -float(best_of_block[blocks_of_swap])):
        if is_used[first] or is_used[second]:
            continue
        is_used[first] = is_used[second] = True
        gains = gain[BLOCK * first : BLOCK * (first + 1), BLOCK * second : BLOCK * (second + 1)]
        i, j = np.unravel_index(int(np.argmax(gains)), gains.shape)
        swaps.append((int(BLOCK * first + i), int(BLOCK * second + j)))
    return swaps


def reorder(
    make_network: Callable[[], FileNetwork], apply_order: Callable[[Order], object], patterns: Sequence[str]
) -> str:
    """Reorders the pairs of a model's first layer so that more blocks are 0, and checks that its network still computes
    the same. Returns the gain as a text.

    make_network: returns the model's present integer network. apply_order: reorders the model. patterns: the files
    whose positions the order is searched on. Raises ValueError if the network evaluates differently than before, and
    for what `find_order` refuses. Raises DataError or ConfigError for the data.
    """
    network = make_network()
    positions = read_positions(patterns, network.inputs, _OPTION)
    try:
        sparsity = find_order(network.activations, positions)
    except ValueError as error:
        raise ValueError(f"{_OPTION}: {error}") from None
    apply_order(sparsity.order)
    check_equal_evaluations(network, make_network(), "its pairs in another order", positions[:_COMPARED])
    return str(sparsity)
