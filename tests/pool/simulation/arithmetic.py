"""The numbers of a simulated run: chains of hashes, so that whatever is added twice, left out, taken from
elsewhere or in another order ends in other numbers. What a step must give is written here once more, without books,
messages or slots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loader.stream import Cursor
from tests.pool.simulation.setup import Setup

Weights = tuple[int, ...]  # a number a bucket

BUFFERS = -1  # stands where a bucket's number would
LARGEST = 8  # batches of a step, at most: a power of two


@dataclass(frozen=True)
class Version:
    """All that a step changes."""

    weights: Weights
    optimizer: tuple[int, ...]  # a number a bucket
    buffers: int


def cursor_of(batch: int) -> Cursor:
    """Where a batch begins in the stream; a batch has 3 entries, an epoch 7 batches."""
    return Cursor(batch, batch // 7, batch % 7, 3 * batch)


def content(cursor: Cursor) -> int:
    """What the stream makes of the data that begin at a cursor."""
    return hash((cursor.epoch, cursor.window, cursor.entry)) if cursor.entry >= 0 else -2


def first_version(setup: Setup) -> Version:
    count = setup.rules.num_buckets
    return Version(tuple(range(count)), tuple(range(count)), 0)


def gradient(weights: Weights, batch: int, bucket: int) -> int:
    return hash((weights, batch, bucket))


def loss(weights: Weights, batch: int) -> float:
    return float(hash((weights, batch)) % 1000)


def collected(weights: Weights, batch: int) -> int:
    """What a worker leaves of a validation batch for metrics."""
    return hash(("collected", weights, batch))


def metric(arrays: Sequence[int]) -> float:
    """A number that depends on the order of what was collected."""
    return float(hash(tuple(arrays)) % 1000)


def add(left: int, right: int) -> int:
    """A sum that depends on the order."""
    return hash((left, right))


def tree(gradients: dict[int, int], first: int, size: int) -> int | None:
    """I2: the node of the tree that covers `size` places, a power of two, from `first` on; None if there is nothing in
    it. `gradients`: by place."""
    if size == 1:
        return gradients.get(first)
    left, right = tree(gradients, first, size // 2), tree(gradients, first + size // 2, size // 2)
    return right if left is None else left if right is None else add(left, right)


def stepped(weight: int, state: int, total: int, batches: int) -> tuple[int, int]:
    """One bucket's weights and optimizer state after a step; without a batch nothing changes."""
    if batches == 0:
        return weight, state
    state = hash((state, total, batches))
    return hash((weight, state)), state


def next_version(setup: Setup, version: Version, step: int, batches: Sequence[int]) -> Version:
    """What the step must give that is made of `batches`."""
    weights = []
    optimizer = []
    for bucket, (weight, state) in enumerate(zip(version.weights, version.optimizer, strict=True)):
        first = step * setup.rules.batches_per_step
        total = tree({b - first: gradient(version.weights, b, bucket) for b in batches}, 0, LARGEST)
        weight, state = stepped(weight, state, total or 0, len(batches))
        weights.append(weight)
        optimizer.append(state)
    buffers = version.buffers
    first = step * setup.rules.batches_per_step
    if setup.rules.has_buffers and first in batches:
        buffers = gradient(version.weights, first, BUFFERS)
    return Version(tuple(weights), tuple(optimizer), buffers)


def batches_of(setup: Setup, step: int) -> range:
    return range(step * setup.rules.batches_per_step, (step + 1) * setup.rules.batches_per_step)


def undisturbed(setup: Setup, steps: int) -> Version:
    """What a run must end with."""
    version = first_version(setup)
    bad = setup.bad
    for step in range(steps):
        version = next_version(setup, version, step, [b for b in batches_of(setup, step) if b not in bad])
    return version
