"""The numbers of a simulated run: chains of hashes, so that whatever is added twice, left out, taken from
elsewhere or in another order ends in other numbers. What a step must give is written here once more, without scheduler,
messages or slots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loader.stream.interface import Cursor
from tests.pool.simulation.setup import Setup

Weights = tuple[int, ...]  # a number a bucket

BUFFERS = -1  # stands where a bucket's number would; those of member m for BUFFERS - m
COLLECTED = -2  # no text: its hash would be another in each process
LARGEST = 8  # groups of a step, at most: a power of two


@dataclass(frozen=True)
class Version:
    """All that a step changes."""

    weights: Weights
    optimizer: tuple[int, ...]  # a number a bucket
    buffers: tuple[int, ...]  # a number a member
    averages: tuple[int, ...]  # a number a member


def cursor_of(batch: int) -> Cursor:
    """Where a batch begins in the stream; a batch has 3 entries, an epoch 7 batches."""
    return Cursor(batch, batch // 7, batch % 7, 3 * batch)


def content(cursor: Cursor) -> int:
    """What the stream makes of the data that begin at a cursor."""
    return hash((cursor.epoch, cursor.window, cursor.entry)) if cursor.entry >= 0 else -2


def first_version(setup: Setup) -> Version:
    count = setup.rules.num_buckets
    nothing = (0,) * len(setup.members)
    return Version(tuple(range(count)), tuple(range(count)), nothing, nothing)


def weights_of(setup: Setup, weights: Weights, member: int) -> Weights:
    """A member's own."""
    return tuple(weights[bucket] for bucket in setup.buckets_of(member))


def gradient(weights: Weights, batch: int, bucket: int) -> int:
    return hash((weights, batch, bucket))


def loss(weights: Weights, batch: int) -> float:
    return float(hash((weights, batch)) % 1000)


def collected(weights: Weights, average: int, batch: int) -> int:
    """What a worker leaves of a validation batch for metrics, of weights and of their average."""
    return hash((COLLECTED, weights, average, batch))


def metric(arrays: Sequence[int]) -> float:
    """A number that depends on the order of what was collected."""
    return float(hash(tuple(arrays)) % 1000)


def add(left: int, right: int) -> int:
    """A sum that depends on the order."""
    return hash((left, right))


def tree(gradients: dict[int, int], first: int, size: int) -> int | None:
    """I2: the node of the tree that covers `size` places, a power of two, from `first` on; None if there is nothing in
    it. `gradients`: of groups, by place."""
    if size == 1:
        return gradients.get(first)
    left, right = tree(gradients, first, size // 2), tree(gradients, first + size // 2, size // 2)
    return right if left is None else left if right is None else add(left, right)


def stepped(weight: int, state: int, total: int, batches: int, reductions: int) -> tuple[int, int]:
    """One bucket's weights and optimizer state after a step; without a batch nothing changes. `reductions`: of the
    learning rate so far."""
    if batches == 0:
        return weight, state
    state = hash((state, total, batches))
    return hash((weight, state, reductions)), state


def averaged(setup: Setup, average: int, version: int, weights: Weights) -> int:
    """A member's average, when this version of its weights is complete."""
    return hash((average, version, weights)) if setup.average.includes(version) else average


def next_version(
    setup: Setup, version: Version, step: int, batches: Mapping[int, Sequence[int]], reductions: Sequence[int]
) -> Version:
    """What the step must give; `batches`: that make it, by member; frozen members are left as they are; `reductions`:
    of each member's learning rate so far."""
    weights, optimizer, buffers = list(version.weights), list(version.optimizer), list(version.buffers)
    first = step * setup.rules.batches_per_step
    for member, own in batches.items():
        before = weights_of(setup, version.weights, member)
        for bucket in setup.buckets_of(member):
            groups: dict[int, int] = {}
            for b in own:
                place, value = (b - first) // setup.rules.batches_per_group, gradient(before, b, bucket)
                groups[place] = add(groups[place], value) if place in groups else value
            total = tree(groups, 0, LARGEST)
            before_it = weights[bucket], optimizer[bucket]
            weights[bucket], optimizer[bucket] = stepped(*before_it, total or 0, len(own), reductions[member])
        if setup.rules.has_buffers and first in own:
            buffers[member] = gradient(before, first, BUFFERS - member)
    averages = list(version.averages)
    for member in batches:
        averages[member] = averaged(setup, averages[member], step + 1, weights_of(setup, tuple(weights), member))
    return Version(tuple(weights), tuple(optimizer), tuple(buffers), tuple(averages))


def batches_of(setup: Setup, step: int) -> range:
    return range(step * setup.rules.batches_per_step, (step + 1) * setup.rules.batches_per_step)


def undisturbed(setup: Setup, steps: int) -> Version:
    """What a run must end with."""
    version, training = first_version(setup), set(setup.members)
    values: dict[int, list[float]] = {member: [] for member in setup.members}  # of validations
    for step in range(steps):
        every = setup.rules.validate_every
        if setup.rules.collects and every and step % every == 0:
            for member in setup.members:
                values[member].append(measured(setup, version, member))
            training -= {member for member in training if stops_early(setup, values[member][1:])}
        batches = {
            member: [b for b in batches_of(setup, step) if not setup.is_bad(member, b)] for member in sorted(training)
        }
        if setup.rules.on_bad_batch == "stop":
            training = {member for member in training if len(batches[member]) == setup.rules.batches_per_step}
        reduced = [reductions(setup, member, values[member]) for member in setup.members]
        version = next_version(setup, version, step, {member: batches[member] for member in sorted(training)}, reduced)
    return version


def measured(setup: Setup, version: Version, member: int) -> float:
    """The metric of a member with a version of the weights."""
    own = weights_of(setup, version.weights, member)
    average = version.averages[member]
    return metric([collected(own, average, batch) for batch in range(setup.rules.validation.batches)])


def stops_early(setup: Setup, values: Sequence[float]) -> bool:
    """`values`: of the validations after the first step so far; the first of the best is what counts."""
    patience = setup.rules.early_stopping
    if patience is None or not values:
        return False
    return len(values) - 1 - list(values).index(max(values)) >= patience


def reductions(setup: Setup, member: int, values: Sequence[float]) -> int:
    """How often the learning rate must have been reduced; `values`: of all validations so far."""
    rule = setup.rules.plateaus[member] if setup.rules.plateaus else None
    if rule is None:
        return 0
    count, no_better = 0, 0
    for number, value in enumerate(values):
        no_better = 0 if value > max(values[:number], default=-1.0) else no_better + 1
        if no_better > rule.patience:
            count, no_better = count + 1, 0
    return count
