"""The order in which the gradients of a step are added up (I2): a fixed binary tree over its groups. Pure.

The groups of a step are the leaves of the tree, 0, 1, 2 ... A node of level L covers 2^L leaves, from a multiple of 2^L
on, and is the sum of its two halves, left + right. Where one half holds no group that counts, the node is the sum of
its other half. So a node depends on the leaves that it covers and on nothing else: it can be added up early, in any
order of arrival, or elsewhere.

`pool/kernels/cpu/reduce/tree.h` has the same tree for many numbers at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Protocol, TypeVar


class HasLeaf(Protocol):
    """A group's gradients, or the sum of a whole node. The leaf of a node is that of any group in it."""

    @property
    def leaf(self) -> int: ...


A = TypeVar("A", bound=HasLeaf)
T = TypeVar("T")


def join_into_nodes(addends: Sequence[A], leaves: range) -> list[list[A]]:
    """Cuts addends, which ascend by leaf, into the fewest nodes that are complete.

    `leaves`: those whose groups are among the addends, or do not count. A node is complete if it covers no leaf outside
    of them.
    """
    nodes: list[list[A]] = []
    for addend in addends:
        _join_last_nodes(nodes, range(leaves.start, addend.leaf))
        nodes.append([addend])
    _join_last_nodes(nodes, leaves)
    return nodes


def max_nodes(num_groups: int) -> int:
    """Returns the greatest number of sums that `join_into_nodes` leaves of a step, before its last group is added."""
    return max(1, num_groups.bit_length() - 1)


def max_nodes_anywhere(num_groups: int) -> int:
    """Returns the greatest number of sums that `join_into_nodes` leaves of consecutive groups anywhere in a step.

    Nodes get larger up to the middle of the groups, and smaller again after it.
    """
    return max(1, 2 * (num_groups + 1).bit_length() - 2)


def tree_sum(leaves: Sequence[int], values: Sequence[T], add: Callable[[T, T], T]) -> T:
    """Adds values along the tree. `leaves`: those of the values, ascending; there is at least one."""
    if len(values) == 1:
        return values[0]
    levels = [_common_level(left, right) for left, right in pairwise(leaves)]
    middle = levels.index(max(levels)) + 1  # where the halves of the topmost node meet
    left_sum = tree_sum(leaves[:middle], values[:middle], add)
    right_sum = tree_sum(leaves[middle:], values[middle:], add)
    return add(left_sum, right_sum)


def _join_last_nodes(nodes: list[list[A]], leaves: range) -> None:
    """Joins the last two nodes, again and again, as long as the smallest node that holds both covers only `leaves`."""
    while len(nodes) > 1:
        covered = _smallest_node(nodes[-2][-1].leaf, nodes[-1][0].leaf)
        if covered.start < leaves.start or covered.stop > leaves.stop:
            return
        last = nodes.pop()
        nodes[-1] += last


def _smallest_node(left: int, right: int) -> range:
    """Returns the leaves of the smallest node that holds two leaves."""
    level = _common_level(left, right)
    return range(left >> level << level, ((right >> level) + 1) << level)


def _common_level(left: int, right: int) -> int:
    """Returns the level of the smallest node that holds two leaves, `left` below `right`."""
    assert left < right, f"I2: leaf {right} after {left}"
    return (left ^ right).bit_length()
