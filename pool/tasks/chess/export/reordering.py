"""Puts the pairs of a model's first layer into a sparser order, and proves that its network computes the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pool.tasks.chess.export.proof import check_same
from pool.tasks.chess.export.sparsity import Order, find_order
from pool.tasks.chess.network import LayeredNetwork
from pool.tasks.chess.sampled import sampled_positions

_OPTION = "--permute"
_COMPARED = 256  # of the positions, besides the probe positions


def reorder(network_of: Callable[[], LayeredNetwork], put: Callable[[Order], object], patterns: Sequence[str]) -> str:
    """`network_of`: the model's integers as they are; `put`: changes the model. Returns what is gained, in words.

    Raises ValueError if the network evaluates to something else than before, and for what `find_order` refuses;
    DataError, ConfigError for the data.
    """
    network = network_of()
    positions = sampled_positions(patterns, network.inputs, _OPTION)
    try:
        found = find_order(network.activations, positions)
    except ValueError as error:
        raise ValueError(f"{_OPTION}: {error}") from None
    put(found.order)
    check_same(network, network_of(), "its pairs in another order", positions[:_COMPARED])
    return str(found)
