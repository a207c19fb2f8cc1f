"""The bytes that a step sends between machines, and the time they take. Pure.

Each machine sends each of the others what its share adds up to: of a table the rows that its batches touch, of
everything else all numbers. So with M machines it sends (M - 1) times a gradient, and receives as much meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass

from pool.exchange.groups import Groups
from pool.exchange.plan import Plan
from pool.kernels.tree import join_into_nodes

_ROW_NUMBER = 4  # bytes


@dataclass(frozen=True)
class _Place:
    place: int


@dataclass(frozen=True)
class StepTraffic:
    """Bytes of one step, at most: if the batches of a share touch all rows."""

    table: int  # numbers of tables' rows, and their row numbers
    dense: int  # all else
    machines: int

    @property
    def sent(self) -> int:
        """Returns the bytes that one machine sends, to all others."""
        return (self.machines - 1) * (self.table + self.dense)

    def seconds(self, gigabits: float) -> float:
        """Returns the time that takes at this rate, both ways at once."""
        return self.sent * 8 / (gigabits * 1e9)


def step_traffic(plan: Plan, groups: Groups, machines: int) -> StepTraffic:
    """Returns the traffic of a step; of machines with shares of different size that of the one that sends most."""
    most = max(
        len(join_into_nodes([_Place(place) for place in share], share))
        for share in (groups.share(machine, machines) for machine in range(machines))
    )
    table = sum(
        tensor.nbytes + _ROW_NUMBER * tensor.shape[0] for tensor in plan.parameters if tensor.sparse_field is not None
    )
    dense = sum(tensor.nbytes for tensor in plan.parameters if tensor.sparse_field is None)
    return StepTraffic(most * table, most * dense, machines)
