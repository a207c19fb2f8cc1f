"""The order in which the gradients of a step are added up (I2): a fixed binary tree over its groups. Pure.

The groups of a step have places, 0, 1, 2 ... A node of level L covers the 2^L places from a multiple of 2^L on and is
the sum of its two halves, left + right. Where a half holds no group that counts, the node is the other half. So a node
depends on what it covers and on nothing else: it can be added up early, in any order of arrival, or elsewhere.

`pool/kernels/cpu/fold/tree.h` has the same tree for many numbers at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Protocol, TypeVar


class Placed(Protocol):
    """A group's gradients, or the sum of a whole node. The leaf of a node is that of any group in it."""

    @property
    def leaf(self) -> int: ...


A = TypeVar("A", bound=Placed)
T = TypeVar("T")


def join_into_nodes(addends: Sequence[A], places: range) -> list[list[A]]:
    """Cuts addends, which ascend by leaf, into the fewest nodes that are complete.

    `places`: all their groups are among the addends, or do not count. So a node is complete if it covers no place
    outside.
    """
    joined: list[list[A]] = []
    for addend in addends:
        _join(joined, range(places.start, addend.leaf))
        joined.append([addend])
    _join(joined, places)
    return joined


def most_nodes(groups: int) -> int:
    """Returns how many sums at most `join_into_nodes` leaves of a step of `groups` groups, before the last is added."""
    return max(1, groups.bit_length() - 1)


def most_nodes_between(groups: int) -> int:
    """Returns the same for `groups` groups anywhere in a step: nodes grow up to their middle, and get smaller again."""
    return max(1, 2 * (groups + 1).bit_length() - 2)


def tree_sum(places: Sequence[int], values: Sequence[T], add: Callable[[T, T], T]) -> T:
    """Adds values along the tree. `places`: of the values, ascending; there is at least one."""
    if len(values) == 1:
        return values[0]
    levels = [_level(left, right) for left, right in pairwise(places)]
    cut = levels.index(max(levels)) + 1  # where the halves of the topmost node meet
    return add(tree_sum(places[:cut], values[:cut], add), tree_sum(places[cut:], values[cut:], add))


def _join(nodes: list[list[A]], places: range) -> None:
    """Joins the last two nodes, as long as the smallest node that holds both covers only `places`."""
    while len(nodes) > 1:
        covered = _smallest(nodes[-2][-1].leaf, nodes[-1][0].leaf)
        if covered.start < places.start or covered.stop > places.stop:
            return
        last = nodes.pop()
        nodes[-1] += last


def _smallest(left: int, right: int) -> range:
    """Returns the places of the smallest node that holds both."""
    level = _level(left, right)
    return range(left >> level << level, ((right >> level) + 1) << level)


def _level(left: int, right: int) -> int:
    """Returns the level of the smallest node that holds two places, `left` below `right`."""
    assert left < right, f"I2: place {right} after {left}"
    return (left ^ right).bit_length()
